"""AlphaZero by the recipe of pgx's example (Koyamada et al. 2023), beside which ours is measured.

The example is `examples/alphazero` of the repository sotetsuk/pgx. This is its recipe, written
afresh as plain functions: in every step new games are begun and some moves are made in each of
them, by Gumbel AlphaZero of mctx (Danihelka et al. 2022); a game that ends is followed by another;
payoffs are handed back from the ends of games; then all positions are shuffled, and each is used in
one update of Adam. Positions of games that the step leaves unfinished teach the policy alone, and
the games are given up.

The network is one of ours, a Flax module. `DEVIATIONS` says what else is other than in the example.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Key, PyTree

from jaxgames.arrays import merge_axes
from jaxgames.core import record
from solvers.device_batches import DATA, check_even, split_calls
from train import data_sharding

DEVIATIONS = (
    "the recipe of pgx's example is written afresh, with Flax and optax in place of Haiku",
    "its network is ours, with layer norms in place of batch norms",
    "its shuffled positions stay on the device, and the updates of a step are one loop; in the"
    " example they travel to the host and back, and the host starts each update",
    "its evaluations, checkpoints and logs are left out, as are ours",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PgxSettings:
    """How to train. Static under `jit`."""

    simulations: int
    games: int  # side by side
    moves: int  # in each of them in a step
    batch_size: int  # positions of an update
    learning_rate: float = 1e-3

    @property
    def updates(self) -> int:
        """Of a step; each position is used once."""
        return self.games * self.moves // self.batch_size


@record
class PgxTraining:
    """The state of a run."""

    params: PyTree
    optimizer_state: PyTree
    key: Array


@record
class Turns:
    """T turns of B games, before the moves were made, but for the last three fields."""

    features: Array  # [B, T, F]
    policy: Array  # [B, T, A] to be learned
    visits: Array  # [B, T] float32 simulations of the search
    reward: Array  # [B, T] to the player who moved
    discount: Array  # [B, T] of what follows: -1, or 0 after the end of a game
    ended: Array  # [B, T] bool whether the move ended the game


def init(params: PyTree, key: Key[Array, ""], *, settings: PgxSettings) -> PgxTraining:
    """A run before its first step.

    Args:
      params: of the network, from `nnx.split`; they are copied.
      key: of the run.
      settings: how to train.
    """
    params = jax.tree.map(jnp.copy, params)
    state = _optimizer(settings).init(params)
    return PgxTraining(params=params, optimizer_state=state, key=key)


def train_step(
    env: Any,
    graph: nnx.GraphDef,
    state: PgxTraining,
    *,
    settings: PgxSettings,
    mesh: Mesh | None = None,
) -> tuple[PgxTraining, dict[str, Array]]:
    """Plays, and learns from all that was played.

    Args:
      env: a `pgx.Env` of two players and perfect information. Static.
      graph: of the network, which maps features `[B, F]` to values and logits. Static.
      state: of the run.
      settings: how to train. Static.
      mesh: the devices that share the games and the batches; None: one. Static.

    Returns:
      The state after the step, and counts: "positions" that were searched, "simulations" of all
      searches, "updates" so far, "games" that ended, and "valued", the positions whose game ended.

    Raises:
      ValueError: the devices cannot share the games or a batch evenly.
    """
    sizes = {"games": settings.games, "batch_size": settings.batch_size}
    check_even(sizes, mesh)
    devices = 1 if mesh is None else mesh.size
    key, play_key, shuffle_key = jax.random.split(state.key, 3)
    play = split_calls(
        functools.partial(_self_play, env, graph, settings, settings.games // devices), mesh
    )
    turns = play(state.params, jax.random.split(play_key, devices))
    values, valued = value_targets(turns.reward, turns.discount, turns.ended)
    examples = (turns.features, turns.policy, values, valued)
    examples = merge_axes(examples)
    examples = data_sharding.everywhere(examples, mesh)
    order = jax.random.permutation(shuffle_key, settings.games * settings.moves)
    order = order[: settings.updates * settings.batch_size]
    batches = jax.tree.map(
        lambda x: x[order].reshape(settings.updates, settings.batch_size, *x.shape[1:]), examples
    )

    def gradient_of(params, batch):
        gradient = jax.grad(lambda params: _loss(nnx.merge(graph, params), *batch))(params)
        return gradient if mesh is None else jax.lax.pmean(gradient, DATA)

    if mesh is not None:
        gradient_of = jax.shard_map(
            gradient_of, mesh=mesh, in_specs=(P(), P(DATA)), out_specs=P(), check_vma=False
        )

    def update(carry, batch):
        params, optimizer_state = carry
        change, optimizer_state = _optimizer(settings).update(
            gradient_of(params, batch), optimizer_state, params
        )
        return (optax.apply_updates(params, change), optimizer_state), None

    carry = state.params, state.optimizer_state
    (params, optimizer_state), _ = jax.lax.scan(update, carry, batches)
    counts = {
        "positions": jnp.int32(turns.ended.size),
        "simulations": jnp.sum(turns.visits),
        "updates": optax.tree.get(optimizer_state, "count"),
        "games": jnp.sum(turns.ended, dtype=jnp.int32),
        "valued": jnp.sum(valued, dtype=jnp.int32),
    }
    after = PgxTraining(params=params, optimizer_state=optimizer_state, key=key)
    return data_sharding.constrain(after, P(), mesh), counts


def value_targets(
    reward: Float[Array, "B T"], discount: Float[Array, "B T"], ended: Bool[Array, "B T"]
) -> tuple[Float[Array, "B T"], Bool[Array, "B T"]]:
    """What the player who moves will get, handed back from the ends of games.

    Args:
      reward: of each move to who made it.
      discount: of what follows, by which it changes sides.
      ended: whether the move ended its game.

    Returns:
      Targets, and whether they are known: not in games that the last turn leaves unfinished.
    """

    def before(value, turn):
        own, rate = turn
        value = own + rate * value
        return value, value

    nothing = jnp.zeros_like(reward[:, 0])
    _, values = jax.lax.scan(before, nothing, (reward.T, discount.T), reverse=True)
    known = jnp.cumsum(ended[:, ::-1], axis=1)[:, ::-1] >= 1
    return values.T, known


def _self_play(env, graph, settings, num_games, params, keys):
    """The turns of a device's games; `keys` has one key."""
    from pgx.experimental import auto_reset

    begin_key, turns_key = jax.random.split(keys[0])
    network = nnx.merge(graph, params)
    step = jax.vmap(auto_reset(env.step, env.init))
    games = jnp.arange(num_games)

    def turn(state, key):
        search_key, step_key = jax.random.split(key)
        output = _searched(env, network, settings, search_key, state)
        after = step(state, output.action, jax.random.split(step_key, num_games))
        return after, Turns(
            features=_features(state),
            policy=output.action_weights,
            visits=jnp.sum(output.search_tree.summary().visit_counts, axis=1),
            reward=after.rewards[games, state.current_player],
            discount=jnp.where(after.terminated, 0.0, -1.0),
            ended=after.terminated,
        )

    first = jax.vmap(env.init)(jax.random.split(begin_key, num_games))
    _, turns = jax.lax.scan(turn, first, jax.random.split(turns_key, settings.moves))
    return jax.tree.map(lambda x: x.swapaxes(0, 1), turns)


