"""Safe re-solving of subgames: gadgets, margins and gifts; hold'em subgames in a batch."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.coin_toss import HEADS
from jaxgames.core import CHANCE
from jaxgames.game_tree import enumerate_game
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import cards_name
from jaxgames.registry import make
from solvers import cfr, evaluation
from solvers.holdem.holdem_solution import HoldemSolution
from solvers.holdem.street_boards import unblocked_hands
from solvers.holdem.subgame_tree import build_holdem_tree
from solvers.sequence_form import build_sequence_form, pack, sweeps, uniform, unpack
from solvers.subgames.depth_limited_subgame import ends_of_rounds
from solvers.subgames.safe_resolving import (
    gifts,
    root_weights,
    with_gadget,
    with_margins,
    without_gadget,
)


def coin_toss(name):
    """The game, and its subgame after "play"."""
    game = make(name)
    whole = build_sequence_form(game)
    played = int(np.flatnonzero(np.asarray(whole.histories.public_states.actor) == 1)[0])
    return whole, build_sequence_form(game, root=played), played


def guessed(tree, policy):
    """The probability of heads in player 1's policy of the subgame, solved with a gadget."""
    policy = without_gadget(tree, policy, resolver=1)
    assert [rows.shape for rows in policy] == [
        (player.num_decisions, tree.num_actions) for player in tree.treeplexes
    ]
    return float(policy[1][np.asarray(tree.treeplexes[1].groups[0].decision).ravel()[0]][HEADS])


def prepared(tree, opt_out, kind):
    if kind == "resolve":
        return with_gadget(tree, opt_out, resolver=1)
    return with_margins(tree, opt_out, root_weights(tree, player=0), resolver=1)


def solved(tree, opt_out, kind):
    safe = prepared(tree, opt_out, kind)
    return guessed(tree, solve(safe, None, 2000))


@pytest.mark.parametrize("kind", ["resolve", "maxmargin"])
@pytest.mark.parametrize(
    ("name", "heads"), [("coin_toss", 0.25), ("coin_toss(swapped=true)", 0.75)]
)
def test_the_guess_makes_selling_and_playing_equally_good(name, heads, kind):
    """Published: player 0 may sell a coin for 0.5 or -0.5, or play; player 1 then guesses."""
    _, tree, _ = coin_toss(name)
    price = 0.5 * jnp.array([0.5, -0.5]) * (-1 if heads > 0.5 else 1)  # chance 1/2 of each side
    assert solved(tree, price, kind) == pytest.approx(heads, abs=0.01)


def guessing(whole, heads):
    """Player 1's guess; player 0 is uniform."""
    policy = list(unpack(whole, uniform(whole)))
    policy[1] = jnp.array([[heads, 1 - heads]])
    return tuple(policy)


def test_gifts_may_be_given_back():
    """Who guesses heads with 5/8 gives 1/4 for each: the opponent sells tails for 1/2 and gets 1/4
    by playing. Maxmargin sees that nothing can be gained in the subgame alone; that raised by the
    gift gives 1/2 + (1/2 + 1/4) / 4. As one of two subgames that chance leads to, with the gift
    spent in it alone (Brown and Sandholm 2017, section 5): 3/4, as in equilibrium."""
    whole, tree, played = coin_toss("coin_toss(swapped=true)")
    before = guessing(whole, 5 / 8)
    opt_out = evaluation.root_best_response_values(tree, before)[0]
    np.testing.assert_allclose(opt_out, [-1 / 8, 1 / 8], atol=1e-6)
    assert solved(tree, opt_out, "maxmargin") == pytest.approx(5 / 8, abs=0.005)
    sequences = whole.histories.public_states.sequences[0][played]
    given = gifts(whole, before, player=0)[sequences]
    np.testing.assert_allclose(given, [0, 1 / 4], atol=1e-6)
    weights = root_weights(tree, player=0)
    np.testing.assert_allclose(weights, [1 / 2, 1 / 2], atol=1e-6)
    for share, heads in ((1, 11 / 16), (2, 3 / 4)):
        raised = opt_out + share * weights * given
        assert solved(tree, raised, "maxmargin") == pytest.approx(heads, abs=0.005)


