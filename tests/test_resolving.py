"""Safe re-solving: gadget, continual re-solving, and the exploitability of agents."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.coin_toss import HEADS, PLAY, SELL
from jaxgames.game_tree import enumerate_game
from jaxgames.public_table import public_table
from jaxgames.registry import make
from solvers.search import evaluators, exploitability, gt_cfr
from solvers.search.exploitability import Chain
from solvers.search.gt_cfr import NO_STEP, GrowingTreeCfr, Problem
from solvers.search.listing import list_public_states


@functools.cache
def compiled(name):
    tree = enumerate_game(make(name))
    table = public_table(tree)
    return tree, table, list_public_states(table)


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
        reach=jnp.zeros((2, table.num_rows)).at[0, :2].set(jnp.array(before)).at[1, 0].set(1.0),
        resolver=jnp.int32(1),
        opt_out=table.terminal_values(sold, 0, jnp.zeros(table.num_rows).at[0].set(1.0)),
    )
    settings = GrowingTreeCfr(
        evaluators.zero, simulations=10, pace=0.001, follow_share=1.0, max_path=1
    )
    found = jax.jit(
        lambda key: gt_cfr.search(table, None, key, problem=problem, settings=settings)
    )(jax.random.key(0))
    policy = gt_cfr.average_policy(table, found)
    assert float(policy[HEADS, 0]) == pytest.approx(heads, abs=0.01)


def measured(name, simulations, *, chains=None, seeds=3):
    _, table, listing = compiled(name)
    settings = GrowingTreeCfr(evaluators.zero, simulations=simulations, max_path=1)
    return exploitability.searched_exploitability(
        table,
        listing,
        None,
        jax.random.split(jax.random.key(0), seeds),
        settings=settings,
        chains=chains or exploitability.agents(),
        batch=8,
    )


def test_more_search_is_less_exploitable():
    """In Kuhn poker, with nothing known of the leaves."""
    assert measured("kuhn_poker", 4).mean() > 2 * measured("kuhn_poker", 200).mean()


def test_every_policy_is_a_distribution():
    _, table, listing = compiled("kuhn_poker")
    found = exploitability.composed_policy(
        table,
        listing,
        None,
        jax.random.split(jax.random.key(0), 2),
        settings=GrowingTreeCfr(evaluators.zero, simulations=4, max_path=1),
        chain=Chain(0),
        batch=8,
    )
    acting = np.asarray(listing.actor) >= 0
    totals = found.sum(axis=2)
    np.testing.assert_allclose(totals[:, acting], 1, rtol=1e-5)
    assert not totals[:, ~acting].any()


def test_path_must_fit():
    _, table, listing = compiled("leduc_poker")
    settings = GrowingTreeCfr(evaluators.zero, simulations=4, max_path=1)
    with pytest.raises(ValueError, match="max_path=1 must be at least 2"):
        exploitability.composed_policy(
            table,
            listing,
            None,
            jax.random.split(jax.random.key(0), 1),
            settings=settings,
            chain=Chain(0),
        )
