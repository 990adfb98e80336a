"""Betting graphs, and UCT for three players: against OpenSpiel and published counts."""

import collections
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blueprint_cases import BUCKETS, random_tables
from bucket_uct_reference import Reference
from holdem_reference import LEDUC, NO_LIMIT
from openspiel_parity import universal_poker
from test_bucket_uct import SETTINGS, random_rows

from jaxgames import make
from jaxgames.core import TERMINAL
from jaxgames.holdem import betting_of_rules, limit_holdem
from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.betting_graph import END, graph_of_rules, graph_of_tree
from jaxgames.holdem.betting_tree import NO_NODE
from jaxgames.holdem.rules import Poker
from solvers.blueprint import betting_walk, bucket_uct
from solvers.blueprint.betting_walk import picked, walk_of_graph
from solvers.blueprint.dealt_hands import DealtHands, deal_hands, draw_cards
from solvers.blueprint.duplicate_match import play_match
from solvers.sampling.episodes import uniform_numbers

# the blinds are no whole numbers of bets, so that shared pots have halves of chips
SMALL = """GAMEDEF
limit
numPlayers = 3
numRounds = 2
blind = 1 2 0
raiseSize = 2 4
firstPlayer = 3 1
maxRaises = 2 1
numSuits = 2
numRanks = 3
numHoleCards = 1
numBoardCards = 0 1
END GAMEDEF
"""
FLOP = """GAMEDEF
limit
numPlayers = 3
numRounds = 2
blind = 5 10 0
raiseSize = 10 10
firstPlayer = 3 1
maxRaises = 3 4
numSuits = 4
numRanks = 13
numHoleCards = 2
numBoardCards = 0 3
END GAMEDEF
"""
SMALL_BUCKETS = (3, 9)


@functools.cache
def walk_of(text, num_buckets, potential=0.5):
    return walk_of_graph(graph_of_rules(parse_game(text)), num_buckets, potential=potential)


@functools.cache
def three_player_graph():
    return graph_of_rules(limit_holdem(players=3))


def small_cards(key, num_deals):
    """Three hands of one card, and the board's card, in the order of dealing."""
    return jnp.argsort(uniform_numbers(key, (6, num_deals)), axis=0)[:4].astype(jnp.int32)


def small_deals(_, key, num_deals, *, num_players):
    """Own rank before the board, and own rank and the board's after it."""
    ranks = small_cards(key, num_deals) // 2
    own, board = ranks[:num_players], ranks[num_players:]
    strength = own + 3 * (own == board).astype(jnp.int32)
    return DealtHands(bucket=jnp.stack([own, 3 * own + board]), strength=strength)


def replayed(game, cards, choose):
    """A hand of OpenSpiel with cards in the order of dealing; `choose` is given each decision's
    number, and returns an action as its place among the legal ones."""
    state, cards, number = game.new_initial_state(), iter(cards), 0
    while not state.is_terminal():
        if state.is_chance_node():
            state.apply_action(int(next(cards)))
        else:
            state.apply_action(state.legal_actions()[choose(state, number)])
            number += 1
    return state


def test_decisions_and_states_of_limit_holdem():
    """Published: 215 million information states and 530 million actions for three players with
    169/1000/100/20 buckets (Heinrich and Silver 2015, Table 1)."""
    graph = three_player_graph()
    assert graph.num_decisions == (90, 4_412, 205_962, 9_501_342)
    walk = walk_of_graph(graph, (169, 1000, 100, 20))
    assert walk.num_states == 215_050_250
    counts = np.asarray(walk.states[:-1], np.int64) * np.asarray(walk.widths[:-1])
    assert round(counts.sum() / 1e6) == 530
    assert len(graph.actor) < 1000