def test_estimated_gifts_follow_the_policy():
    """Mistakes on the way count: player 0 sells each side as often as it plays it."""
    whole, tree, played = coin_toss("coin_toss")
    before = guessing(whole, 1 / 2)
    np.testing.assert_allclose(evaluation.root_values(tree, before)[0], [0, 0], atol=1e-6)
    sequences = whole.histories.public_states.sequences[0][played]
    given = gifts(whole, before, player=0, estimated=True)[sequences]
    np.testing.assert_allclose(given, [1 / 2, 0], atol=1e-6)


TINY_LEDUC = "leduc_poker(ranks=2,max_raises=1,suit_isomorphism=true)"


@functools.cache
def leduc():
    """The game, and the subgames of its second round."""
    tree = enumerate_game(make(TINY_LEDUC))
    roots = list(map(int, ends_of_rounds(tree)))
    return build_sequence_form(tree), {root: build_sequence_form(tree, root=root) for root in roots}


def random_policy(seed):
    whole, _ = leduc()
    random, policies = np.random.default_rng(seed), []
    for rows in unpack(whole, uniform(whole)):
        weight = random.exponential(size=rows.shape) * np.asarray(rows > 0)
        policies.append(jnp.asarray(weight / weight.sum(axis=1, keepdims=True), jnp.float32))
    return tuple(policies)


def subgame_reach(policy, root):
    """Both players' own reach of a subgame, in order of its root sequences."""
    whole, _ = leduc()
    places, reaches = whole.histories.public_states, []
    for p, (player, table) in enumerate(zip(whole.treeplexes, pack(whole, policy), strict=True)):
        states = np.asarray(places.information_states[p][root])
        order = np.argsort(np.where(states < 0, 10**6, states))[: (states >= 0).sum()]
        reach = sweeps.reach(player, table, jnp.ones(1))
        reaches.append(reach[places.sequences[p][root][order]])
    return tuple(reaches)


@pytest.mark.slow
@pytest.mark.parametrize("resolver", [0, 1])
def test_maxmargin_is_the_best_of_least_margins(resolver):
    """The gadget's value is the least margin, and no other policy has a larger least margin."""
    other, policy = 1 - resolver, random_policy(1)
    for root, tree in leduc()[1].items():
        reach = subgame_reach(policy, root)
        before = evaluation.root_best_response_values(tree, policy, reach)[other]
        weights = root_weights(tree, reach, player=other)
        ranges = [reach, reach]
        least = {}
        for kind in ("maxmargin", "resolve", "unsafe"):
            ranges = list(reach)
            inside = tree
            if kind == "maxmargin":
                inside, ranges[other] = (
                    with_margins(tree, before, weights, resolver=resolver),
                    jnp.ones(1),
                )
            elif kind == "resolve":
                inside = with_gadget(tree, before, resolver=resolver)
                ranges[other] = jnp.ones_like(reach[other])
            solution = solve(inside, tuple(ranges), 3000)
            after = without_gadget(tree, solution, resolver=resolver)
            now = evaluation.root_best_response_values(tree, after, reach)[other]
            least[kind] = float(jnp.min((before - now) / weights))
            if kind == "maxmargin":
                best = evaluation.best_response_value(inside, solution, tuple(ranges))
                assert float(best[other]) == pytest.approx(-least[kind], abs=1e-4)
                chosen = solution[other][-1, : len(before)]  # no margin is larger against this
                most = best[resolver] + chosen @ (before / weights)
                assert float(most) == pytest.approx(least[kind], abs=2e-3)
        assert least["maxmargin"] > 0.01
        assert least["maxmargin"] > max(least["resolve"], least["unsafe"]) - 1e-3


