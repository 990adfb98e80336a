"""AlphaZero's search by mctx (Babuschkin et al. 2020), with our formula for PUCT."""

import functools

import jax
import jax.numpy as jnp
import mctx

from jaxgames.adapters.pgx import lenient
from jaxgames.core import TERMINAL
from solvers.perfect_information.positions import legal_actions, payoff, position_after

LOWEST = jnp.finfo(jnp.float32).min


def visits_and_value(game, settings, params, state):
    """Visits of the root's actions, and the root's value to who acts there.

    mctx walks on where the game is over and adds copies of the end, which count for nothing.
    """

    def looked_at(state):
        value, logits = settings.evaluate(params, game, state)
        legal = legal_actions(game, state)
        masked = jnp.where(legal, logits, -jnp.inf)
        masked = jnp.where(jnp.any(legal), jax.nn.log_softmax(masked), masked)
        return value, jnp.maximum(masked, LOWEST)

    def step(_, key, action, states):
        before = jax.tree.map(lambda x: x[0], states)
        after = position_after(game, before, action[0])
        value, logits = looked_at(after)
        actor, over = game.actor(before), game.actor(after) == TERMINAL
        output = mctx.RecurrentFnOutput(
            reward=jnp.where(over, payoff(game, after, actor), 0.0),
            discount=jnp.where(over, 0.0, jnp.where(game.actor(after) == actor, 1.0, -1.0)),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        return batch(output), batch(after)

    def select(key, tree, node, depth):
        visits, logits = tree.children_visits[node], tree.children_prior_logits[node]
        total = jnp.sum(visits).astype(jnp.float32)
        base = settings.exploration_base
        rate = settings.exploration + jnp.log((total + base + 1) / base)
        bonus = rate * jnp.exp(logits) * jnp.sqrt(jnp.maximum(total, 1)) / (1 + visits)
        worth = jnp.where(visits > 0, tree.qvalues(node), tree.node_values[node])
        best = jnp.argmax(jnp.where(logits > LOWEST, worth + bonus, -jnp.inf)).astype(jnp.int32)
        over = game.actor(jax.tree.map(lambda x: x[node], tree.embeddings)) == TERMINAL
        return jnp.where(over, jnp.argmin(visits).astype(jnp.int32), best)

    with lenient():
        value, logits = looked_at(state)
        tree = mctx.search(
            None,
            jax.random.key_data(jax.random.key(0)),
            root=mctx.RootFnOutput(
                prior_logits=logits[None], value=value[None], embedding=batch(state)
            ),
            recurrent_fn=step,
            root_action_selection_fn=functools.partial(select, depth=0),
            interior_action_selection_fn=select,
            num_simulations=settings.simulations,
        )
        summary = tree.summary()
    return summary.visit_counts[0], summary.value[0]


def batch(tree):
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)
