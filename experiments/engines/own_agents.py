"""Our agents as players of matches. Games that are played side by side share their searches."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable, Sequence

import jax
import numpy as np

from experiments.engines.player import Loss, Turn, move_seed
from experiments.engines.referee import Referee
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition
from solvers.perfect_information import matches
from solvers.perfect_information.matches import Agent

Choose = Callable[[PgxPosition, int], int]  # the action in a position, by a seed


class OwnAgent:
    """An agent of ours as a player.

    Args:
      name: of the player.
      referee: of the game.
      choose: the agent's moves.
    """

    def __init__(self, name: str, referee: Referee, choose: Choose):
        self.name, self._referee, self._choose, self._seed = name, referee, choose, 0

    def begin(self, seed: int) -> None:
        self._seed = seed

    def choose(self, turn: Turn) -> str | Loss:
        action = self._choose(turn.position, move_seed(self._seed, len(turn.moves)))
        return next(m for m, a in self._referee.moves(turn.position).items() if a == action)

    def object_to(self, end: Turn, score: str | None) -> str | None:
        return None

    def close(self) -> None:
        pass


@dataclasses.dataclass(kw_only=True, eq=False)
class _Asked:
    """A position that waits for its action."""

    position: PgxPosition
    seed: int
    action: int | None = None
    error: BaseException | None = None  # why there is none


class SharedSearches:
    """The moves of an agent in games that are played by several threads.

    Who asks while there is a search waits for its end. Then one of those that wait searches in the
    positions of all of them at once.

    Args:
      game: that is played.
      agent: who searches.
      batch: positions of a search, at most; fewer are padded to a power of two, as each size is a
        program of its own.
    """

    def __init__(self, game: PgxBeliefs, agent: Agent, *, batch: int):
        self._choose, self._batch = matches.chooser(game, agent), batch
        self._waiting: collections.deque[_Asked] = collections.deque()
        self._changed, self._searching = threading.Condition(), False

    def __call__(self, position: PgxPosition, seed: int) -> int:
        """The action in a position, by a seed; the positions beside it do not matter but for how
        sums in batches of other sizes are rounded."""
        asked = _Asked(position=position, seed=seed)
        with self._changed:
            self._waiting.append(asked)
            while asked.action is None and asked.error is None:
                if self._searching:
                    self._changed.wait()
                else:
                    self._search()
        if asked.error is not None:
            raise asked.error
        return asked.action

    def _search(self) -> None:
        """Answers those who have waited longest. `_changed` is held, but not while it searches."""
        self._searching = True
        found = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._batch))]
        self._changed.release()
        try:
            for asked, action in zip(found, self._actions(found), strict=True):
                asked.action = action
        except BaseException as error:
            for asked in found:
                asked.error = error
        finally:
            self._changed.acquire()
            self._searching = False
            self._changed.notify_all()

    def _actions(self, found: Sequence[_Asked]) -> list[int]:
        """The agent's actions in some positions."""
        room = min(1 << (len(found) - 1).bit_length(), self._batch)
        padded = [*found, *[found[-1]] * (room - len(found))]
        states = jax.tree.map(lambda *each: np.stack(each), *(asked.position for asked in padded))
        keys = jax.vmap(jax.random.key)(np.array([asked.seed for asked in padded], np.uint32))
        actions = self._choose(keys, states, np.asarray(states.num_steps, np.int32))
        return np.asarray(actions)[: len(found)].tolist()
