"""Safe re-solving: gadget, continual re-solving, and the exploitability of agents."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from belief_cases import listed_policy

from jaxgames.arrays import at
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.coin_toss import HEADS, PLAY, SELL
from jaxgames.core import CHANCE
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import cfr
from solvers.evaluation.belief_exploitability import exploitability as exploitability_of
from solvers.evaluation.belief_exploitability import reach_and_values
from solvers.search import (
    agent_exploitability,
    continual_resolving,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    regret_phase,
)
from solvers.search.agent_exploitability import Chain, agents, longest_path
from solvers.search.exact_below_belief import expand_all
from solvers.search.forest import NUMBER
from solvers.search.search_state import NO_RESOLVER, NO_STEP, Gadget, GrowingTreeCfr, Problem
from solvers.sequence_form import build_sequence_form

SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=8, max_path=2)
search_of = jax.jit(growing_tree_cfr.search, static_argnames="settings")
next_problem = jax.jit(continual_resolving.next_problem, static_argnames="by_policies")


@functools.cache
def compiled(name):
    tree = enumerate_game(make(name))
    table = belief_table(tree)
    return tree, table, list_public_states(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "heads"), [("coin_toss", 0.25), ("coin_toss(swapped=true)", 0.75)]
)
@pytest.mark.parametrize("before", [(0.5, 0.5), (0.9, 0.1)])
def test_gadget_finds_the_price_of_the_other_branch(name, heads, before):
    """Whatever player 0 was thought to play: it may opt out for what selling pays."""
    _, table, _ = compiled(name)
    root = table.root()
    sold, played = (table.children(root)[k] for k in (SELL, PLAY))
    problem = Problem(
        state=played,
        path=jnp.array([NO_STEP], jnp.int32),
        reach=(jnp.array(before), jnp.ones(1)),
        resolver=jnp.int32(1),
        opt_out=(table.terminal_values(sold, 0, jnp.ones(1)), jnp.zeros(1)),
    )
    settings = GrowingTreeCfr(
        leaf_evaluators.zero, simulations=10, pace=0.001, follow_share=1.0, max_path=1
    )
    search = search_of(table, None, jax.random.key(0), problem=problem, settings=settings)
    _, policy = readouts.average_policy(search)
    assert float(policy[HEADS, 0]) == pytest.approx(heads, abs=0.01)


def measured(name, simulations, *, chains=None, seeds=3):
    _, table, listing = compiled(name)
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=simulations, max_path=1)
    return agent_exploitability.searched_exploitability(
        table,
        listing,
        None,
        jax.random.split(jax.random.key(0), seeds),
        settings=settings,
        chains=chains or agent_exploitability.agents(),
        batch=8,
    )


@pytest.mark.slow
def test_more_search_is_less_exploitable():
    """In Kuhn poker, with nothing known of the leaves."""
    assert measured("kuhn_poker", 4).mean() > 2 * measured("kuhn_poker", 200).mean()


@pytest.mark.slow
def test_every_policy_is_a_distribution():
    _, table, listing = compiled("kuhn_poker")
    policy = agent_exploitability.composed_policy(
        table,
        listing,
        None,
        jax.random.split(jax.random.key(0), 2),
        settings=GrowingTreeCfr(leaf_evaluators.zero, simulations=4, max_path=1),
        chain=Chain(0),
        batch=8,
    )
    for player, own in enumerate(policy):
        acting = np.asarray(listing.actor) == player
        totals = own.sum(axis=2)
        np.testing.assert_allclose(totals[:, acting], 1, rtol=1e-5)
        assert not totals[:, ~acting].any()


@pytest.mark.slow
@pytest.mark.parametrize("own_decisions_only", [False, True])
def test_trees_that_grow_whole_need_no_values(own_decisions_only):
    """In Kuhn, for both readings of where an agent searches: both begin at the root, or else what
    the first search does not grow below would keep its wrong value."""
    _, table, listing = compiled("kuhn_poker")
    gains = agent_exploitability.searched_exploitability(
        table,
        listing,
        None,
        jax.random.split(jax.random.key(0), 2),
        settings=GrowingTreeCfr(leaf_evaluators.zero, simulations=1000, max_path=2, max_nodes=4),
        chains=agents(own_decisions_only=own_decisions_only),
        batch=8,
    )
    assert gains.max() < 0.01


def test_paths_from_search_to_search():
    """In Kuhn no chance comes between decisions, and after check-bet the first player acts again;
    in Leduc the board card comes between. All begin at the root."""
    kuhn, leduc = (compiled(name)[2] for name in ("kuhn_poker", "leduc_poker"))
    assert Chain(1, own_decisions_only=True).searched(kuhn)[0]
    with pytest.raises(ValueError, match="player=2 must be 0, 1 or None"):
        Chain(2)
    assert longest_path(kuhn, agents()) == 1
    assert longest_path(kuhn, agents(own_decisions_only=True)) == 2
    assert longest_path(leduc, agents()) == 2
    assert longest_path(leduc, agents(own_decisions_only=True)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("by_policies", [False, True])
def test_range_that_goes_on(by_policies):
    """Behind a search with a gadget: what the opponent had there on average, which was the gadget's
    in part, or what the search began with; times its average policy in either case. Then it is
    mixed with the next gadget's at one sum, or as a probability."""
    _, table, _ = compiled("kuhn_poker")
    settings = GrowingTreeCfr(
        leaf_evaluators.zero,
        simulations=8,
        max_path=1,
        follow_share=0.25,
        range_by_policies=by_policies,
    )
    begin = continual_resolving.first_problem(table, max_path=1)
    reach = (jnp.array([0.4, 0.2, 0.1]), begin.reach[1])
    opt_out = (jnp.array([-0.2, 0.0, 0.2]), begin.opt_out[1])
    problem = begin.replace(reach=reach, resolver=jnp.int32(1), opt_out=opt_out)
    search = search_of(table, None, jax.random.key(0), problem=problem, settings=settings)
    child = int(np.argmax(np.asarray(table.child_mask(problem.state))))
    after, _ = next_problem(
        table,
        search,
        reach,
        jnp.array([child], jnp.int32),
        resolver=jnp.int32(1),
        by_policies=by_policies,
    )
    average = readouts.average_reach(search)
    assert not np.allclose(average[0] / average[0][0], reach[0] / reach[0][0], rtol=0.01)
    began = reach if by_policies else average
    expected = table.down(problem.state, child, began, readouts.average_policy(search))
    np.testing.assert_allclose(after.reach[0], expected[0], rtol=1e-5)

    gadget = Gadget(regret=(jnp.zeros((2, 3)),) * 2, follow=(jnp.full(3, 0.5),) * 2)
    mixed = regret_phase.root_reach(table, problem, gadget, settings=settings)[0]
    follow, before = (0.5, [1, 1 / 2, 1 / 4]) if by_policies else (1 / 3, [4 / 7, 2 / 7, 1 / 7])
    np.testing.assert_allclose(mixed, 0.25 * follow + 0.75 * np.array(before), rtol=1e-5)


