"""Debug mode: values that shapes cannot tell are checked, and errors name the argument.

    >>> import jax.numpy as jnp
    >>> from jaxgames import debug, make
    >>> from solvers import evaluation
    >>> from solvers.sequence_form import build_sequence_form
    >>> form = build_sequence_form(make("kuhn_poker"))
    >>> policy = (jnp.full((6, 2), 0.75), jnp.full((6, 2), 0.5))
    >>> with debug.checks():
    ...     evaluation.nash_conv(form, policy)
    Traceback (most recent call last):
    ValueError: nash_conv: sum of policy[0] over actions[0] is 1.5; allowed: 1

With `JAXGAMES_DEBUG=1` in the environment the mode is on from the beginning.

Functions that are decorated with `checked` look at their arguments. Called from Python they raise a
ValueError before they begin. Inside a `jit`, `vmap` or loop, where values are not known yet, the
check becomes a part of the compiled program and calls back to Python: the program stops with JAX's
JaxRuntimeError, whose text ends with the same message, and the end of the `with` block turns it
into a ValueError.

The mode is part of JAX's cache key: what was compiled without it is compiled anew in it, and while
it is off programs are exactly those of undecorated functions. A check never changes a result. The
values are tested by `checkify`, from Python through `chex.chexify`; Chex then logs at exit that
statuses were not inspected, although all have been.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Num, Shaped

from jaxgames.core import CHANCE, TERMINAL, Game, State

ENVIRONMENT_VARIABLE = "JAXGAMES_DEBUG"
_OFF, _ON = "off", "on"
_ARRAY = object()  # stands for an array among the static leaves of a check's arguments
_NUMBERS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
_TOLERANCE = 1e-3  # of sums in float32

_mode = jax.make_user_context(_ON if os.environ.get(ENVIRONMENT_VARIABLE) == "1" else _OFF)
_failures: list[str] = []  # messages of checks that have failed inside compiled programs
_function_name: contextvars.ContextVar[str] = contextvars.ContextVar("function_name", default="")


@contextlib.contextmanager
def checks(on: bool = True) -> Iterator[None]:
    """Turns debug mode on inside a `with` block of this thread.

    Args:
      on: False turns it off instead.

    Yields:
      Nothing.

    Raises:
      ValueError: a check inside a compiled program has failed.
    """
    _failures.clear()
    with _mode(_ON if on else _OFF):
        try:
            yield
            jax.effects_barrier()
        except jax.errors.JaxRuntimeError as error:
            if not _failures:
                raise
            raise ValueError(_failures.pop(0)) from error


def enabled() -> bool:
    """Whether debug mode is on."""
    return _mode.value != _OFF


def checked(check: Callable[..., None]) -> Callable[[Callable], Checked]:
    """Decorates a function whose arguments are to be checked in debug mode.

    The decorator stands above `jax.jit`.

    Args:
      check: called with those arguments that it has parameters for, by name; it calls `require`
        and its relatives.

    Returns:
      A decorator.
    """
    return lambda function: Checked(function, check)


class Checked:
    """A function that checks its arguments in debug mode; otherwise the function itself."""

    def __init__(self, function: Callable, check: Callable[..., None]):
        functools.update_wrapper(self, function)
        self._function, self._check = function, check
        self._signature = inspect.signature(function)
        self._checked_names = tuple(inspect.signature(check).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if enabled():
            arguments = self._checked_arguments(args, kwargs)
            run = _check_in_program if _traced(arguments) else _check_now
            run(self._check, self.__qualname__, arguments)
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"checked {self._function!r}"

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function, such as `lower` of a jitted one."""
        if name == "_function":  # before __init__, when copied
            raise AttributeError(name)
        return getattr(self._function, name)

    def _checked_arguments(self, args, kwargs) -> dict[str, Any]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return {name: bound.arguments[name] for name in self._checked_names}


def require(condition: Bool[Array, ""] | bool, message: str, **values: Num[Array, ""]) -> None:
    """Fails a check unless a condition holds; for functions that are given to `checked`.

    Args:
      condition: what must hold.
      message: names the argument, the value and what is allowed; `{name}` in it stands for the
        value of that name.
      **values: numbers for the message.

    Raises:
      ValueError: the condition does not hold, once the check has run.
    """
    from jax.experimental import checkify

    checkify.check(jnp.asarray(condition), f"{_function_name.get()}: {message}", **values)


def require_all(
    valid: Bool[Array, "..."], values: Num[Array, "..."], name: str, allowed: str
) -> None:
    """Requires every entry of an array to be valid, and names the first that is not.

    Args:
      valid: which entries are valid.
      values: the array, of the same shape.
      name: of the argument.
      allowed: what is allowed, for the message: "at least 0".

    Raises:
      ValueError: an entry is not valid.
    """
    if not valid.size:
        return
    first = jnp.argmin(valid.ravel())
    index = {f"i{axis}": i for axis, i in enumerate(jnp.unravel_index(first, valid.shape))}
    place = f"[{', '.join(f'{{{i}}}' for i in index)}]" if index else ""
    message = f"{name}{place} is {{value}}; allowed: {allowed}"
    require(jnp.all(valid), message, value=values.ravel()[first], **index)