@pytest.mark.parametrize("poker", [LEDUC, dataclasses.replace(NO_LIMIT, bets=("1", "allin"))])
def test_graphs_of_rules_are_those_of_trees(poker):
    """For two players: every node of the tree is a history of the graph, with the same future."""
    tree = graph_of_tree(betting_of_rules(poker))
    graph = graph_of_rules(poker)
    place, history = np.zeros(len(tree.actor), int), np.zeros(len(tree.actor), int)
    for node, children in enumerate(tree.child):
        for action, child in enumerate(children[children != NO_NODE]):
            place[child] = graph.child[place[node], action]
            history[child] = history[node] + graph.offset[place[node], action]
    ends = tree.actor == END
    np.testing.assert_array_equal(graph.actor[place], tree.actor)
    for name in ("added", "still_in", "max_added"):
        np.testing.assert_array_equal(getattr(graph, name)[place], getattr(tree, name), name)
    for name in ("street", "begins"):
        found, expected = getattr(graph, name)[place], getattr(tree, name)
        np.testing.assert_array_equal(found[~ends], expected[~ends], name)
    assert [graph.actions[node] for node in place] == list(tree.actions)
    assert len({*zip(place.tolist(), history.tolist(), strict=True)}) == len(place)
    np.testing.assert_array_equal(np.bincount(place), graph.histories)
    assert graph.max_decisions == tree.max_decisions


def test_shares_of_the_pot_are_of_what_folded_players_have_paid_too():
    """Every way to bet: the chips that each action adds are those of the rules."""
    poker = Poker(
        players=3,
        limit=False,
        stack=150,
        blinds=(5, 10, 0),
        first=(2, 0),
        board=(0, 0),
        bets=("1", "0.8334"),
        raise_sizes=(),
        max_raises=(0, 0),
        hole=1,
        ranks=3,
        suits=1,
    )
    graph, step, seen = graph_of_rules(poker), jax.jit(poker.step), set()

    def descend(state, node):
        pots = node, int(state.spent.sum())
        if int(state.actor) == TERMINAL or pots in seen:
            return
        seen.add(pots)
        for place, action in enumerate(np.flatnonzero(state.legal)):
            after = step(state, jnp.int32(action))
            assert graph.added[node, place] == (after.spent - state.spent)[state.actor]
            descend(after, int(graph.child[node, place]))

    state = poker.init()
    for card in range(3):
        state = step(state, jnp.int32(card))
    descend(state, 0)
    nodes = [node for node, _ in seen]
    assert len(nodes) == len({*nodes}) > 20  # the pot is one at each node


def test_all_ways_to_bet_are_those_of_openspiel():
    """Every sequence of actions with one deal: who acts and how many actions there are, what is
    won, and that each history has information states of its own."""
    game, walk = universal_poker(SMALL), walk_of(SMALL, (1, 1))
    cards = [0, 4, 5, 2]  # two equal hands beat the third one
    ways = []

    def descend(state, actions, seen):
        if state.is_terminal():
            ways.append((actions, seen, state.returns()))
        elif state.is_chance_node():
            descend(state.child(cards[len(state.history()) - len(actions)]), actions, seen)
        else:
            legal = state.legal_actions()
            here = (tuple(actions), state.current_player(), len(legal))
            for place, action in enumerate(legal):
                descend(state.child(action), [*actions, place], [*seen, here])

    descend(game.new_initial_state(), [], [])
    length = walk.max_decisions
    assert max(len(actions) for actions, *_ in ways) == length
    plan = np.array([actions + [0] * (length - len(actions)) for actions, *_ in ways], np.int32)

    def choose(step, spot, _):
        count = sum(legal.astype(jnp.int32) for legal in spot.legal)
        return step + 1, jnp.asarray(plan.T)[step], (spot.state, spot.actor, count)

    nothing = jnp.zeros((3, len(ways)), jnp.int32)
    deals = DealtHands(
        bucket=jnp.stack([nothing] * 2), strength=nothing + jnp.array([1, 2, 2])[:, None]
    )
    won, recorded = betting_walk.walk_down(
        walk, deals, jax.random.key(0), choose, jnp.int32(0), width=1
    )
    np.testing.assert_array_equal(np.array(won).T, 2 * np.array([returns for *_, returns in ways]))
    state_of = {}
    for (actions, seen, _), *numbers in zip(ways, *(np.array(x).T for x in recorded), strict=True):
        states, actors, counts = (each[: len(actions)].tolist() for each in numbers)
        assert [(actor, count) for _, actor, count in seen] == [*zip(actors, counts, strict=True)]
        assert (numbers[0][len(actions) :] == walk.num_states).all()
        for (history, *_), state in zip(seen, states, strict=True):
            assert state_of.setdefault(history, state) == state
    assert sorted(state_of.values()) == list(range(walk.num_states))


