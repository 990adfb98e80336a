"""Hold'em cut after its first street: what the whole tree says of the cut one, and of its parts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.core import CHANCE
from jaxgames.holdem.action_translation import action_matrix, counterparts
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_from_sizes import subtree, with_bet
from jaxgames.holdem.betting_tree import SHOWDOWN
from jaxgames.holdem.rules import Poker
from solvers import cfr, evaluation
from solvers.holdem import nested_street_solving, street_continuations, street_leaf_values
from solvers.holdem.depth_limited_street import cut_street, transferred_leaf_values
from solvers.holdem.hand_classes import pair_sums
from solvers.holdem.policy_translation import mixture_policy, translated_tree_policy
from solvers.holdem.street_boards import disjoint_hands
from solvers.holdem.subgame_part import subgame_part
from solvers.holdem.whole_game_tree import whole_game_tree
from solvers.sequence_form import uniform, unpack

# the first player bets, or checks and is bet at; hands of two of eight cards
GAME = Poker(
    limit=False,
    ranks=2,
    suits=4,
    blinds=(100, 50),
    stack=600,
    first=(1, 0),
    max_raises=(1, 1),
    board=(0, 3),
)
SIZES = BetSizes.parse("100%", "100%")
FIRST, SECOND = 1, 0  # to act
CHOICES = 3


@functools.cache
def whole():
    return whole_game_tree(GAME, sizes=SIZES, showdowns="products")


@functools.cache
def cut(choices=(1, CHOICES)):
    return cut_street(whole(), choices=choices)


@functools.cache
def blueprint():
    """Not an equilibrium."""
    tree = whole().sequence_form
    state = cfr.run(tree, cfr.init(tree), solver=cfr.cfr_plus(), num_iterations=10)
    return cfr.average_policy(tree, state)


@functools.cache
def blueprint_values():
    below = street_leaf_values.below_leaves(cut())
    return street_leaf_values.leaf_values(below, whole().sequence_form, blueprint())


def as_blueprint(here):
    """Values of leaves if all choices are the blueprint."""
    values = blueprint_values()[:, None, None]
    return jnp.broadcast_to(values, (len(values), *here.choices, *values.shape[3:]))


def per_pair(value):
    return np.asarray(value) / whole().total_weight


def random_policies(game, seed):
    """Of all decisions of a game."""
    found = []
    for rows, key in zip(
        unpack(game, uniform(game)), jax.random.split(jax.random.key(seed)), strict=True
    ):
        drawn = jnp.where(rows > 0, jax.random.uniform(key, rows.shape, minval=0.01), 0)
        found.append(drawn / drawn.sum(axis=1, keepdims=True))
    return tuple(found)


@pytest.mark.parametrize("choices", [(1, CHOICES), (CHOICES, 1), (2, CHOICES)])
def test_values_of_leaves_are_those_of_the_whole_tree(choices):
    """Whatever is done on the first street, if all choices are the blueprint."""
    here = cut(choices)
    game = here.with_values(as_blueprint(here))
    for seed in range(3):
        street = random_policies(game, seed)
        of_whole = evaluation.expected_value(whole().sequence_form, here.embed(street, blueprint()))
        of_cut = evaluation.expected_value(game, street)
        np.testing.assert_allclose(per_pair(of_cut), per_pair(of_whole), atol=1e-3)
    assert abs(per_pair(of_whole)[0]) > 1


def test_hands_play_by_classes():
    """Two ranks: two pairs, both ranks in one suit or in two."""
    assert cut().num_classes == (4, 4)
    assert sorted(np.bincount(cut().classes[0])) == [4, 6, 6, 12]
    values = jnp.arange(28.0)
    np.testing.assert_allclose(
        cut().of_classes(cut().of_hands(cut().of_classes(values, 0), 0), 0),
        cut().of_classes(values, 0),
        rtol=1e-6,
    )


def test_values_on_sampled_boards_are_right_on_average():
    below = street_leaf_values.below_leaves(cut())
    draws = 300

    def rolled_out(key):
        some = street_leaf_values.sampled_boards(below, key, 2)
        return street_leaf_values.leaf_values(some, whole().sequence_form, blueprint())

    found = np.asarray(jax.lax.map(rolled_out, jax.random.split(jax.random.key(0), draws)))
    error = found.std(axis=0) / draws**0.5
    assert (error.max(axis=(1, 2)) > 0).all()
    assert (np.abs(found.mean(axis=0) - blueprint_values()) < 5 * error + 1).all()


def test_inclined_strategies():
    """Ten times as likely to fold, to call, to raise."""
    rows = unpack(whole().sequence_form, uniform(whole().sequence_form))
    found = street_continuations.biased_policies(whole(), rows, player=FIRST)
    first = whole().layouts[FIRST].first_decision[0]
    fold, call, _ = whole().betting.actions[0]
    assert (fold, call) == ("fold", "call")
    np.testing.assert_allclose(found[0], rows[FIRST])
    likely = np.full((3, 3), 1 / 12) + np.eye(3) * 9 / 12
    np.testing.assert_allclose(found[1:, first * 28], likely, rtol=1e-6)


def test_a_part_plays_like_the_whole():
    """All that is below a leaf is put in its place again."""
    leaf = int(cut().leaves[1])
    part = subgame_part(whole(), leaf)
    assert part.tree.betting.actor[0] == CHANCE
    zeros = tuple(map(jnp.zeros_like, blueprint()))
    policy = unpack(part.tree.sequence_form, uniform(part.tree.sequence_form))
    placed = part.embed(policy, zeros)
    inside = [np.asarray(rows).sum(axis=1) > 0 for rows in placed]
    assert [int(rows.sum()) for rows in inside] == [len(rows) for rows in policy]
    with pytest.raises(ValueError, match="first street"):
        subgame_part(whole(), len(whole().betting.actor) - 1)


def generated(choices, *, weaken=False):
    below = street_leaf_values.below_leaves(cut(choices))
    return street_continuations.self_generated_values(
        cut(choices),
        below,
        blueprint(),
        solver=cfr.pcfr_plus(),
        num_iterations=100,
        weaken=weaken,
    )


def worth_of_street(values, counts):
    """To the first player: a range, after 400 iterations."""
    game = cut(values.shape[1:3]).with_values(street_continuations.first_values(values, counts))
    state = cfr.run(game, cfr.init(game), solver=cfr.pcfr_plus(), num_iterations=400)
    best = per_pair(evaluation.best_response_value(game, cfr.average_policy(game, state)))
    return -best[SECOND], best[FIRST]


@pytest.mark.slow
def test_more_strategies_are_never_worse_for_who_chooses():
    values = generated((1, CHOICES))
    np.testing.assert_allclose(values[:, 0, 0], blueprint_values())
    worth = [worth_of_street(values, (1, count)) for count in range(1, CHOICES + 1)]
    assert all(low <= high + 1e-3 for low, high in worth)
    (_, first_high), (second_low, _), (third_low, _) = worth
    assert second_low > first_high + 0.1  # the first response does win something
    assert third_low > second_low - 0.1
    weaker = generated((1, CHOICES), weaken=True)  # what the first response is to is not
    np.testing.assert_allclose(weaker[:, :, :2], values[:, :, :2])
    assert float(jnp.abs(weaker[:, :, 2] - values[:, :, 2]).max()) > 1


@pytest.mark.slow
def test_both_generate_strategies():
    """Beginning with what they do alone; each gains by its own."""
    values = generated((2, 2))
    np.testing.assert_allclose(values[:, :1], generated((1, 2)))
    np.testing.assert_allclose(values[:, :, :1], generated((2, 1)))
    none, first, second = (worth_of_street(values, (n, m)) for n, m in ((1, 1), (1, 2), (2, 1)))
    both = worth_of_street(values, (2, 2))
    assert first[0] > none[1] + 0.1
    assert second[1] < none[0] - 0.1
    assert second[0] - 1e-3 < both[1]
    assert both[0] < first[1] + 1e-3
    np.testing.assert_allclose(generated((2, CHOICES))[:, :, :2], values)


@pytest.mark.parametrize("choosers", [(FIRST,), (SECOND,), (FIRST, SECOND)])
def test_weakened_strategies_do_not_beat_the_blueprint(choosers):
    """Whatever they are: against the other's blueprint the first street's best choice is it."""
    here = cut(tuple(CHOICES if player in choosers else 1 for player in range(2)))
    even = unpack(whole().sequence_form, uniform(whole().sequence_form))
    street = random_policies(here.sequence_form, 0)
    policy = here.embed(street, blueprint())  # the other's way to the leaves
    response = evaluation.best_response(whole().sequence_form, policy)
    strategies = [rows[None] for rows in blueprint()]
    for player in choosers:
        strategies[player] = jnp.stack([blueprint()[player], response[player], even[player]])
    below = street_leaf_values.below_leaves(here)
    values = street_continuations.pairwise_leaf_values(here, below, tuple(strategies))
    lowered = street_continuations.weakened_leaf_values(here, values, policy)
    for player in choosers:
        alone = tuple(CHOICES if p == player else 1 for p in range(2))
        least, weak, strong = (
            per_pair(evaluation.best_response_value(here.with_values(some), street)[player])
            for some in (
                street_continuations.first_values(values, (1, 1)),
                street_continuations.first_values(lowered, alone),
                street_continuations.first_values(values, alone),
            )
        )
        assert strong > least + 0.1
        assert weak == pytest.approx(least, abs=1e-3)


def test_solving_below_a_leaf_keeps_the_promise():
    """The blueprint is among what can be played there, so what is solved does not lose more."""
    leaf = int(cut().leaves[0])
    part = subgame_part(whole(), leaf)
    values = as_blueprint(cut())
    street = random_policies(cut().with_values(values), 0)
    reach = nested_street_solving.promised_leaf_values(cut(), values, street, resolver=SECOND)[1][0]
    reaches = tuple(jnp.ones_like(reach) if p == FIRST else reach for p in range(2))
    start = unpack(part.tree.sequence_form, uniform(part.tree.sequence_form))
    opt_out = evaluation.root_best_response_values(part.tree.sequence_form, start, reaches)[FIRST]
    policy = nested_street_solving.solve_below(
        part, opt_out, reach, resolver=SECOND, solver=cfr.cfr_plus(), num_iterations=200
    )
    best = evaluation.root_best_response_values(part.tree.sequence_form, policy, reaches)[FIRST]
    excess = jnp.maximum(best - opt_out, 0)
    assert per_pair(excess.sum()) < 0.2
    assert per_pair((opt_out - best).sum()) > 1  # and it gains on a uniform policy


def test_what_is_promised_is_what_the_leaf_is_worth():
    """To the opponent's hands, when the resolver comes there as the first street has it."""
    values = as_blueprint(cut())
    leaf, game = int(cut().leaves[0]), cut().with_values(values)
    promises = nested_street_solving.promised_leaf_values(
        cut(), values, random_policies(game, 0), resolver=SECOND
    )
    opt_out, reach = (found[0] for found in promises)
    part = subgame_part(whole(), leaf)
    reaches = tuple(jnp.ones_like(opt_out) if p == FIRST else reach for p in range(2))
    below = translated_tree_policy(part.tree, whole(), blueprint(), {leaf: 1.0})
    played = evaluation.expected_value(part.tree.sequence_form, below, reaches)
    np.testing.assert_allclose(per_pair(opt_out.sum()), per_pair(played)[FIRST], atol=1e-3)
    assert 0 < reach.min() < reach.max() <= 1