def after_gadget(table, scale):
    """The problem after a search with a gadget in Kuhn, and the reaches that were played.

    The re-solver's reach has a factor `scale` from earlier moves, and the opponent's values, too.
    """
    begin = continual_resolving.first_problem(table, max_path=2)
    reach = (jnp.array([0.4, 0.2, 0.1]), scale * jnp.array([0.7, 0.2, 0.4]))
    opt_out = (scale * jnp.array([-0.2, 0.0, 0.2]), begin.opt_out[1])
    problem = begin.replace(reach=reach, resolver=jnp.int32(1), opt_out=opt_out)
    search = search_of(table, None, jax.random.key(0), problem=problem, settings=SETTINGS)
    path = jnp.array([0, NO_STEP], jnp.int32)
    return next_problem(table, search, reach, path, resolver=jnp.int32(1))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-100, -20, 20])
def test_long_games_do_not_use_up_the_reach(exponent):
    """A hundred moves multiply to less than float32 can hold; nothing depends on the scale."""
    _, table, _ = compiled("kuhn_poker")
    expected = after_gadget(table, 1.0)
    found = after_gadget(table, jnp.float32(2.0**exponent))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    problem, played = found
    assert 1 <= float(played[1].max()) < 2
    np.testing.assert_array_equal(problem.reach[1], played[1])
    assert np.abs(problem.opt_out[0]).max() > 0.1


