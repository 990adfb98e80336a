"""Searches of perfect-information games whose children are made lazily, against a plain one."""

import dataclasses
import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lazy_search_reference import Place, ReferenceSearch

import solvers
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.arrays import at
from jaxgames.core import TERMINAL
from solvers.search import continual_resolving, growing_tree_cfr
from solvers.search.lazy_layout import lazy_layout
from solvers.search.search_state import NO_STEP, GrowingTreeCfr


def evaluate(params, game, state, reach):
    """Values and priors that depend on the position and look random."""
    seen = game.encode(state)
    mixed = jnp.sin(seen @ params["values"]) * 0.9
    legal = game.legal(state)
    logits = jnp.sin(seen @ params["prior"]) * 2
    first, second = (
        jnp.where(x, jax.nn.softmax(jnp.where(x[:, 0], logits, -50.0))[:, None], 0) for x in legal
    )
    return (mixed * reach[1], -mixed * reach[0]), (first, second)


def random_params(game, seed=0):
    random = np.random.default_rng(seed)
    width, actions = len(game.encode(game.root())), game.num_children
    shapes = {"values": (width,), "prior": (width, actions)}
    return {name: jnp.asarray(random.normal(size=s), jnp.float32) for name, s in shapes.items()}


@functools.cache
def subject(name):
    """A game, parameters of the evaluator, and what makes places of the plain search."""
    game = pgx_beliefs(name)
    params = random_params(game)
    states, step = [game.root()], jax.jit(game.child)
    ones = (jnp.ones(1), jnp.ones(1))

    @jax.jit
    def inspect(state):
        values, prior = evaluate(params, game, state, ones)
        end = game.terminal_values(state, 0, ones[1])
        prior = (prior[0] + prior[1])[:, 0].astype(jnp.bfloat16).astype(jnp.float32)
        return game.actor(state), values[0][0], end[0], prior, game.child_mask(state)

    def look(number, action):
        if number is None:
            number = 0
        else:
            states.append(step(states[number], jnp.int32(action)))
            number = len(states) - 1
        actor, value, end, prior, mask = map(np.asarray, inspect(states[number]))
        over = int(actor) == TERMINAL
        return Place(
            state=number,
            actor=int(actor),
            worth=float(end if over else value),
            prior={int(a): float(prior[a]) for a in np.flatnonzero(mask)},
        )

    return game, params, look


def searched(name, settings, *, batch=3):
    """Finished searches, and the random numbers of their simulations."""
    game, params, _ = subject(name)
    problem = continual_resolving.first_problem(game, max_path=settings.max_path)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *jnp.shape(x))), problem)
    keys = jax.random.split(jax.random.key(7), batch)
    search = functools.partial(growing_tree_cfr.search, game, params, settings=settings)
    found = jax.jit(jax.vmap(lambda k, p: search(k, problem=p)))(keys, problems)
    start = functools.partial(growing_tree_cfr.start, game, params, settings=settings)
    state = jax.eval_shape(start, problems=problems)
    noise = growing_tree_cfr.noise_of_walks(keys, state, settings)
    return jax.tree.map(np.asarray, found), np.asarray(noise)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param("connect_four", dict(expand=1), marks=pytest.mark.slow),
        pytest.param("connect_four", dict(expand=2, exploration=3.0), marks=pytest.mark.slow),
        pytest.param(
            "connect_four",
            dict(expand=1, pace=5.0, virtual_loss=0.5),
            marks=pytest.mark.slow,
        ),
        pytest.param("tic_tac_toe", dict(expand=2, exploration=3.0), marks=pytest.mark.slow),
        ("tic_tac_toe", dict(expand=1, pace=3.0, simulations=30)),
        pytest.param("gardner_chess", dict(expand=1, simulations=20), marks=pytest.mark.slow),
    ],
)
def test_searches_are_those_of_the_plain_algorithm(name, changes):
    settings = GrowingTreeCfr(evaluate, **(dict(simulations=120, max_path=1) | changes))
    found, noise = searched(name, settings)
    _, _, look = subject(name)
    for b in range(3):
        reference = ReferenceSearch(
            look,
            expand=settings.expand,
            exploration=settings.exploration,
            virtual_loss=settings.virtual_loss,
            pace=settings.expansions_per_phase,
        )
        root = reference.run(noise[b])
        tree = at(found.tree, b)
        assert tree.count == reference.count
        assert found.iterations[b] == reference.iterations
        compare(tree, 0, root)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sweep", "changes"),
    [
        ("connect_four", "lists", dict(simulations=300, pace=5.0)),
        ("gardner_chess", "pairs", dict(simulations=40)),
    ],
)
def test_accelerators_make_the_same_searches(monkeypatch, name, sweep, changes):
    """With the same random numbers, all places at once and step by step."""
    settings = GrowingTreeCfr(evaluate, **(dict(expand=1, max_path=1) | changes))
    by_steps, noise = searched(name, settings)
    growing_tree_cfr.batched.cache_clear()  # what was traced for a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert lazy_layout(subject(name)[0], settings, 3).sweep == sweep
    at_once, same_noise = searched(name, settings)
    growing_tree_cfr.batched.cache_clear()
    chex.assert_trees_all_equal(noise, same_noise)
    alike(at_once.tree, by_steps.tree)