@pytest.mark.parametrize("resolver", [0, 1])
def test_margins_and_gifts_are_safe(resolver):
    """With all subgames re-solved a player is less exploitable than before, with gifts too."""
    whole, subgames = leduc()
    other, policy = 1 - resolver, random_policy(2)
    before = float(evaluation.best_response_value(whole, policy)[other])
    given = gifts(whole, policy, player=other)
    for spent in (0, 1):
        changed = list(policy)
        for root, tree in subgames.items():
            reach = subgame_reach(policy, root)
            opt_out = evaluation.root_best_response_values(tree, policy, reach)[other]
            weights = root_weights(tree, reach, player=other)
            states = np.asarray(whole.histories.public_states.information_states[other][root])
            order = np.argsort(np.where(states < 0, 10**6, states))[: (states >= 0).sum()]
            sequences = whole.histories.public_states.sequences[other][root][order]
            raised = opt_out + spent * weights * given[sequences]
            ranges = list(reach)
            ranges[other] = jnp.ones(1)
            safe = with_margins(tree, raised, weights, resolver=resolver)
            after = without_gadget(tree, solve(safe, tuple(ranges), 1000), resolver=resolver)
            own = np.concatenate([np.asarray(g.decision) for g in tree.treeplexes[resolver].groups])
            changed[resolver] = changed[resolver].at[own].set(after[resolver][own])
        after = float(evaluation.best_response_value(whole, tuple(changed))[other])
        assert after < before + 1e-4
        assert after < before - 0.01


# Hold'em with ten cards and two streets


DECK = tuple(4 * rank + suit for rank in range(5) for suit in range(2))
BOARD = DECK[0], DECK[9]
HANDS = np.array(list(itertools.combinations(DECK, 2)))
SIZES = BetSizes.parse("100%", "")
RIVERS = [card for card in DECK if card not in BOARD]


def built(board, ranges, streets):
    return build_holdem_tree(
        board,
        HANDS,
        ranges,
        build_betting_tree(pot=4, stack=12, streets=streets, sizes=SIZES),
        deals=(1,) * (streets - 1),
        deck=DECK,
        showdowns="products",
        isomorphism=False,
    )


def solve(tree, root_reach, num_iterations):
    state = cfr.init(tree, root_reach=root_reach)
    state = cfr.run(tree, state, solver=cfr.cfr_plus(), num_iterations=num_iterations)
    return cfr.average_policy(tree, state)


@functools.cache
def turn():
    """A turn with two random ranges, and a rough solution of it."""
    ranges = np.random.default_rng(0).uniform(0.1, 1, (2, len(HANDS)))
    tree = built(BOARD, tuple(ranges), 2)
    return HoldemSolution(tree, solve(tree.sequence_form, tree.root_reach, 20))


class Rivers:
    """All rivers after two checks, which have one shape, stacked."""

    def __init__(self):
        self.whole, ones = turn(), np.ones(len(HANDS))
        self.trees = [built((*BOARD, card), (ones, ones), 1) for card in RIVERS]
        self.public = stack([tree.sequence_form for tree in self.trees])
        self.possible = [
            [
                unblocked_hands(hands, np.array([[*BOARD, card]]))[0]
                for hands in self.whole.tree.hands
            ]
            for card in RIVERS
        ]
        nodes = [self.whole.play("check", "check", card=cards_name((card,))) for card in RIVERS]
        reach = [
            tuple(r[hands] for r, hands in zip(node.ranges, self.possible[i], strict=True))
            for i, node in enumerate(nodes)
        ]
        self.reach = stack([jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), r) for r in reach])
        self.pairs = self._pairs(nodes[0].number)
        self.before = stack([self.rows(river) for river in range(len(RIVERS))])

    def _pairs(self, start):
        """Pairs of a node of the river's betting and the same node of the turn's."""
        small, large = self.trees[0].betting, self.whole.tree.betting
        pairs, pending = [], [(0, start)]
        while pending:
            small_node, large_node = pending.pop()
            assert small.actor[small_node] == large.actor[large_node] != CHANCE
            if small.actor[small_node] >= 0:
                pairs.append((small_node, large_node))
                pending += zip(small.child[small_node], large.child[large_node], strict=False)
                pending = [pair for pair in pending if min(pair) >= 0]
        return pairs

    def places(self, river, player):
        """Numbers of the river's decisions, and of the same decisions of the turn."""
        small, large = self.trees[river].layouts[player], self.whole.tree.layouts[player]
        (hands,) = np.nonzero(self.possible[river][player])
        mine, theirs = [], []
        for small_node, large_node in self.pairs:
            if self.whole.tree.betting.actor[large_node] == player:
                count = small.num_hands
                first = small.first_decision[small_node]
                mine += range(first * count, (first + 1) * count)
                first = large.first_decision[large_node] + river
                theirs += (first * large.num_hands + hands).tolist()
        return np.array(mine), np.array(theirs)

    def rows(self, river):
        """The turn's solution as policies of this river."""
        tables = []
        for player, layout in enumerate(self.trees[river].layouts):
            mine, theirs = self.places(river, player)
            table = np.zeros((layout.treeplex.num_decisions, self.public.num_actions), np.float32)
            table[mine] = self.whole.policy[player][theirs, : table.shape[1]]
            tables.append(jnp.asarray(table))
        return tuple(tables)

    def exploited(self, policies, resolver):
        """The most that the opponent gets when the resolver plays these policies on all rivers."""
        changed = list(map(np.array, self.whole.policy))
        for river in range(len(RIVERS)):
            mine, theirs = self.places(river, resolver)
            rows = np.asarray(policies[resolver][river])
            changed[resolver][theirs, : rows.shape[1]] = rows[mine]
        tree = self.whole.tree
        best = evaluation.best_response_value(tree.sequence_form, tuple(changed), tree.root_reach)
        return float(best[1 - resolver]) / tree.total_weight


