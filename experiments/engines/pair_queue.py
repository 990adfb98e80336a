"""Pairs of games one after the other, or by several workers side by side.

A worker is a thread with players of its own. Other programs are processes anyway, and the workers
share the searches of our own agents. What a pair's games are does not depend on the workers, but
for the rounding of sums in searches of several positions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from experiments.engines.game import GameRecord
from experiments.engines.match import play_pair
from experiments.engines.player import Loss, Player, Turn
from experiments.engines.referee import Referee

NewPlayers = Callable[[], Sequence[Player]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairTask:
    """A pair of games that is to be played."""

    name: str
    first: int
    """The number of the player who begins the first game."""
    second: int
    opening: tuple[str, ...]
    seed: int


class _Stopped(Exception):
    """The games of this worker are not wanted any more."""


class _Stoppable:
    """A player whose games end with `_Stopped` when an event is set."""

    def __init__(self, player: Player, stop: threading.Event):
        self.name, self._player, self._stop = player.name, player, stop
        self.begin, self.object_to, self.close = player.begin, player.object_to, player.close

    def choose(self, turn: Turn) -> str | Loss:
        if self._stop.is_set():
            raise _Stopped
        return self._player.choose(turn)


def play_tasks(
    tasks: Sequence[PairTask], new_players: NewPlayers, *, referee: Referee, workers: int
) -> Iterator[tuple[PairTask, list[GameRecord]]]:
    """Plays pairs of games.

    Args:
      tasks: to play.
      new_players: makes all players, for each worker its own.
      referee: of the game.
      workers: how many pairs are played at a time. If the iteration is given up, they stop at
        their next moves.

    Yields:
      Pairs with their games, as they are finished.
    """
    with contextlib.ExitStack() as stack:
        stop, free = threading.Event(), queue.SimpleQueue()
        for _ in range(min(workers, len(tasks))):
            players = new_players()
            for player in players:
                stack.callback(player.close)
            free.put([_Stoppable(player, stop) for player in players])

        def play(task: PairTask) -> tuple[PairTask, list[GameRecord]]:
            players = free.get()
            seated = players[task.first], players[task.second]
            try:
                return task, play_pair(referee, seated, opening=task.opening, seed=task.seed)
            finally:
                free.put(players)

        if workers == 1:
            yield from map(play, tasks)
            return
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(play, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)