def alike(tree, other):
    """The same trees up to rounding, which is larger in totals."""
    chex.assert_trees_all_close(tree, other, rtol=2e-3, atol=1e-2)
    np.testing.assert_allclose(tree.policy, other.policy, atol=1e-4)


@pytest.mark.slow
def test_all_places_at_once_do_what_single_steps_do():
    """Also where several children are added together, and there are visits since the last
    iteration."""
    game, params, _ = subject("tic_tac_toe")
    settings = GrowingTreeCfr(evaluate, simulations=40, expand=2, max_path=1, pace=4.0)
    problem = continual_resolving.first_problem(game, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, *jnp.shape(x))), problem)
    keys = jax.random.split(jax.random.key(2), 3)
    start = functools.partial(growing_tree_cfr.start, game, params, settings=settings)
    state = jax.jit(start)(problems=problems)

    @jax.jit
    def run(state):
        phases = functools.partial(growing_tree_cfr.run_phases, game, params, keys)
        return growing_tree_cfr.finish(phases(state, settings=settings, begin=0, end=10)).tree

    by_steps = run(state)
    assert (by_steps.count > 40).all()
    assert (np.asarray(by_steps.children) > 2).any()
    for sweep in ("pairs", "lists"):
        layout = dataclasses.replace(state.layout, sweep=sweep)
        alike(run(state.replace(layout=layout)), by_steps)


def compare(tree, place, plain):
    """A place and all below it."""
    below = {int(tree.child[c]): c for c in np.flatnonzero(tree.parent == place)}
    assert sorted(below) == sorted(plain.children)
    assert tree.actor[place] == plain.actor
    for name in ("reach_total", "values_total"):
        totals = [x[place, 0] for x in getattr(tree, name)]
        np.testing.assert_allclose(totals, getattr(plain, name), rtol=2e-3, atol=1e-2)
    for action, child in below.items():
        other = plain.children[action]
        assert tree.visits[child] == other.visits
        expected = other.average / plain.mass if plain.mass > 0 else other.policy
        np.testing.assert_allclose(tree.policy[child], expected, atol=1e-4)
        compare(tree, child, other)


@pytest.mark.slow
def test_a_search_starts_where_its_path_ends():
    """In a batch with different paths."""
    game, params, _ = subject("tic_tac_toe")
    settings = GrowingTreeCfr(evaluate, simulations=30, expand=1, max_path=2)
    problem = continual_resolving.first_problem(game, max_path=2)
    paths = jnp.array([[4, 0], [3, NO_STEP], [NO_STEP, NO_STEP]])
    child = jax.jit(game.child)
    states = [
        functools.reduce(child, path, game.root())
        for path in (jnp.array([4, 0]), jnp.array([3]), jnp.zeros(0, jnp.int32))
    ]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *states)
    keys = jax.random.split(jax.random.key(1), 3)

    @jax.jit
    @jax.vmap
    def run(key, path, state):
        problem_there = problem.replace(path=path, state=state)
        return growing_tree_cfr.search(
            game, params, key, problem=problem_there, settings=settings
        ).tree

    roots = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, *x.shape)), game.root())
    chex.assert_trees_all_close(
        run(keys, paths, roots), run(keys, jnp.full_like(paths, NO_STEP), stacked)
    )


