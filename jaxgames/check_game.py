"""Checks of the game contract: `check_game(game)` plays at random and checks every law.

They are for the authors of games, in this package and outside of it. The laws of information are
checked on playouts that differ in a single move. `enumerate_game` checks the laws that solvers rest
on over all histories, in games that are small enough.

Example:

    >>> import jaxgames
    >>> jaxgames.check_game(jaxgames.make("kuhn_poker"), num_playouts=8)
"""

from __future__ import annotations

import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxgames.arrays import at
from jaxgames.core import CHANCE, TERMINAL, Game, State, record
from jaxgames.registry import make, registered

_FAMILY = 8  # playouts that differ in a step or two
_NUM_REPLAYED = 4  # playouts that are replayed step by step
_TOLERANCE = 1e-5  # of float32 arithmetic


def check_game(game: Game, *, num_playouts: int = 64, seed: int = 0) -> None:
    """Checks a game against the contract of `jaxgames.Game` along random playouts.

    It checks shapes and dtypes; the laws of actor, legal actions, chance, returns and terminal
    states; what information states, public states and features depend on; that `step` is traced
    once and gives the same result under `jit`, without it, batched and in float64; and the texts.

    Args:
      game: the game.
      num_playouts: how many playouts to check.
      seed: seeds the playouts.

    Returns:
      Nothing: the game passes if no error is raised.

    Raises:
      AssertionError: a law is broken; the message says which one, and after which moves.
    """
    _check_identity(game)
    aims = _random_aims(game, num_playouts, seed)
    for double in (False, True):
        with jax.enable_x64(double):
            _check_shapes(game)
    with jax.enable_x64(False):
        trace = jax.tree.map(np.asarray, _play(game, aims))
        _check_states(game, trace)
        _check_information(game, trace)
        _check_text(game, trace)
        _check_step(game, trace)
    with jax.enable_x64(True):
        again = jax.tree.map(np.asarray, _play(game, aims))
        _require_same(again, trace, f"{game}: float64 and float32 differ")


@record
class _Trace:
    """N playouts of T = `max_depth` + 1 steps, so that every game is stepped beyond its end."""

    states: State  # leaves [N, T + 1, ...]
    moves: Array  # [N, T]
    information_states: Array  # [N, T + 1, P, L]
    public_states: Array  # [N, T + 1, M]
    features: Array  # [N, T + 1, P, F]


def _random_aims(game: Game, num_playouts: int, seed: int) -> Int[np.ndarray, "N T"]:
    """For each step of each playout, the number of the move to aim at.

    The playouts of a family differ from its first one in a single step (perhaps a hidden move), or
    have two steps exchanged (which may lead to the same board). So even in large games there are
    histories that some player must not distinguish, and histories that a forgetful key would
    confuse.
    """
    generator = np.random.default_rng(seed)
    num_steps, width = game.max_depth + 1, max(game.num_actions, game.num_chance_outcomes)
    aims = generator.integers(0, width, (num_playouts, num_steps), np.int32)
    for playout in range(num_playouts):
        step, other = generator.choice(num_steps, 2, replace=False)
        fresh, first = aims[playout, step], aims[playout - playout % _FAMILY]
        aims[playout] = first
        if playout % _FAMILY and playout % 2:
            aims[playout, step] = fresh
        elif playout % _FAMILY:
            aims[playout, [step, other]] = first[[other, step]]
    return aims


@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.vmap, in_axes=(None, 0))
def _play(game: Game, aims: Int[Array, " T"]) -> _Trace:
    """Plays one playout."""

    def step(state, aims):
        move = _move(game, state, aims)
        return game.step(state, move), (state, move)

    def observe(state):
        players = range(game.num_players)
        keys = jnp.stack([game.information_state(state, player) for player in players])
        features = jnp.stack([game.features(state, player) for player in players])
        return keys, game.public_state(state), features

    last, (states, moves) = jax.lax.scan(step, game.init(), aims)
    states = jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), states, last)
    keys, public, features = jax.vmap(observe)(states)
    return _Trace(
        states=states,
        moves=moves,
        information_states=keys,
        public_states=public,
        features=features,
    )


def _move(game: Game, state: State, aim: Int[Array, ""]) -> Int[Array, ""]:
    """The first possible move from number `aim` on, cyclically; any move once the game is over."""
    chance, legal = state.chance_probs > 0, state.legal
    width = max(len(chance), len(legal))
    chance = jnp.zeros(width, bool).at[: len(chance)].set(chance)
    legal = jnp.zeros(width, bool).at[: len(legal)].set(legal)
    possible = jnp.where(state.actor == CHANCE, chance, legal)
    distance = (jnp.arange(width, dtype=jnp.int32) - aim) % width
    move = jnp.argmin(jnp.where(possible, distance, width)).astype(jnp.int32)
    return jnp.where(state.actor == TERMINAL, aim % game.num_actions, move)