@pytest.mark.slow
def test_later_actions_on_the_path_count_as_certain():
    """Only the first action was this search's: a pass, which a bet of the other player follows."""
    _, table, _ = compiled("kuhn_poker")
    problem = continual_resolving.first_problem(table, max_path=2)
    search = search_of(table, None, jax.random.key(0), problem=problem, settings=SETTINGS)
    reach, path = (jnp.array([0.4, 0.2, 0.1]), jnp.array([0.7, 0.2, 0.4])), jnp.array([0, 1])
    _, played = next_problem(table, search, reach, path.astype(jnp.int32), resolver=jnp.int32(0))
    passed = readouts.average_policy(search)[0][0] * reach[0]
    np.testing.assert_allclose(played[0] / played[0].max(), passed / passed.max(), rtol=1e-6)
    np.testing.assert_array_equal(played[1], reach[1])


def test_prior_is_asked_at_the_beliefs_of_the_target():
    """Below a path they are those after the moves of the path, which are uniform at first."""
    _, table, _ = compiled("kuhn_poker")

    def evaluate(params, game, state, reach):
        values, prior = leaf_evaluators.zero(params, game, state, reach)
        return values, tuple(own * reach[p][None] for p, own in enumerate(prior))

    settings = GrowingTreeCfr(evaluate, simulations=1, max_path=2)
    begin = continual_resolving.first_problem(table, max_path=2)
    check_bet = jnp.array([[0, 1]], jnp.int32)
    problems = jax.tree.map(lambda x: x[None], begin).replace(path=check_bet)
    start = jax.jit(functools.partial(growing_tree_cfr.start, settings=settings))
    searches = start(table, None, problems=problems)
    target = searches.target[0]
    number = searches.forest.links[target, NUMBER]
    prior = searches.forest.decisions[0].prior[:, number]
    legal = np.asarray(table.legal(at(searches.forest.state, target))[0])
    np.testing.assert_allclose(prior, legal * 0.25, rtol=1e-6)  # half for the prior, half for check


def test_prior_is_asked_at_the_beliefs_below_a_node_of_the_same_phase():
    """No iteration has been there: its beliefs are those above, times policies that are uniform."""
    _, table, _ = compiled("kuhn_poker")

    def evaluate(params, game, state, reach):
        values, prior = leaf_evaluators.zero(params, game, state, reach)
        seen = [own / jnp.sum(own) for own in reach]  # nan where nobody comes
        return values, tuple(own * seen[p][None] for p, own in enumerate(prior))

    settings = GrowingTreeCfr(evaluate, simulations=6, pace=6.0, max_path=1)
    ranges = jnp.array([0.4, 0.2, 0.2]), jnp.array([0.3, 0.1, 0.4])
    problem = continual_resolving.fixed_problem(table.root(), ranges, max_path=1)
    problems = jax.tree.map(lambda x: x[None], problem)

    @jax.jit
    def after_a_phase(keys):
        searches = growing_tree_cfr.start(table, None, problems=problems, settings=settings)
        how = dict(settings=settings, begin=0, end=1)
        return growing_tree_cfr.run_phases(table, None, keys, searches, **how)

    forest = after_a_phase(jax.random.split(jax.random.key(0), 1)).forest
    assert forest.count == 4  # pass, bet and pass-bet below the root
    for player, decisions in enumerate(forest.decisions):
        assert decisions.count == 2
        for number in range(2):
            legal = np.asarray(table.legal(at(forest.state, decisions.place[number]))[player])
            expected = legal / legal.sum(axis=0) * np.asarray(ranges[player])
            expected /= np.asarray(ranges[player]).sum()
            np.testing.assert_allclose(decisions.prior[:, number], expected, rtol=1e-5)


def test_a_state_that_no_iteration_has_seen_is_no_start():
    """The last simulation adds a node of which nothing is known: the next search starts there, and
    not below it, where the opponent would have no range, and 0 for opting out."""
    _, table, _ = compiled("leduc_poker(ranks=2)")
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=1, max_path=2)
    check = 1
    start = table.child(table.root(), jnp.int32(check))
    ones = tuple(jnp.ones(n) for n in table.num_rows)
    problem = continual_resolving.fixed_problem(start, ones, max_path=2)
    for seed in range(20):
        search = search_of(table, None, jax.random.key(seed), problem=problem, settings=settings)
        if search.tree.node_below(search.target, check) >= 0:
            break
    dealt = table.child(start, jnp.int32(check))
    card = int(np.argmax(table.child_mask(dealt)))
    path = jnp.array([check, card], jnp.int32)
    after, _ = next_problem(table, search, ones, path, resolver=jnp.int32(1))
    assert table.actor(dealt) == CHANCE
    jax.tree.map(np.testing.assert_array_equal, after.state, dealt)
    np.testing.assert_array_equal(after.path, [card, NO_STEP])
    assert after.reach[0].sum() > 0