def test_random_hands_win_as_in_openspiel():
    """Cards, actions and winnings in a game with a flop, of which some pots are shared."""
    game, walk, num_hands = universal_poker(FLOP), walk_of(FLOP, BUCKETS), 1000
    tables, key = random_tables(BUCKETS, (0, 3)), jax.random.key(1)

    def choose(carry, spot, noise):
        legal = [each.astype(jnp.float32) for each in spot.legal]
        action = picked([legal[0], 3 * legal[1], legal[2]], noise[0])
        return carry, action, action

    @jax.jit
    def play():
        deal_key, play_key = jax.random.split(key)
        deals = deal_hands(tables, deal_key, num_hands, num_players=3)
        cards = draw_cards(uniform_numbers(jax.random.clone(deal_key), (9, num_hands)))
        return cards, betting_walk.walk_down(walk, deals, play_key, choose, (), width=1)

    cards, (won, actions) = jax.tree.map(np.asarray, play())
    returns = np.array(
        [
            replayed(game, own, lambda _, number, moves=moves: int(moves[number])).returns()
            for own, moves in zip(cards.T, actions.T, strict=True)
        ]
    )
    np.testing.assert_array_equal(np.array(won).T, 2 * returns)
    np.testing.assert_array_equal(sum(won), 0)
    assert ((returns > 0).sum(axis=1) == 2).sum() > 5
    assert (np.array(won) % 2).any()


class OpenSpielReference(Reference):
    """The paper's algorithm on hands that OpenSpiel plays, with a constant c; sums are of halves of
    chips."""

    def __init__(self, game, settings):
        self.game, self.potential = game, None
        self.settings = dataclasses.replace(settings, exploration=2 * settings.exploration)
        self.visits, self.sums = (collections.defaultdict(lambda: np.zeros(3, int)) for _ in "ab")

    def episode(self, cards, noise):
        inside, moves, path = [True] * 3, [], []

        def choose(state, step):
            actor, legal = state.current_player(), len(state.legal_actions())
            seen = cards[[actor, 3] if len(state.history()) - step > 3 else [actor]] // 2
            own = (*moves,), actor, *seen.tolist()
            known = own in self.visits
            weights = np.ones(legal, np.float32)
            if inside[actor] and known:
                weights = self.select(own, None, legal, noise[0][step])
            bounds = np.cumsum(weights, dtype=np.float32)
            moves.append(int((noise[1][step] * bounds[-1] >= bounds[:-1]).sum()))
            if inside[actor]:
                path.append((own, actor, moves[-1]))
                inside[actor] = known
            return moves[-1]

        returns = replayed(self.game, cards, choose).returns()
        return [(own, action, int(2 * returns[actor])) for own, actor, action in path]