def _check_identity(game: Game) -> None:
    """Name, sizes, hash, and that `make` rebuilds the game from its text."""
    _require(isinstance(getattr(game, "name", None), str), f"{type(game).__name__} has no name")
    for what in ("num_players", "num_actions", "num_chance_outcomes", "max_depth"):
        value = getattr(game, what)
        _require(isinstance(value, int) and value >= 1, f"{game}: {what} is {value!r}, not >= 1")
    try:
        hash(game)
    except TypeError as error:
        raise AssertionError(f"{game}: cannot be hashed ({error})") from None
    if game.name in registered():
        again = make(str(game))
        same = again == game and hash(again) == hash(game)
        _require(same, f"{game}: make({str(game)!r}) does not give an equal game")


def _check_shapes(game: Game) -> None:
    """Declared shapes and dtypes, and that no step changes them."""
    number = np.dtype(jax.dtypes.canonicalize_dtype(float))
    root = jax.eval_shape(game.init)
    _require(isinstance(root, State), f"{game}: init returns {type(root).__name__}, not a State")
    expected = dict(
        actor=((), np.dtype(np.int32)),
        legal=((game.num_actions,), np.dtype(bool)),
        chance_probs=((game.num_chance_outcomes,), number),
        returns=((game.num_players,), number),
    )
    for field, (shape, dtype) in expected.items():
        leaf = getattr(root, field)
        text = f"{game}: state.{field} is {leaf.dtype}{leaf.shape}, not {dtype}{shape}"
        _require((leaf.shape, leaf.dtype) == (shape, dtype), text)
    after = jax.eval_shape(game.step, root, jax.ShapeDtypeStruct((), jnp.int32))
    _require(_leaves(after) == _leaves(root), _changed(game, _leaves(root), _leaves(after)))

    players = range(game.num_players)
    keys = [jax.eval_shape(lambda s, p=p: game.information_state(s, p), root) for p in players]
    features = [jax.eval_shape(lambda s, p=p: game.features(s, p), root) for p in players]
    public = jax.eval_shape(game.public_state, root)
    for what, arrays, kind in (
        ("information_state", keys, np.integer),
        ("public_state", [public], np.integer),
        ("features", features, np.floating),
    ):
        seen = {(array.shape, str(array.dtype)) for array in arrays}
        _require(len(seen) == 1, f"{game}: {what} differs in shape or dtype by player: {seen}")
        good = len(arrays[0].shape) == 1 and np.issubdtype(arrays[0].dtype, kind)
        _require(good, f"{game}: {what} is {seen}, not a vector of type {kind.__name__}")


