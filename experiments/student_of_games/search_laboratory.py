"""How exploitable a search is in a listed game, measured with a progress bar."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from experiments.harness import published, results
from experiments.harness.progress import counter, progress, status
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.beliefs.table import BeliefTable
from jaxgames.registry import make
from solvers.search.agent_exploitability import Chain, agents, longest_path, searched_exploitability
from solvers.search.growing_tree_cfr import GrowingTreeCfr


class Laboratory:
    """A game, by its tables or by its name, with all its public states."""

    def __init__(self, game: str | BeliefTable, *, batch: int):
        with status("listing public states"):
            self.table = belief_table(make(game)) if isinstance(game, str) else game
            self.listing = list_public_states(self.table)
        self.batch = batch  # searches side by side

    def exploitability(
        self,
        title: str,
        params: PyTree,
        settings: GrowingTreeCfr,
        *,
        seeds: int,
        key: int = 0,
        chains: tuple[Chain, Chain] = agents(),
    ) -> list[float]:
        """Exploitability (NashConv / 2) of searching wherever the chains do, by seed.

        Trees have room for the game, and paths for the chains, whatever `settings` say.
        """
        searches = seeds * sum(
            int(one.searched(self.listing).sum()) for one in dict.fromkeys(chains)
        )
        with progress(title, searches) as report:
            found = searched_exploitability(
                self.table,
                self.listing,
                params,
                jax.random.split(jax.random.key(key), seeds),
                settings=dataclasses.replace(
                    settings,
                    max_nodes=self.listing.num_inner,
                    max_path=max(1, longest_path(self.listing, chains)),
                ),
                chains=chains,
                batch=self.batch,
                report=counter(report),
            )
        return found.tolist()


def measure(game: str, seeds: int) -> str:
    """What `number` tells, in words."""
    unit, _ = published.measured_in(game)
    return (
        f"exploitability (NashConv / 2) in {game}, in {unit}: mean of {seeds} seeds of search; low"
        " and high are the least and the most exploitable"
    )


def number(
    name: str, game: str, exploitability: Sequence[float], *, paper: float | None = None
) -> results.Number:
    """Exploitability by seed as one number; `paper` is in the game's payoffs too."""
    unit, scale = published.measured_in(game)
    values = scale * np.asarray(exploitability)
    return results.Number(
        name=name,
        value=float(values.mean()),
        unit=unit,
        low=float(values.min()),
        high=float(values.max()),
        paper=None if paper is None else scale * paper,
        seeds=len(values),
    )


def text(game: str, exploitability: Sequence[float]) -> str:
    """The mean, for people."""
    return f"{published.measured_in(game)[1] * np.mean(exploitability):.3g}"
