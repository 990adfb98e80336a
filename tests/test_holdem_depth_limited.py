"""Depth-limited streets of hold'em, nested solving and translated policies, against the whole
tree."""

import dataclasses
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
from solvers.holdem.holdem_solution import HoldemSolution
from solvers.holdem.policy_translation import mixture_policy, translated_tree_policy
from solvers.holdem.street_boards import disjoint_hands
from solvers.holdem.subgame_below import subgame_part
from solvers.holdem.whole_games import whole_game_tree
from solvers.sequence_form import uniform, unpack

# each street has at most one bet; hands of two of eight cards
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
FIRST, SECOND = 1, 0  # players in the order of acting
CHOICES = 3


@functools.cache
def whole():
    return whole_game_tree(GAME, sizes=SIZES, showdowns="products")


@functools.cache
def cut(choices=(1, CHOICES)):
    return cut_street(whole(), choices=choices)


@functools.cache
def blueprint():
    """A policy that is no equilibrium."""
    tree = whole().sequence_form
    state = cfr.run(tree, cfr.init(tree), solver=cfr.cfr_plus(), num_iterations=10)
    return cfr.average_policy(tree, state)


@functools.cache
def blueprint_values():
    below = street_leaf_values.below_leaves(cut())
    return street_leaf_values.leaf_values(below, whole().sequence_form, blueprint())


def as_blueprint(street):
    """Values of leaves if all strategies to choose from are the blueprint."""
    values = blueprint_values()[:, None, None]
    return jnp.broadcast_to(values, (len(values), *street.choices, *values.shape[3:]))


def per_pair(value):
    return np.asarray(value) / whole().total_weight


def random_policies(game, seed):
    """A random policy for both players."""
    policies = []
    for rows, key in zip(
        unpack(game, uniform(game)), jax.random.split(jax.random.key(seed)), strict=True
    ):
        drawn = jnp.where(rows > 0, jax.random.uniform(key, rows.shape, minval=0.01), 0)
        policies.append(drawn / drawn.sum(axis=1, keepdims=True))
    return tuple(policies)


@pytest.mark.parametrize(
    "choices", [(CHOICES, 1), *(pytest.param((n, CHOICES), marks=pytest.mark.slow) for n in (1, 2))]
)
def test_values_of_leaves_are_those_of_the_whole_tree(choices):
    """For any policy of the first street, if all strategies to choose from are the blueprint."""
    depth_limited = cut(choices)
    game = depth_limited.with_values(as_blueprint(depth_limited))
    for seed in range(3):
        street = random_policies(game, seed)
        embedded = depth_limited.embed(street, blueprint())
        of_whole = evaluation.expected_value(whole().sequence_form, embedded)
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

    values = np.asarray(jax.lax.map(rolled_out, jax.random.split(jax.random.key(0), draws)))
    error = values.std(axis=0) / draws**0.5
    assert (error.max(axis=(1, 2)) > 0).all()
    assert (np.abs(values.mean(axis=0) - blueprint_values()) < 5 * error + 1).all()


def test_biased_policies():
    """Ten times as likely to fold, to call, to raise."""
    rows = unpack(whole().sequence_form, uniform(whole().sequence_form))
    biased = street_continuations.biased_policies(whole(), rows, player=FIRST)
    first = whole().layouts[FIRST].first_decision[0]
    fold, call, _ = whole().betting.actions[0]
    assert (fold, call) == ("fold", "call")
    np.testing.assert_allclose(biased[0], rows[FIRST])
    likely = np.full((3, 3), 1 / 12) + np.eye(3) * 9 / 12
    np.testing.assert_allclose(biased[1:, first * 28], likely, rtol=1e-6)


def test_a_part_plays_like_the_whole():
    """A policy of what follows a leaf is embedded in exactly these decisions."""
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
    """Lower and upper bound of the street's value for the first player, after 400 iterations."""
    game = cut(values.shape[1:3]).with_values(street_continuations.first_values(values, counts))
    state = cfr.run(game, cfr.init(game), solver=cfr.pcfr_plus(), num_iterations=400)
    best = per_pair(evaluation.best_response_value(game, cfr.average_policy(game, state)))
    return -best[SECOND], best[FIRST]


@pytest.mark.slow
def test_more_strategies_are_never_worse_for_the_player_who_chooses():
    values = generated((1, CHOICES))
    np.testing.assert_allclose(values[:, 0, 0], blueprint_values())
    worth = [worth_of_street(values, (1, count)) for count in range(1, CHOICES + 1)]
    assert all(low <= high + 1e-3 for low, high in worth)
    (_, first_high), (second_low, _), (third_low, _) = worth
    assert second_low > first_high + 0.1  # the first response does win something
    assert third_low > second_low - 0.1
    weaker = generated((1, CHOICES), weaken=True)  # from the second response on
    np.testing.assert_allclose(weaker[:, :, :2], values[:, :, :2])
    assert float(jnp.abs(weaker[:, :, 2] - values[:, :, 2]).max()) > 1