@pytest.mark.parametrize(("name", "batch"), [("UCT", 1), ("Smooth UCT", 7)])
def test_episodes_of_three_are_those_of_the_paper(name, batch):
    """Visits and sums of all states as from hands of OpenSpiel with the same random numbers."""
    walk = walk_of(SMALL, SMALL_BUCKETS, None)
    expected = OpenSpielReference(universal_poker(SMALL), SETTINGS[name])

    @jax.jit
    def play(learner, number):
        """The learner after a batch, and all random numbers of it."""
        deal_key, key = jax.random.split(jax.random.key(number))
        cards = small_cards(jax.random.clone(deal_key), batch)
        deals = small_deals(None, deal_key, batch, num_players=3)
        noise = jnp.stack(
            [
                uniform_numbers(k, (walk.max_decisions, batch))
                for k in jax.random.split(jax.random.clone(key))
            ]
        )
        after = bucket_uct.play_batch(walk, learner, deals, key, settings=SETTINGS[name])
        return after, (cards, noise)

    learner = bucket_uct.init(walk)
    for number in range(280 // batch):
        learner, drawn = play(learner, number)
        expected.play_batch(*map(np.asarray, drawn))
    visits, low, high = np.moveaxis(np.asarray(learner.table[:-1]), -1, 0)
    found = np.concatenate([visits, low + 2**16 * high], axis=1)[visits.any(axis=1)]
    theirs = [[*expected.visits[own], *expected.sums[own]] for own in expected.visits]
    assert len(theirs) > 80
    assert sorted(found.tolist()) == sorted(np.array(theirs).tolist())


def test_means_and_policies_of_three():
    """A sum of halves of chips is a mean in chips."""
    walk = walk_of(SMALL, SMALL_BUCKETS)
    words = np.zeros((walk.num_states + 1, walk.num_actions, 3), np.int32)
    words[0] = [[2, -9, 0], [4, 5, -1], [0, 0, 0]]
    learner = bucket_uct.init(walk).replace(table=jnp.asarray(words))
    means = np.asarray(bucket_uct._mean(learner.table) / walk.parts)
    np.testing.assert_array_equal(means[0], [-9 / 4, (5 - 2**16) / 8, 0])
    for read in (bucket_uct.average_policy, bucket_uct.greedy_policy):
        policy = np.asarray(read(walk, learner))
        np.testing.assert_allclose(policy[:-1].sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(policy[1:], walk.uniform[1:])


def test_seats_are_alike():
    """Players who change seats at the end of a hand change their winnings."""
    generator = np.random.default_rng(0)
    walk = walk_of(FLOP, BUCKETS)
    strength = jnp.asarray(generator.integers(0, 3, (3, 500)), jnp.int32)
    still_in = generator.integers(0, 2, (3, 500)) | (np.arange(3) == 1)[:, None]
    most = generator.integers(1, 5, 500) * 10
    paid = jnp.asarray(np.where(still_in, most, generator.integers(0, 2, (3, 500)) * 5), jnp.int32)
    winnings = None
    for order in itertools.permutations(range(3)):
        bits = jnp.asarray(2 ** np.arange(3) @ still_in[list(order)], jnp.int32)
        given = [paid[seat] for seat in order], jnp.stack([strength[seat] for seat in order])
        found = np.array(betting_walk._winnings(walk, bits, *given))
        winnings = found if winnings is None else winnings
        np.testing.assert_array_equal(found, winnings[list(order)])
    np.testing.assert_array_equal(winnings.sum(axis=0), 0)


@pytest.mark.slow
def test_matches_on_duplicate_deals():
    """What one wins the others lose; the order in which policies are named does not matter."""
    walk, tables = walk_of(FLOP, BUCKETS), random_tables(BUCKETS, (0, 3))
    policies = [random_rows(walk, seed) for seed in range(3)]
    deals = {"hands": 300, "seed": 0}
    match = play_match(walk, policies, tables, players=(0, 1, 2), **deals)
    assert match.won.sum() == pytest.approx(0, abs=1e-4)
    assert (match.error > 0).all()
    assert match.by_seat.sum() == pytest.approx(0, abs=1e-4)
    assert (match.seat_error > 0).all()
    again = play_match(walk, policies[1:] + policies[:1], tables, players=(2, 0, 1), **deals)
    np.testing.assert_allclose(again.won, np.roll(match.won, -1), atol=1e-5)
    pair = play_match(walk, policies[:2], tables, players=(0, 1, 1), **deals)
    assert pair.won[0] + 2 * pair.won[1] == pytest.approx(0, abs=1e-4)
    with pytest.raises(
        ValueError, match=r"players=\(0, 0\) must be 3 with the numbers of all 1 po"
    ):
        play_match(walk, policies[:1], tables, players=(0, 0), **deals)
    with pytest.raises(ValueError, match="hands=0 must be at least 1"):
        play_match(walk, policies[:1], tables, players=(0, 0, 0), hands=0, seed=0)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"bets of poker.* must not be random"):
        graph_of_rules(make("hunl(bets=random/allin)"))
    graph = graph_of_rules(parse_game(SMALL))
    with pytest.raises(ValueError, match=r"num_buckets=\(3,\) must be of 2 streets"):
        walk_of_graph(graph, (3,))
    with pytest.raises(
        ValueError, match=r"make [\d,]+ information states; fewer than 2,147,483,64"
    ):
        walk_of_graph(graph, (3, 10**9))
    with pytest.raises(ValueError, match="has more than max_nodes=9 nodes"):
        graph_of_rules(parse_game(SMALL), max_nodes=9)
    large = walk_of_graph(three_player_graph(), (169, 1000, 100, 20))
    with pytest.raises(ValueError, match="takes 7,741,809,036 bytes; max_bytes=4,000,000,000 are"):
        bucket_uct.init(large, max_bytes=4_000_000_000)