def _searched(env, network, settings, key, states):
    """Gumbel AlphaZero from a batch of states."""
    import mctx

    def after_move(_, key, action, states):
        after = jax.vmap(env.step)(states, action)
        values, logits = network(_features(after))
        logits = logits - jnp.max(logits, axis=1, keepdims=True)
        over = after.terminated
        output = mctx.RecurrentFnOutput(
            reward=after.rewards[jnp.arange(len(action)), states.current_player],
            discount=jnp.where(over, 0.0, -1.0),
            prior_logits=jnp.where(after.legal_action_mask, logits, jnp.finfo(logits.dtype).min),
            value=jnp.where(over, 0.0, values),
        )
        return output, after

    values, logits = network(_features(states))
    return mctx.gumbel_muzero_policy(
        None,
        key,
        mctx.RootFnOutput(prior_logits=logits, value=values, embedding=states),
        after_move,
        num_simulations=settings.simulations,
        invalid_actions=~states.legal_action_mask,
        qtransform=mctx.qtransform_completed_by_mix_value,
        gumbel_scale=1.0,
    )


def _features(states):
    """What our networks see, `[B, F]`: the observation, flattened, and who moves."""
    seen = states.observation.astype(jnp.float32).reshape(len(states.current_player), -1)
    turn = states.current_player.astype(jnp.float32)[:, None]
    return jnp.concatenate([seen, turn], axis=1)


def _loss(network, features, policy, value, valued):
    """Cross-entropy of the policy, and half the squared error of known values."""
    values, logits = network(features)
    entropy = jnp.mean(optax.softmax_cross_entropy(logits, policy))
    return entropy + jnp.mean(optax.l2_loss(values, value) * valued.astype(value.dtype))


def _optimizer(settings):
    return optax.adam(settings.learning_rate)