@pytest.mark.slow
def test_both_generate_strategies():
    """The first ones are those that each player generates alone; each player gains by its own."""
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


ALONE = [pytest.param((player,), marks=pytest.mark.slow) for player in (FIRST, SECOND)]


@pytest.mark.slow
@pytest.mark.parametrize("choosers", [*ALONE, (FIRST, SECOND)])
def test_weakened_strategies_do_not_beat_the_blueprint(choosers):
    """Against the opponent's blueprint, no best response on the street does better with them."""
    depth_limited = cut(tuple(CHOICES if player in choosers else 1 for player in range(2)))
    even = unpack(whole().sequence_form, uniform(whole().sequence_form))
    street = random_policies(depth_limited.sequence_form, 0)
    policy = depth_limited.embed(street, blueprint())  # by which the opponent reaches the leaves
    response = evaluation.best_response(whole().sequence_form, policy)
    strategies = [rows[None] for rows in blueprint()]
    for player in choosers:
        strategies[player] = jnp.stack([blueprint()[player], response[player], even[player]])
    below = street_leaf_values.below_leaves(depth_limited)
    values = street_continuations.pairwise_leaf_values(depth_limited, below, tuple(strategies))
    lowered = street_continuations.weakened_leaf_values(depth_limited, values, policy)
    for player in choosers:
        alone = tuple(CHOICES if p == player else 1 for p in range(2))
        least, weak, strong = (
            per_pair(
                evaluation.best_response_value(depth_limited.with_values(some), street)[player]
            )
            for some in (
                street_continuations.first_values(values, (1, 1)),
                street_continuations.first_values(lowered, alone),
                street_continuations.first_values(values, alone),
            )
        )
        assert strong > least + 0.1
        assert weak == pytest.approx(least, abs=1e-3)


@pytest.mark.slow
def test_solving_below_a_leaf_keeps_the_promise():
    """The opponent's best response gains no more than the opt-out values."""
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


def test_promises_are_the_values_of_the_leaf():
    """Those of the opponent's hands under the blueprint, given the resolver's reach."""
    values = as_blueprint(cut())
    leaf, game = int(cut().leaves[0]), cut().with_values(values)
    promises = nested_street_solving.promised_leaf_values(
        cut(), values, random_policies(game, 0), resolver=SECOND
    )
    opt_out, reach = (of_leaves[0] for of_leaves in promises)
    part = subgame_part(whole(), leaf)
    reaches = tuple(jnp.ones_like(opt_out) if p == FIRST else reach for p in range(2))
    below = translated_tree_policy(part.tree, whole(), blueprint(), {leaf: 1.0})
    played = evaluation.expected_value(part.tree.sequence_form, below, reaches)
    np.testing.assert_allclose(per_pair(opt_out.sum()), per_pair(played)[FIRST], atol=1e-3)
    assert 0 < reach.min() < reach.max() <= 1


# after a bet the opponent folds or calls; after a call it checks or bets
BET, CALL = 2, 1


@pytest.mark.slow
@pytest.mark.parametrize("choices", [(1, CHOICES), (CHOICES, 2)])
@pytest.mark.parametrize(("action", "opponent"), [(BET, FIRST), (CALL, FIRST), (CALL, SECOND)])
def test_promises_at_leaves_add_up_to_opt_out_values(action, opponent, choices):
    """If leaves have the promised values, the opponent's values at the root are its opt-out values;
    without gifts they are at most these."""
    part = subgame_part(whole(), int(whole().betting.child[0, action]))
    answer = cut_street(part.tree, choices=choices)
    pairs = jnp.asarray(
        pair_sums(disjoint_hands(*whole().hands).astype(float), answer.classes), jnp.float32
    )
    shape = (len(answer.leaves), *choices, *answer.num_classes)
    values = 300 * jax.random.normal(jax.random.key(0), shape)
    values = values * jnp.broadcast_to(pairs, shape)
    street = random_policies(answer.sequence_form, 1)

    def at_root(values):
        game = answer.with_values(values)
        best = evaluation.root_best_response_values(game, street)[opponent]
        return answer.of_hands(best, opponent)

    before = at_root(values)
    opt_out = before + answer.of_hands(jnp.linspace(-900, 900, 4), opponent)
    first_hands = np.unique(answer.classes[1 - opponent], return_index=True)[1]
    for gifts in (False, True):
        promises, reaches = nested_street_solving.promised_leaf_values(
            answer, values, street, resolver=1 - opponent, opt_out=opt_out, gifts=gifts
        )
        met = (pairs if opponent == 0 else pairs.T)[None] * reaches[:, None, first_hands]
        kept = answer.of_classes(promises, opponent) / met.sum(axis=2)  # per unit of reach
        kept = kept[:, :, None] if opponent == 0 else -kept[:, None]
        kept = kept * pairs[None]
        after = at_root(jnp.broadcast_to(kept[:, None, None], shape))
        expected = opt_out if gifts else jnp.minimum(before, opt_out)
        np.testing.assert_allclose(after, expected, atol=0.05)
        assert float(jnp.abs(after - before).max()) > 20


