"""Games of pgx (Koyamada et al. 2023, "Pgx: Hardware-Accelerated Parallel Game Simulators").

Only two-player perfect-information games fit the contract of `Game`. Where pgx hides chance in its
keys (cards dealt inside of `init`, dice rolled inside of `step`), use `adapters.pgx_simulator`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from jaxgames.adapters import chess_environments, go_environments
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import TERMINAL, Game, State, absorb, record
from jaxgames.registry import unknown

NO_ACTION = -1

# Longest episodes of the perfect-information games of pgx, as functions of the number of actions.
MAX_DEPTH = {
    "animal_shogi": lambda num_actions: 256,
    "chess": lambda num_actions: 512,
    "connect_four": lambda num_actions: 42,
    "gardner_chess": lambda num_actions: 256,
    "go": lambda num_actions: 2 * (num_actions - 1),  # twice the number of points
    "hex": lambda num_actions: num_actions,  # all cells and one swap
    "othello": lambda num_actions: 120,  # 60 discs, a pass before each
    "shogi": lambda num_actions: 512,
    "tic_tac_toe": lambda num_actions: 9,
}

# The most legal actions of a position that games come to, where that is known to be much less than
# the number of all actions. In Gardner chess every piece has its most moves on an empty board, and
# the five pawns are queens.
MOST_LEGAL = {"chess": 218, "gardner_chess": 128, "shogi": 593}


@record
class PgxState(State):
    """A state of pgx, and the moves that led to it."""

    pgx: Any  # pgx's own state
    score: Array  # [2] float: sum of the rewards so far, by seat
    history: Array  # [max_depth] int32 actions, NO_ACTION where none was taken
    num_steps: Array  # [] int32


@dataclasses.dataclass(frozen=True, eq=False)
class PgxGame(Game):
    """A two-player perfect-information game of pgx; see `from_pgx`. Equal only to itself."""

    env: Any  # pgx.Env
    horizon: int  # episodes end after this many steps
    root: Any  # pgx's first state, as NumPy arrays

    name: ClassVar[str] = "pgx"

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return self.root.legal_action_mask.shape[0]

    @property
    def max_depth(self) -> int:
        return self.horizon

    def init(self) -> PgxState:
        return PgxState(
            actor=jnp.int32(0),
            legal=jnp.asarray(self.root.legal_action_mask),
            chance_probs=jnp.zeros(1, float),
            returns=jnp.zeros(2, float),
            pgx=jax.tree.map(jnp.asarray, self.root),
            score=jnp.zeros(2, float),
            history=jnp.full(self.horizon, NO_ACTION, jnp.int32),
            num_steps=jnp.int32(0),
        )

    def step(self, state: PgxState, action: Int[Array, ""]) -> PgxState:
        with lenient():
            after = self.env.step(state.pgx, action)
        first = self.root.current_player
        score = state.score + by_seat(after.rewards, first)
        num_steps = state.num_steps + 1
        done = after.terminated | after.truncated | (num_steps >= self.horizon)
        places = jnp.arange(self.horizon, dtype=jnp.int32)
        next_state = PgxState(
            actor=jnp.where(done, TERMINAL, seat_of(after.current_player, first)),
            legal=after.legal_action_mask & ~done,
            chance_probs=jnp.zeros(1, float),
            returns=jnp.where(done, score, 0.0),
            pgx=after,
            score=score,
            history=jnp.where(places == state.num_steps, action, state.history),
            num_steps=num_steps,
        )
        return absorb(state, next_state)

    def information_state(self, state: PgxState, player: int) -> Int[Array, " L"]:
        """The public state: nothing is hidden."""
        return self.public_state(state)

    def public_state(self, state: PgxState) -> Int[Array, " M"]:
        """The number of steps made, then the actions."""
        return jnp.concatenate([state.num_steps[None], state.history])

    def features(self, state: PgxState, player: int) -> Float[Array, " F"]:
        """Encodes pgx's observation, flattened, and whether `player` is to act.

        The observation is that of the player to act (its shape is `env.observation_shape`).
        """
        turn = seat_of(state.pgx.current_player, self.root.current_player) == player
        seen = state.pgx.observation.astype(float).ravel()
        return jnp.concatenate([seen, turn.astype(float)[None]])

    def belief_game(self) -> BeliefGame:
        """The game by positions; see `pgx_beliefs`."""
        from jaxgames.adapters.pgx_beliefs import beliefs_of  # which imports the rules

        return beliefs_of(self)

    def render(self, state: PgxState) -> str:
        """Lists the moves so far; pgx itself draws boards, by `state.pgx.save_svg(file)`."""
        actions = np.asarray(state.history)[: int(state.num_steps)]
        return f"{self}: {' '.join(map(str, actions)) or 'no move yet'}"

    def parameters(self) -> dict[str, object]:
        known = _known_depth(self.env, self.num_actions)
        return {} if self.horizon == known else {"max_depth": self.horizon}

    def __str__(self) -> str:
        given = "".join(f"({name}={value})" for name, value in self.parameters().items())
        return f"pgx:{self.env.id}{given}"


def from_pgx(env: Any, *, max_depth: int | None = None) -> PgxGame:
    """Adapts a two-player perfect-information game of pgx.

    Player 0 moves first (pgx draws the seats at random). A game that is not over after `max_depth`
    steps ends there with the rewards so far, which in pgx's own games is a draw.

    Args:
      env: a `pgx.Env`, or its name, which `(max_depth=NUMBER)` may follow.
      max_depth: the largest number of steps; by default the longest possible episode, which is
        known for pgx's own games only.

    Returns:
      The game.

    Raises:
      ValueError: an unknown name, not two players, hidden information or chance, or a `max_depth`
        that is unknown or given twice.
    """
    if isinstance(env, str) and (match := re.fullmatch(r"(\w+)\(max_depth=(\d+)\)", env)):
        if max_depth is not None:
            raise ValueError(f"max_depth={max_depth} is given again in the name {env!r}")
        env, max_depth = match[1], int(match[2])
    env = make_env(env)
    if env.num_players != 2:
        raise ValueError(f"pgx:{env.id} has {env.num_players} player(s); from_pgx needs 2")
    with lenient():
        root = jax.tree.map(np.asarray, jax.jit(env.init)(jax.random.key(0)))
    known = _known_depth(env, root.legal_action_mask.shape[0])
    if known is None:
        _check_no_chance(env, root)
        if max_depth is None:
            raise ValueError(f"pgx:{env.id}: max_depth must be given, as it is not known")
    if max_depth is None:
        max_depth = known
    if max_depth < 1:
        raise ValueError(f"pgx:{env.id}: max_depth={max_depth} must be at least 1")
    return PgxGame(env=env, horizon=max_depth, root=root)


@contextlib.contextmanager
def lenient() -> Iterator[None]:
    """Sets the default promotion rules and 32 bits, for which pgx is written, in a `with` block."""
    with (
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.enable_x64(False),
    ):
        yield


def make_env(env: Any) -> Any:
    """Returns the environment of a name, or `env` itself if it is not a name.

    Those of chess, Gardner chess and Go are pgx's with faster steps (`chess_environments`,
    `go_environments`).

    Raises:
      ValueError: no such environment.
      ImportError: pgx is not installed.
    """
    if not isinstance(env, str):
        return env
    try:
        import pgx  # makes arrays when imported: not at the head of this module
    except ImportError as error:
        raise ImportError("pgx is not installed: pip install pgx") from error
    if env not in pgx.available_envs():
        raise ValueError(unknown("pgx game", env, pgx.available_envs()))
    own = chess_environments.ENVIRONMENTS | go_environments.ENVIRONMENTS
    with lenient():
        return own[env]() if env in own else pgx.make(env)


def _known_depth(env, num_actions):
    """The longest episode of one of pgx's own games; None of others."""
    longest = MAX_DEPTH.get(kind_of(env))
    return longest and longest(num_actions)


