"""Matches of agents in pairs of games, in pieces that are kept for an interrupted run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.harness import devices
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from jaxgames.beliefs.contract import BeliefGame
from solvers.perfect_information import matches
from solvers.perfect_information.matches import Agent

OF_THESE_NETWORKS = (
    "; intervals are of these trained networks: how much those of other seeds would differ is not"
    " in them"
)
_SEEDS_APART = 1_000  # of openings, from one seed of training to the next


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two games from one opening; players are numbers of agents."""

    first: int
    second: int
    opening: int
    begun: float  # what the first player won in the game that it began: 1, 0 or -1
    answered: float  # and in the other one

    @property
    def share(self) -> float:
        """Of the points of both games, what the first player got."""
        return (2 + self.begun + self.answered) / 4


def rows(pairs: Iterable[Pair], name_of: Callable[[int], str]) -> list[dict[str, object]]:
    """Rows of a CSV with all pairs, in which players have names instead of numbers."""
    return [
        dataclasses.asdict(pair) | {"first": name_of(pair.first), "second": name_of(pair.second)}
        for pair in pairs
    ]


def play_matches(
    run: Run, game: BeliefGame, agents: Sequence[Agent], met: Sequence[tuple[int, int, int]]
) -> list[Pair]:
    """All games, match by match.

    Args:
      run: keeps them. Its config has `pairs`, the number of openings of each match, which have
        `opening_moves` random moves; `batch`, how many pairs are kept together and how many
        positions a player is asked for at a time; and the `seed`.
      game: a game of perfect information.
      agents: who plays.
      met: who meets whom, by numbers of agents, and the seed of training of their networks. Each
        has its own openings, so that pairs of games of different seeds are independent.
    """
    config, play = run.config, _player_of_pairs(run, game, agents)
    found: list[Pair] = []
    with progress("pairs of games", len(met) * config.pairs) as report:
        count = counter(report)
        for first, second, trained in met:
            for begin in range(0, config.pairs, config.batch):
                numbers = np.arange(begin, min(begin + config.batch, config.pairs))
                piece = functools.partial(play, first, second, trained, numbers)
                found += run.kept(f"{first}-{second}-{begin}", Pair, piece)
                count(len(numbers))
    return found


def _player_of_pairs(
    run: Run, game: BeliefGame, agents: Sequence[Agent]
) -> Callable[..., Iterator[Pair]]:
    """A function that plays the pairs of these numbers between two agents."""
    config, mesh = run.config, devices.local(run.mesh)
    chooses = [matches.chooser(game, agent, mesh) for agent in agents]

    @functools.cache
    def openings_of(trained):
        seed = config.seed + _SEEDS_APART * trained
        length = config.opening_moves
        return matches.draw_openings(game, number=config.pairs, length=length, seed=seed)

    def play(first, second, trained, numbers):
        key = jax.random.fold_in(jax.random.key(config.seed), first * len(chooses) + second)
        won = matches.play_pairs(
            game,
            jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(numbers)),
            [chooses[first], chooses[second]],
            openings_of(trained)[numbers],
            batch=config.batch,
            devices=1 if mesh is None else mesh.size,
        )
        for number, (begun, answered) in zip(numbers.tolist(), won.tolist(), strict=True):
            yield Pair(first=first, second=second, opening=number, begun=begun, answered=answered)

    return play