def test_known_bets_are_translated_to_themselves():
    """An answer to a known bet plays the blueprint, and its leaves keep their values."""
    made = int(whole().betting.child[0, 2])
    part = subgame_part(whole(), made)
    policy = translated_tree_policy(part.tree, whole(), blueprint(), {made: 1.0})
    for rows, expected in zip(part.embed(policy, blueprint()), blueprint(), strict=True):
        np.testing.assert_allclose(rows, expected, atol=1e-5)
    street = cut_street(part.tree, choices=(1, CHOICES))
    values = as_blueprint(cut())
    leaves = counterparts(part.tree.betting, whole().betting, made)[street.leaves]
    np.testing.assert_allclose(
        transferred_leaf_values(street, cut(), values, {made: 1.0}),
        values[np.searchsorted(cut().leaves, leaves)],
    )


def test_mixtures_of_policies():
    """The value of a policy drawn before play is the mean of the values."""
    tree = whole().sequence_form
    game = cut().sequence_form
    even = unpack(tree, uniform(tree))
    passive = tuple(jnp.eye(rows.shape[1])[(rows > 0).argmax(axis=1)] for rows in even)
    policies = [  # the same for all hands of a class
        cut().embed(random_policies(game, seed), below)
        for seed, below in enumerate((even, passive, even))
    ]
    stacked = tuple(map(jnp.stack, zip(*policies[:2], strict=True)))
    both = mixture_policy(tree, stacked, jnp.array([0.25, 0.75]))
    for player in range(2):
        values = [
            evaluation.expected_value(tree, against(policies[2], rows, player))[player]
            for rows in (policies[0][player], policies[1][player], both[player])
        ]
        np.testing.assert_allclose(
            per_pair(values[2]), per_pair(0.25 * values[0] + 0.75 * values[1]), atol=1e-3
        )


def against(policy, rows, player):
    return tuple(rows if p == player else policy[p] for p in range(2))


def test_counterparts_by_size():
    known = betting_of_rules(GAME, sizes=BetSizes.parse("50%,100%,allin", "100%"))
    tree = with_bet(known, 0, 250)
    (bet,) = np.flatnonzero(tree.paid[tree.child[0], FIRST] == 250)
    made = int(tree.child[0, bet])
    taken_for = int(known.child[0, 2])  # the larger bet
    nodes = counterparts(subtree(tree, made), known, taken_for)
    part = subtree(tree, made)
    for node in np.flatnonzero(nodes >= 0).tolist():
        if part.actor[node] >= 0 and known.actor[nodes[node]] >= 0:
            assert part.actor[node] == known.actor[nodes[node]]
            assert part.street[node] == known.street[nodes[node]]
    assert (nodes >= 0).all()
    matrix = action_matrix(tree, 0, known, 0)
    names = [known.actions[0][action] for action in matrix.argmax(axis=1)]
    assert names == ["fold", "call", *names[2:]]
    shown = np.flatnonzero(part.actor == SHOWDOWN)
    assert len(shown) > 0


def test_bad_input():
    with pytest.raises(ValueError, match=r"choices=\(0, 1\) must be at least 1 each"):
        cut_street(whole(), choices=(0, 1))
    halved = dataclasses.replace(whole(), ranges=tuple(w / 2 for w in whole().ranges))
    with pytest.raises(ValueError, match="player 0's range has a hand of weight"):
        cut_street(halved, choices=(1, 1))
    with pytest.raises(ValueError, match="equities are of hands of two cards, from the full deck"):
        HoldemSolution(whole(), blueprint()).root.equity  # noqa: B018
    other = dataclasses.replace(
        whole(), streets=tuple(dataclasses.replace(s, boards=s.boards + 1) for s in whole().streets)
    )
    with pytest.raises(ValueError, match="same boards, merged by the same symmetries of suits"):
        translated_tree_policy(whole(), other, blueprint(), {0: 1.0})
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