def kind_of(env: Any) -> str:
    """Returns the key of `MAX_DEPTH` for an environment."""
    return "go" if env.id.startswith("go_") else env.id


def seat_of(
    player: Int[ArrayLike, ""], first: Int[ArrayLike, ""], num_players: int = 2
) -> Int[Array, ""]:
    """Returns the seat of a player of pgx, counted from the player who moves first."""
    return (jnp.asarray(player) - jnp.asarray(first)) % num_players


def by_seat(values: Float[Array, " P"], first: Int[ArrayLike, ""]) -> Float[Array, " P"]:
    """Reorders entries by pgx's players into entries by seat."""
    return jnp.roll(values, -first).astype(float)


def _check_no_chance(env, root) -> None:
    """Refuses games whose first state depends on the key (hidden cards), or whose steps do."""
    with lenient():
        deals = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(1), 32))
        key = jax.random.key(2)
        traced = jax.make_jaxpr(env.step)(root, jnp.int32(0), key).jaxpr
    seen = [
        (deals.observation, root.observation),
        (deals.legal_action_mask, root.legal_action_mask),
    ]
    if not all(bool((many == single[None]).all()) for many, single in seen):
        raise ValueError(
            f"pgx:{env.id} deals at random inside init(key), which hides chance from solvers;"
            " jaxgames.adapters.pgx_simulator.PgxSimulator samples it"
        )
    if any(traced.invars[-1] is used for line in traced.eqns for used in line.invars):
        raise ValueError(
            f"pgx:{env.id} draws at random inside step, which hides chance from solvers;"
            " jaxgames.adapters.pgx_simulator.PgxSimulator samples it"
        )