@pytest.mark.slow
def test_a_search_in_pieces_is_the_whole_search():
    game, params, _ = subject("tic_tac_toe")
    settings = GrowingTreeCfr(evaluate, simulations=40, expand=1, max_path=1, pace=2.0)
    problem, key = continual_resolving.first_problem(game, max_path=1), jax.random.key(5)
    search = functools.partial(growing_tree_cfr.search, game, params, settings=settings)
    whole = jax.jit(lambda key: search(key, problem=problem))(key)
    problems = jax.tree.map(lambda x: jnp.asarray(x)[None], problem)
    keys = jax.random.fold_in(key, 0)[None]  # as `search` has it
    state = growing_tree_cfr.start(game, params, problems=problems, settings=settings)

    @jax.jit
    def run(state, begin, end):
        phases = functools.partial(growing_tree_cfr.run_phases, game, params, keys)
        return phases(state, settings=settings, begin=begin, end=end)

    for begin, end in ((0, 1), (1, 12), (12, 20)):
        state = run(state, begin, end)
    chex.assert_trees_all_close(at(growing_tree_cfr.finish(state), 0), whole, rtol=1e-5)


@pytest.mark.slow
def test_the_next_search_starts_where_it_acts():
    """Also after a move that this search did not look at."""
    game, params, _ = subject("tic_tac_toe")
    settings = GrowingTreeCfr(evaluate, simulations=2, expand=1, max_path=2)
    problem = continual_resolving.first_problem(game, max_path=2)
    search = functools.partial(growing_tree_cfr.search, game, params, settings=settings)
    found = jax.jit(search)(jax.random.key(0), problem=problem)
    next_problem = jax.jit(continual_resolving.next_problem)
    for path in ([0, NO_STEP], [8, 3]):
        following, played = next_problem(
            game, found, problem.reach, jnp.array(path), resolver=jnp.int32(0)
        )
        steps = jnp.array([x for x in path if x != NO_STEP])
        expected = functools.reduce(jax.jit(game.child), steps, game.root())
        chex.assert_trees_all_equal(following.state, expected)
        assert (following.path == NO_STEP).all()
        assert int(following.resolver) == 0
        assert all((x == 1).all() for x in (*following.reach, *played))


@pytest.mark.slow
def test_no_simulation_copies_the_priors():
    """They are the largest table where a game has many actions, and XLA:CPU copied all of them, or
    converted all from bfloat16 and back, in each simulation."""
    game, params, _ = subject("connect_four")
    settings = GrowingTreeCfr(evaluate, simulations=20, max_path=1, expand=1)
    problem = continual_resolving.first_problem(game, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *jnp.shape(x))), problem)
    keys = jax.random.split(jax.random.key(7), 2)
    search = functools.partial(growing_tree_cfr.search, game, params, settings=settings)
    searches = jax.jit(jax.vmap(lambda k, p: search(k, problem=p))).lower(keys, problems)
    program = searches.compile().as_text()
    places = 2 * lazy_layout(game, settings, 2).room
    table = rf"\w+\[{places},{game.num_children}\]"
    assert re.search(rf"= {table}\S* fusion\(|= {table}\S* scatter\(", program)
    whole = re.findall(rf"= {table}\S* (?:copy|convert)\(", program)
    assert not whole


@pytest.mark.slow
def test_a_reach_that_only_scales_values_is_not_in_them():
    """Nor in what is printed of a search."""
    game, key = pgx_beliefs("tic_tac_toe"), jax.random.key(0)
    moves, found = jnp.array([0, 3, 1, 4]), []  # who began can win
    state = functools.reduce(jax.jit(game.child), moves, game.root())
    for share in (1.0, 0.5):
        reach = jnp.full(1, share), jnp.full(1, share)
        problem = continual_resolving.fixed_problem(state, reach, max_path=1)
        found.append(
            str(solvers.growing_tree_search(game, key=key, simulations=60, problem=problem))
        )
    assert re.search(r"value to player 0 +\+0\.[1-9]", found[0])
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_search_that_has_not_begun_asks_no_network():
    game, *_ = subject("tic_tac_toe")
    problem = continual_resolving.first_problem(game, max_path=1)
    for expand in (1, None):
        settings = GrowingTreeCfr(evaluate, simulations=4, expand=expand, max_path=1)
        begun = growing_tree_cfr.begin(game, problem=problem, settings=settings)
        assert begun.tree.count >= 1