def test_path_must_fit():
    _, table, listing = compiled("leduc_poker")
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=4, max_path=1)
    with pytest.raises(ValueError, match="max_path=1 must be at least 2"):
        agent_exploitability.composed_policy(
            table,
            listing,
            None,
            jax.random.split(jax.random.key(0), 1),
            settings=settings,
            chain=Chain(0),
        )


class TestSecondRoundOfLeduc:
    """Equilibrium in the first round, every second round re-solved for one player at a time
    (Burch, Johanson, Bowling 2014)."""

    def equilibrium(self):
        tree, table, listing = compiled("leduc_poker")
        public = build_sequence_form(tree)
        solved = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=5000)
        policy = cfr.average_policy(public, solved)
        return table, listing, listed_policy(table, listing, policy)

    def problems(self, listing, table, policy, *, resolver, safe, terminate):
        """The subgames of the second round, stacked."""
        reach, values = reach_and_values(table, listing, policy)
        actor, parent = np.asarray(listing.actor), np.asarray(listing.parent)
        roots = jnp.asarray(np.flatnonzero(actor[np.maximum(parent, 0)] == CHANCE))
        count = len(roots)
        opt_out = jax.tree.map(lambda x: x[roots] if terminate else 0 * x[roots] - 1e3, values)
        return Problem(
            state=listing.state[roots],
            path=jnp.full((count, 1), NO_STEP, jnp.int32),
            reach=at(reach, roots),
            resolver=jnp.full(count, resolver if safe else NO_RESOLVER, jnp.int32),
            opt_out=opt_out,
        )

    def exploitability(self, *, iterations, safe=True, terminate=True):
        table, listing, policy = self.equilibrium()
        settings = GrowingTreeCfr(
            leaf_evaluators.zero, simulations=12, follow_share=1.0, max_path=1
        )
        place = np.full(len(table.actors), -1)
        place[np.asarray(listing.state)] = np.arange(len(listing.state))
        actor, resolved = np.asarray(listing.actor), [np.array(own) for own in policy]
        for player in range(2):
            problems = self.problems(
                listing, table, policy, resolver=player, safe=safe, terminate=terminate
            )
            searches = _solve(table, problems, settings, iterations)
            policies = np.asarray(searches.tree.policy[player])
            decision = np.asarray(searches.tree.decision[player])
            for number, count in enumerate(np.asarray(searches.tree.count)):
                states = place[np.asarray(searches.tree.state[number, :count])]
                mine = actor[states] == player
                rows = decision[number, :count][mine]
                resolved[player][states[mine]] = policies[number, rows]
        return float(exploitability_of(table, listing, tuple(map(jnp.asarray, resolved))))

    @pytest.mark.slow
    def test_safe_resolving_tends_to_equilibrium(self):
        short = self.exploitability(iterations=80)
        long = self.exploitability(iterations=4000)
        assert long < 0.006 < 0.03 < short

    @pytest.mark.slow
    def test_unsafe_resolving_stalls(self):
        """Published: near 0.080 (Burch et al.)."""
        assert 0.06 < self.exploitability(iterations=4000, safe=False) < 0.1

    @pytest.mark.slow
    def test_a_gadget_without_terminating_fails(self):
        assert self.exploitability(iterations=4000, terminate=False) > 0.05


@functools.partial(jax.jit, static_argnames="settings")
def _solve(table, problems, settings, iterations):
    """CFR on the whole subgames, expanded before it starts."""
    state = growing_tree_cfr.start(table, None, problems=problems, settings=settings, listed=True)
    state = expand_all(table, state, settings=settings)
    step = functools.partial(regret_phase.iterate, table, None, settings=settings)
    state = jax.lax.fori_loop(0, iterations, lambda _, state: step(state), state)
    return growing_tree_cfr.finish(state)