def stack(trees):
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


@functools.cache
def rivers():
    return Rivers()


@functools.partial(jax.jit, static_argnames=("resolver", "safe"))
def resolved(tree, reach, before, *, resolver, safe):
    """A re-solved river; without a gadget, half of the opponent's range is given less weight."""
    opt_out = evaluation.root_best_response_values(tree, before, reach)[1 - resolver]
    opponent = reach[1 - resolver]
    if not safe:
        low = jnp.arange(len(opponent)) < len(opponent) // 2
        wrong = jnp.where(low if resolver == 0 else ~low, 0.01, 1) * opponent
        return solve(tree, (reach[0], wrong) if resolver == 0 else (wrong, reach[1]), 1000)
    gadget, ones = with_gadget(tree, opt_out, resolver=resolver), jnp.ones_like(opponent)
    policy = solve(gadget, (reach[0], ones) if resolver == 0 else (ones, reach[1]), 1000)
    return without_gadget(tree, policy, resolver=resolver)


@pytest.mark.slow
@pytest.mark.parametrize("resolver", [0, 1])
def test_rivers_resolved_safely_are_not_more_exploitable(resolver):
    """A gadget does not rely on the opponent's range; all rivers after two checks at once."""
    spot, exploited = rivers(), {}
    before = spot.exploited(spot.before, resolver)
    for safe in (True, False):
        resolve_one_river = functools.partial(resolved, resolver=resolver, safe=safe)
        policies = jax.vmap(resolve_one_river)(spot.public, spot.reach, spot.before)
        exploited[safe] = spot.exploited(policies, resolver)
    assert exploited[True] < before + 1e-3
    assert exploited[False] > before + 5e-3


@pytest.mark.slow
def test_boards_of_one_shape_are_solved_side_by_side():
    spot = rivers()
    together = jax.vmap(lambda *problem: solve(*problem, 30))(spot.public, spot.reach)
    for river in (0, 5):
        tree = spot.trees[river].sequence_form
        alone = solve(tree, tuple(r[river] for r in spot.reach), 30)
        for batch, single in zip(together, alone, strict=True):
            np.testing.assert_allclose(batch[river], single, atol=1e-4)


def test_bad_gadgets():
    tree = build_sequence_form(make("kuhn_poker"))
    with pytest.raises(ValueError, match=r"resolver=2 of kuhn_poker.* must be 0 or 1"):
        with_gadget(tree, jnp.zeros(1), resolver=2)
    with pytest.raises(ValueError, match=r"opt_out of kuhn.* has shape \(3,\), must be \(1,\)"):
        with_gadget(tree, jnp.zeros(3), resolver=0)
    with pytest.raises(ValueError, match=r"opt_out of kuhn.* has shape \(2,\), must be"):
        with_margins(tree, jnp.zeros(2), jnp.zeros(2), resolver=0)
    hands = turn().tree.sequence_form
    zeros = jnp.zeros(hands.treeplexes[1].num_roots)
    with pytest.raises(
        ValueError, match=r"sequences of player 1 are laid out by \d+ hands; allowed"
    ):
        with_margins(hands, zeros, zeros, resolver=0)
