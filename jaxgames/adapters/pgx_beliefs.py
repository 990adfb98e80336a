"""Perfect-information games of pgx as belief-level games.

Nothing is hidden and chance never moves: a public state is a position, each player has one row, and
child k is where action k leads.
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxgames.adapters.pgx import (
    MAX_DEPTH,
    MOST_LEGAL,
    PgxGame,
    from_pgx,
    kind_of,
    lenient,
    make_env,
    seat_of,
)
from jaxgames.beliefs.contract import BeliefGame, Policy, Reach, Rows, Values
from jaxgames.beliefs.table import NOWHERE
from jaxgames.core import TERMINAL, record


@record
class PgxPosition:
    """A position without what can be computed again, since search trees hold many of them."""

    pgx: Any  # pgx's own state, its observation and rewards left out
    score: Array  # [] float32 sum of player 0's rewards so far
    num_steps: Array  # [] int32


@record
class PgxBeliefs(BeliefGame):
    """A game of pgx with N = 1 row and K = A children, built by `pgx_beliefs`.

    `game.replace(start=position)` is the game from that position on, with the same seats.
    """

    name: str = flax.struct.field(pytree_node=False)
    num_rows: tuple[int, int] = flax.struct.field(pytree_node=False)
    num_actions: tuple[int, int] = flax.struct.field(pytree_node=False)
    num_children: int = flax.struct.field(pytree_node=False)
    max_depth: int = flax.struct.field(pytree_node=False)
    env: Any = flax.struct.field(pytree_node=False)  # pgx.Env
    start: PgxPosition
    first: Array  # [] int32 what pgx calls player 0

    straight = (True, True, True)
    seen_by_mover = True

    @property
    def action_of_child(self) -> tuple[int, ...]:
        return tuple(range(self.num_children))

    @property
    def most_legal(self) -> int:
        return MOST_LEGAL.get(self.env.id, self.num_children)

    @property
    def board(self) -> tuple[int, ...]:
        """The shape of pgx's observation, with which the features begin."""
        with lenient():  # pgx makes a first position
            return tuple(self.env.observation_shape)

    @property
    def move_planes(self) -> int:
        if self.env.id not in ("chess", "gardner_chess"):
            return 0
        height, width, _ = self.board
        return self.num_children // (height * width)

    def root(self) -> PgxPosition:
        return self.start

    def position(self, state: PyTree) -> PgxPosition:
        """The position of one of pgx's own states, such as those of a training loop of one's own.

        What was paid on the way there is not in it: a search sees the payoffs that follow. As pgx
        draws who moves first, this may be player 1 here.

        Args:
          state: a `pgx.State` of this game, not batched (`jax.vmap` does that).
        """
        return PgxPosition(pgx=_small(state), score=jnp.float32(0), num_steps=state._step_count)

    def actor(self, state: PgxPosition) -> Int[Array, ""]:
        over = state.pgx.terminated | state.pgx.truncated | (state.num_steps >= self.max_depth)
        return jnp.where(over, TERMINAL, self._turn(state)).astype(jnp.int32)

    def rows(self, state: PgxPosition) -> Rows:
        return jnp.ones(1, bool), jnp.ones(1, bool)

    def legal(self, state: PgxPosition) -> tuple[Bool[Array, "A0 N0"], Bool[Array, "A1 N1"]]:
        legal, actor = self.child_mask(state)[:, None], self.actor(state)
        return legal & (actor == 0), legal & (actor == 1)

    def children(self, state: PgxPosition) -> PgxPosition:
        return jax.vmap(self.child, in_axes=(None, 0))(state, self._actions())

    def child(self, state: PgxPosition, number: Int[Array, ""] | int) -> PgxPosition:
        """The position after the action of this number; unspecified where that is illegal."""
        with lenient():
            whole = state.pgx.replace(rewards=jnp.zeros(2, jnp.float32))
            after = self.env.step(whole, number)
        return PgxPosition(
            pgx=_small(after),
            score=state.score + after.rewards[self.first],
            num_steps=state.num_steps + 1,
        )

    def child_mask(self, state: PgxPosition) -> Bool[Array, " K"]:
        return state.pgx.legal_action_mask & (self.actor(state) != TERMINAL)

    def down(
        self,
        state: PgxPosition,
        child: Int[Array, ""] | int,
        reach: Reach,
        policy: Policy,
    ) -> Reach:
        actor, exists = self.actor(state), self.child_mask(state)[child]
        first, second = (
            jnp.where(exists, reach[p] * jnp.where(actor == p, policy[p][child], 1), 0)
            for p in range(2)
        )
        return first, second

    def up(
        self, state: PgxPosition, values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]]
    ) -> tuple[Policy, Values]:
        exists = self.child_mask(state)[:, None]
        first, second = (jnp.where(exists, below, 0) for below in values)
        return (first, second), (jnp.sum(first, axis=0), jnp.sum(second, axis=0))

    def follow(
        self, state: PgxPosition, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        goes = (self._actions() == action) & self.child_mask(state) & jnp.all(pair >= 0)
        return jnp.where(goes[:, None], pair[None, :], NOWHERE)

    def weight(self, state: PgxPosition, pair: Int[Array, "2"]) -> Float[Array, ""]:
        return jnp.where(jnp.all(pair >= 0), 1.0, 0.0)

    def compatible(
        self, state: PgxPosition, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        return opponent_reach

    def terminal_values(
        self, state: PgxPosition, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        returns = state.score if player == 0 else -state.score
        return returns.astype(opponent_reach.dtype) * opponent_reach

    def encode(self, state: PgxPosition) -> Float[Array, " F"]:
        """pgx's observation, flattened, as the player to move sees it; then that player, 0 or 1."""
        with lenient():
            seen = self.env.observe(state.pgx)
        turn = self._turn(state)
        return jnp.concatenate([seen.astype(float).ravel(), turn.astype(float)[None]])

    def _turn(self, state):
        return seat_of(state.pgx.current_player, self.first)

    def _actions(self):
        return jnp.arange(self.num_children, dtype=jnp.int32)


def pgx_beliefs(env: Any, *, max_depth: int | None = None) -> PgxBeliefs:
    """A two-player, zero-sum game of pgx with perfect information, as a belief-level game.

    Args:
      env: a `pgx.Env`, or the name of one. Whether an environment that is not pgx's own hides
        information is not examined.
      max_depth: a game that is not over after this many steps ends there with the rewards so far.
        The default is the longest possible episode of a pgx game; other environments need a value.

    Returns:
      The game; player 0 moves first.

    Raises:
      ValueError: unknown name, not two players, hidden information, chance, or not zero-sum.
      ImportError: pgx is not installed.
    """
    env = make_env(env)
    _check_kind(env)
    return beliefs_of(from_pgx(env, max_depth=max_depth))


def beliefs_of(game: PgxGame) -> PgxBeliefs:
    """The rules of a game of pgx as a belief-level game, with the same longest game.

    Raises:
      ValueError: the game is not pgx's own, and not zero-sum in some random episode.
    """
    if kind_of(game.env) not in MAX_DEPTH:
        _check_zero_sum(game)
    root = jax.tree.map(jnp.asarray, game.root)
    return PgxBeliefs(
        name=str(game),
        num_rows=(1, 1),
        num_actions=(game.num_actions, game.num_actions),
        num_children=game.num_actions,
        max_depth=game.max_depth,
        env=game.env,
        start=PgxPosition(pgx=_small(root), score=jnp.float32(0), num_steps=jnp.int32(0)),
        first=jnp.asarray(root.current_player, jnp.int32),
    )


def legal_action_numbers(position: PgxPosition) -> list[int]:
    """The legal actions of a position of a game that is not over, in rising order."""
    return np.flatnonzero(np.asarray(position.pgx.legal_action_mask)).tolist()


def _small(state):
    return state.replace(observation=None, rewards=None)


def _check_kind(env):
    """Refuses pgx's own games with more players, hidden information or chance."""
    import pgx  # makes arrays when imported: not at the head of this module

    allowed = [name for name in pgx.available_envs() if name.startswith((*MAX_DEPTH,))]
    if kind_of(env) not in MAX_DEPTH and env.id in pgx.available_envs():
        raise ValueError(
            f"pgx:{env.id} is not a two-player game of perfect information without chance; "
            f"allowed: {', '.join(sorted(allowed))}"
        )


def _check_zero_sum(game: PgxGame):
    """Refuses games whose payoffs do not add up to zero in some random episodes."""
    noise = np.random.default_rng(0).uniform(size=(game.max_depth, 32, game.num_actions))
    step = jax.jit(jax.vmap(game.step))
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (32, *jnp.shape(x))), game.init())
    for drawn in noise:
        action = np.argmax(np.where(states.legal, drawn, -1), axis=1)
        states = step(states, jnp.asarray(action, jnp.int32))
    off = np.abs(np.sum(states.returns, axis=1)).max()
    if off > 1e-6:
        raise ValueError(f"{game} is not zero-sum: returns add up to {off:g} somewhere")