def require_finite(values: Any, name: str) -> None:
    """Requires all numbers of a tree of arrays to be finite.

    Args:
      values: the tree; entries that are not floating are left alone.
      name: of the argument.

    Raises:
      ValueError: a number is not finite.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(values):
        if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
            leaf = jnp.asarray(leaf)
            place = f"{name}{jax.tree_util.keystr(path)}"
            require_all(jnp.isfinite(leaf), leaf, place, "finite numbers")


def require_reach(values: Shaped[Array, "..."], name: str) -> None:
    """Requires reach probabilities, or ranges that are not normalised: finite and at least 0.

    Args:
      values: the reaches.
      name: of the argument.

    Raises:
      ValueError: a number is negative or not finite.
    """
    values = jnp.asarray(values)
    valid = jnp.isfinite(values) & (values >= 0)
    require_all(valid, values, name, "finite numbers, at least 0")


def require_policy(
    probabilities: Num[Array, "... A"], legal: Bool[Array, "... A"], name: str
) -> None:
    """Requires policies: probabilities that sum to 1 over the legal actions, 0 at illegal ones.

    Args:
      probabilities: the policies, actions on the last axis.
      legal: which actions are legal; rows without any are left alone.
      name: of the argument.

    Raises:
      ValueError: a number is negative, not finite or not 0 at an illegal action, or a row does not
        sum to 1.
    """
    probabilities = jnp.asarray(probabilities)
    require_reach(probabilities, name)
    acts = jnp.any(legal, axis=-1)
    absent = jnp.where(acts[..., None] & ~legal, probabilities, 0)
    require_all(absent == 0, absent, name, "0, as the action is illegal there")
    total = jnp.sum(jnp.where(legal, probabilities, 0), axis=-1)
    valid = ~acts | (jnp.abs(total - 1) <= _TOLERANCE)
    require_all(valid, total, f"sum of {name} over actions", "1")


def _check_step(game: Game, state: State, action: Array) -> None:
    action = jnp.asarray(action)
    moves = jnp.concatenate([state.legal, state.chance_probs > 0])
    first = jnp.where(state.actor == CHANCE, len(state.legal), 0)
    count = jnp.where(state.actor == CHANCE, len(state.chance_probs), len(state.legal))
    inside = (action >= 0) & (action < count)
    allowed = moves[first + jnp.clip(action, 0, count - 1)] & inside
    require(
        allowed & (state.actor != TERMINAL),
        f"action is {{action}}, which is illegal in {game} where the actor is {{actor}}; allowed:"
        " legal actions, or outcomes of chance that have a probability",
        action=action,
        actor=state.actor,
    )


@checked(_check_step)
def step(game: Game, state: State, action: Array) -> State:
    """`game.step` that checks the action in debug mode, also inside compiled programs.

    Args:
      game: the game.
      state: one state.
      action: an action of the actor, or an outcome of chance.

    Returns:
      The next state.

    Raises:
      ValueError: in debug mode, the action is illegal or the game is over.
    """
    return game.step(state, action)


def _traced(arguments: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))


def _check_now(check, name, arguments) -> None:
    """Runs a check of known values, compiled."""
    from jax.experimental.checkify import JaxRuntimeError

    structure, static, arrays = _split(arguments)
    try:
        _chexified(check, name, structure, static)(arrays)
    except JaxRuntimeError as error:
        raise ValueError(_message(str(error))) from None


@functools.lru_cache(maxsize=256)
def _chexified(check, name, structure, static) -> Callable[[list[Array]], None]:
    import chex

    program = jax.jit(functools.partial(_run_check, check, name, structure, static))
    return chex.chexify(program, async_check=False)


def _check_in_program(check, name, arguments) -> None:
    """Makes a check a part of the program that is being traced."""
    from jax.experimental import checkify

    structure, static, arrays = _split(arguments)
    program = functools.partial(_run_check, check, name, structure, static)
    error, _ = checkify.checkify(program)(arrays)
    jax.debug.callback(_throw, error)


def _throw(error) -> None:
    if error.get() is not None:
        _failures.append(_message(error.get()))
        raise ValueError(_failures[-1])


def _message(text: str) -> str:
    return text.removesuffix(" (`check` failed)")


def _run_check(check, name, structure, static, arrays) -> None:
    rest = iter(arrays)
    leaves = [next(rest) if leaf is _ARRAY else leaf for leaf in static]
    token = _function_name.set(name)
    try:
        check(**jax.tree.unflatten(structure, leaves))
    finally:
        _function_name.reset(token)


def _split(arguments: Any):
    """The structure of a tree, its leaves with `_ARRAY` in place of arrays, and the arrays."""
    leaves, structure = jax.tree.flatten(arguments)
    is_array = [isinstance(leaf, _NUMBERS) for leaf in leaves]
    static = tuple(_ARRAY if array else leaf for leaf, array in zip(leaves, is_array, strict=True))
    arrays = [leaf for leaf, array in zip(leaves, is_array, strict=True) if array]
    return structure, static, arrays