# after a bet the other one folds or calls; after a call the other one checks or bets, too
BET, CALL = 2, 1


@pytest.mark.parametrize("choices", [(1, CHOICES), (CHOICES, 2)])
@pytest.mark.parametrize(("action", "opponent"), [(BET, FIRST), (CALL, FIRST), (CALL, SECOND)])
def test_promises_add_up_to_what_could_have_been_had(action, opponent, choices):
    """If leaves are worth what they promise, the opponent gets at the root what it could have had
    instead; without gifts at most."""
    part = subgame_part(whole(), int(whole().betting.child[0, action]))
    here = cut_street(part.tree, choices=choices)
    pairs = jnp.asarray(
        pair_sums(disjoint_hands(*whole().hands).astype(float), here.classes), jnp.float32
    )
    shape = (len(here.leaves), *choices, *here.num_classes)
    values = 300 * jax.random.normal(jax.random.key(0), shape)
    values = values * jnp.broadcast_to(pairs, shape)
    street = random_policies(here.sequence_form, 1)

    def at_root(values):
        game = here.with_values(values)
        found = evaluation.root_best_response_values(game, street)[opponent]
        return here.of_hands(found, opponent)

    before = at_root(values)
    opt_out = before + here.of_hands(jnp.linspace(-900, 900, 4), opponent)
    first_hands = np.unique(here.classes[1 - opponent], return_index=True)[1]
    for gifts in (False, True):
        promises, reaches = nested_street_solving.promised_leaf_values(
            here, values, street, resolver=1 - opponent, opt_out=opt_out, gifts=gifts
        )
        met = (pairs if opponent == 0 else pairs.T)[None] * reaches[:, None, first_hands]
        kept = here.of_classes(promises, opponent) / met.sum(axis=2)  # by hand of the other
        kept = kept[:, :, None] if opponent == 0 else -kept[:, None]
        kept = kept * pairs[None]
        after = at_root(jnp.broadcast_to(kept[:, None, None], shape))
        expected = opt_out if gifts else jnp.minimum(before, opt_out)
        np.testing.assert_allclose(after, expected, atol=0.05)
        assert float(jnp.abs(after - before).max()) > 20