def _leaves(state: typing.Any) -> dict[str, str]:
    """What `jit` distinguishes in each array of a state."""
    return {
        jax.tree_util.keystr(path): f"{'weak ' * leaf.weak_type}{leaf.dtype}{leaf.shape}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }


def _changed(game: Game, before: dict[str, str], after: dict[str, str]) -> str:
    """The message for a step that changes the type of a state."""
    paths = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    changes = [f"state{path}: {before.get(path)} -> {after.get(path)}" for path in paths]
    return f"{game}: step changes the type of {', '.join(changes)}"


def _check_states(game: Game, trace: _Trace) -> None:
    """The laws of single states."""
    state, actor = trace.states, trace.states.actor
    over, chance = actor == TERMINAL, actor == CHANCE
    acting = (actor >= 0) & (actor < game.num_players)
    finite = np.isfinite(state.returns).all(axis=2)
    zero_returns = (state.returns == 0).all(axis=2)
    some_chance, total = (state.chance_probs != 0).any(axis=2), state.chance_probs.sum(axis=2)
    laws = {
        "actor is not a player, CHANCE or TERMINAL": acting | over | chance,
        "the player to act has no legal action": ~acting | state.legal.any(axis=2),
        "legal is not all False though no player acts": acting | ~state.legal.any(axis=2),
        "chance_probs has a negative entry": (state.chance_probs >= 0).all(axis=2),
        "chance_probs does not sum to 1": ~chance | (abs(total - 1) < _TOLERANCE),
        "chance_probs is not 0 though chance does not act": chance | ~some_chance,
        "returns is not finite": finite,
        "returns is not 0 before the end": over | zero_returns,
    }
    for text, holds in laws.items():
        _require_everywhere(game, trace, holds, text)
    unchanged = np.ones_like(over)
    for leaf in jax.tree.leaves(state):
        same = (leaf[:, :-1] == leaf[:, 1:]).reshape(*leaf[:, 1:].shape[:2], -1).all(axis=2)
        unchanged[:, :-1] &= same
    _require_everywhere(game, trace, ~over | unchanged, "a step changes this terminal state")
    late = np.arange(actor.shape[1]) >= game.max_depth
    text = f"the game is not over after max_depth = {game.max_depth} steps"
    _require_everywhere(game, trace, over | ~late, text)


def _check_information(game: Game, trace: _Trace) -> None:
    """The laws of keys and features: what each of them must be a function of."""
    over = trace.states.actor == TERMINAL
    rows = np.nonzero(np.arange(over.shape[1]) <= np.argmax(over, axis=1)[:, None])
    depth, actor = rows[1], trace.states.actor[rows]
    moves = np.concatenate([np.full_like(trace.moves[:, :1], -1), trace.moves], axis=1)[rows]
    previous_actor = np.where(depth > 0, np.roll(actor, 1), TERMINAL)

    public = _number(trace.public_states[rows])
    require = functools.partial(_require_function, game, trace, rows)
    require(public, "public states", depth, "numbers of steps made")
    require(public, "public states", actor, "actors")
    require(public, "public states", _previous(public, depth), "public states one step before")
    for player in range(game.num_players):
        keys = _number(trace.information_states[rows][:, player])
        legal = trace.states.legal[rows] & (actor == player)[:, None]
        own_action = np.where(previous_actor == player, moves, -1)
        known = functools.partial(require, keys, f"information states of player {player}")
        known(public, "public states")
        known(legal, "legal actions")
        known(own_action, "own last actions (imperfect recall)")
        known(_previous(keys, depth), "information states one step before (imperfect recall)")
        known(trace.features[rows][:, player], "features")


def _number(keys: Int[np.ndarray, "R L"]) -> Int[np.ndarray, " R"]:
    """Equal numbers for equal rows."""
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(len(keys))


def _previous(numbers: Int[np.ndarray, " R"], depth: Int[np.ndarray, " R"]):
    """The number one step earlier in the same playout, -1 at the root."""
    return np.where(depth > 0, np.roll(numbers, 1), -1)


def _require_function(game, trace, rows, keys, key_name, values, value_name) -> None:
    """Requires that rows with equal keys have equal values."""
    first = np.unique(keys, return_index=True)[1][keys]
    values = values.reshape(len(keys), -1).astype(np.float64)
    differs = ~(abs(values - values[first]) < _TOLERANCE).all(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        this, that = (_after(trace, int(rows[0][r]), int(rows[1][r])) for r in (first[row], row))
        raise AssertionError(
            f"{game}: equal {key_name} but different {value_name}: {this} and {that}"
        )


def _check_step(game: Game, trace: _Trace) -> None:
    """One trace serves all steps; jitted, plain and batched steps agree."""
    traces = []

    def count_and_step(state, move):
        traces.append(move)
        return game.step(state, move)

    jitted = jax.jit(count_and_step)
    for playout in range(min(_NUM_REPLAYED, len(trace.moves))):
        _replay(game, trace, playout, jitted, "batched and single steps differ")
    _require(len(traces) == 1, f"{game}: step was traced {len(traces)} times, not once")
    longest = int(np.argmin(np.sum(trace.states.actor == TERMINAL, axis=1)))
    _replay(game, trace, longest, game.step, "steps with and without jit differ")


def _replay(game, trace, playout, step, text) -> None:
    """Steps through a playout again and requires the same states."""
    state = game.init()
    for time, move in enumerate([*trace.moves[playout], None]):
        expected = _state(trace, playout, time)
        _require_same(state, expected, f"{game}: {text} {_after(trace, playout, time)}")
        state = state if move is None else step(state, jnp.int32(move))


def _check_text(game: Game, trace: _Trace) -> None:
    """Pictures and names are strings; different moves have different names."""
    for playout in range(min(_NUM_REPLAYED, len(trace.moves))):
        for time in range(trace.moves.shape[1]):
            state = jax.device_put(_state(trace, playout, time))
            moves = np.flatnonzero(np.asarray(state.legal))
            if state.actor == CHANCE:
                moves = np.flatnonzero(np.asarray(state.chance_probs))
            names = [game.action_name(state, int(move)) for move in moves]
            where = _after(trace, playout, time)
            strings = all(isinstance(text, str) for text in [game.render(state), *names])
            _require(strings, f"{game}: render or action_name does not return a string {where}")
            _require(
                len({*names}) == len(names),
                f"{game}: different moves have equal names {names} {where}",
            )


def _state(trace: _Trace, playout: int, time: int) -> State:
    """One state of a playout."""
    return at(trace.states, (playout, time))


def _after(trace: _Trace, playout: int, time: int) -> str:
    """Names a state by the moves before it."""
    return f"after moves {trace.moves[playout, :time].tolist()}"


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise AssertionError(text)


def _require_everywhere(game, trace, holds, text) -> None:
    if not holds.all():
        playout, time = np.argwhere(~holds)[0].tolist()
        raise AssertionError(f"{game}: {text} {_after(trace, playout, time)}")


def _require_same(actual: typing.Any, expected: typing.Any, text: str) -> None:
    """Requires equal arrays, up to rounding of floats."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(actual), jax.tree.leaves(expected), strict=True)
    for (path, leaf), other in pairs:
        leaf = np.asarray(leaf)
        exact = not np.issubdtype(leaf.dtype, np.floating)
        tolerance = 0 if exact else _TOLERANCE
        if not np.allclose(leaf, other, rtol=tolerance, atol=tolerance):
            raise AssertionError(f"{text}: {jax.tree_util.keystr(path)} {leaf} and {other}")