def test_bets_that_are_known_are_taken_for_themselves():
    """An answer to a known bet plays the blueprint, and its leaves are worth what theirs are."""
    made = int(whole().betting.child[0, 2])
    part = subgame_part(whole(), made)
    policy = translated_tree_policy(part.tree, whole(), blueprint(), {made: 1.0})
    for found, expected in zip(part.embed(policy, blueprint()), blueprint(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    street = cut_street(part.tree, choices=(1, CHOICES))
    values = as_blueprint(cut())
    leaves = counterparts(part.tree.betting, whole().betting, made)[street.leaves]
    np.testing.assert_allclose(
        transferred_leaf_values(street, cut(), values, {made: 1.0}),
        values[np.searchsorted(cut().leaves, leaves)],
    )


def test_who_keeps_to_one_of_two_policies():
    """Mixed beforehand, what it earns is the mean of what they earn."""
    tree = whole().sequence_form
    game = cut().sequence_form
    even = unpack(tree, uniform(tree))
    passive = tuple(jnp.eye(rows.shape[1])[(rows > 0).argmax(axis=1)] for rows in even)
    policies = [  # what hands of a class have in common
        cut().embed(random_policies(game, seed), below)
        for seed, below in enumerate((even, passive, even))
    ]
    stacked = tuple(map(jnp.stack, zip(*policies[:2], strict=True)))
    both = mixture_policy(tree, stacked, jnp.array([0.25, 0.75]))
    for player in range(2):
        earned = [
            evaluation.expected_value(tree, against(policies[2], rows, player))[player]
            for rows in (policies[0][player], policies[1][player], both[player])
        ]
        np.testing.assert_allclose(
            per_pair(earned[2]), per_pair(0.25 * earned[0] + 0.75 * earned[1]), atol=1e-3
        )


def against(policy, rows, player):
    return tuple(rows if p == player else policy[p] for p in range(2))


def test_counterparts_by_size():
    known = betting_of_rules(GAME, sizes=BetSizes.parse("50%,100%,allin", "100%"))
    tree = with_bet(known, 0, 250)
    (bet,) = np.flatnonzero(tree.paid[tree.child[0], FIRST] == 250)
    made = int(tree.child[0, bet])
    taken_for = int(known.child[0, 2])  # the larger one
    found = counterparts(subtree(tree, made), known, taken_for)
    part = subtree(tree, made)
    for node in np.flatnonzero(found >= 0).tolist():
        if part.actor[node] >= 0 and known.actor[found[node]] >= 0:
            assert part.actor[node] == known.actor[found[node]]
            assert part.street[node] == known.street[found[node]]
    assert (found >= 0).all()
    here = action_matrix(tree, 0, known, 0)
    names = [known.actions[0][action] for action in here.argmax(axis=1)]
    assert names == ["fold", "call", *names[2:]]
    shown = np.flatnonzero(part.actor == SHOWDOWN)
    assert len(shown) > 0


def test_bad_input():
    with pytest.raises(ValueError, match=r"choices=\(0, 1\) must be at least 1 each"):
        cut_street(whole(), choices=(0, 1))
    with pytest.raises(ValueError, match=r"values have shape \(1, 1, 3, 4, 4\), must be"):
        cut().with_values(jnp.zeros((1, 1, 3, 4, 4)))
    with pytest.raises(ValueError, match="gifts=True needs opt_out"):
        nested_street_solving.promised_leaf_values(
            cut(), as_blueprint(cut()), blueprint(), resolver=SECOND, gifts=True
        )
    with pytest.raises(ValueError, match="must be probabilities that sum to 1"):
        translated_tree_policy(whole(), whole(), blueprint(), {0: 0.5})
    other = whole_game_tree(
        Poker(
            limit=False,
            ranks=3,
            suits=3,
            blinds=(100, 50),
            stack=200,
            first=(1, 0),
            max_raises=(1, 1),
            board=(0, 3),
        ),
        sizes=SIZES,
    )
    with pytest.raises(ValueError, match="same hands and boards"):
        translated_tree_policy(other, whole(), blueprint(), {0: 1.0})
