"""Measures how exploitable a search is in a game whose public states can be listed."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from experiments.harness.devices import local
from experiments.harness.progress import counter, progress, status
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import Listing, list_public_states
from jaxgames.beliefs.table import BeliefTable
from jaxgames.registry import make
from solvers.search.agent_exploitability import Chain, agents, longest_path, searched_exploitability
from solvers.search.search_state import GrowingTreeCfr


class SearchLaboratory:
    """A game with the list of its public states, in which searches are measured.

    Args:
      game: its tables, or its name.
      batch: how many searches run side by side.
      mesh: the devices that share a batch; None: one. Of several processes, each measures alone.
    """

    def __init__(self, game: str | BeliefTable, *, batch: int, mesh: Mesh | None = None):
        with status("listing public states"):
            self.table = belief_table(make(game)) if isinstance(game, str) else game
            self.listing = list_public_states(self.table)
        self.batch, self.mesh = batch, local(mesh)

    def exploitability(
        self,
        title: str,
        params: PyTree,
        settings: GrowingTreeCfr,
        *,
        seeds: int,
        which: range | None = None,
        key: int = 0,
        chains: tuple[Chain, Chain] = agents(),
    ) -> list[float]:
        """Exploitability (NashConv / 2) of an agent that searches, by seed; shows a progress bar.

        Args:
          title: of the bar.
          params: of the evaluator in `settings`.
          settings: of the searches; `max_nodes` and `max_path` are replaced by what the game needs.
          seeds: how often the agent is measured.
          which: measure with these seeds only, with the same results for them; None: with all.
          key: a number that the random numbers are derived from.
          chains: both players' searches, each from the results of the one before.
        """
        which = range(seeds) if which is None else which
        num_searches = len(which) * sum(
            int(chain.searched(self.listing).sum()) for chain in dict.fromkeys(chains)
        )
        with progress(title, num_searches) as report:
            exploitability = searched_exploitability(
                self.table,
                self.listing,
                params,
                jax.random.split(jax.random.key(key), seeds)[which.start : which.stop],
                settings=dataclasses.replace(
                    settings,
                    max_nodes=self.listing.num_inner,
                    max_path=max(1, longest_path(self.listing, chains)),
                ),
                chains=chains,
                batch=self.batch,
                mesh=self.mesh,
                report=counter(report),
            )
        return exploitability.tolist()

    def pieces(self, seeds: int, chains: tuple[Chain, Chain] = agents()) -> list[range]:
        """All seeds, in as many pieces as can be measured one by one without much idle room.

        Searches run side by side if they are of one round: those of a seed's chain that follow
        equally many others. In large games a seed has many in a round, in small ones it takes
        several seeds to fill two batches in a round on average.

        Args:
          seeds: how many there are.
          chains: as in `exploitability`.
        """
        searches = min(_searches_in_a_round(self.listing, chain) for chain in chains)
        least = math.ceil(2 * self.batch / searches)
        parts = np.array_split(np.arange(seeds), max(1, seeds // least))
        return [range(int(part[0]), int(part[-1]) + 1) for part in parts]


def _searches_in_a_round(listing: Listing, chain: Chain) -> float:
    """How many searches of a seed run side by side, on average."""
    searched, parent = chain.searched(listing), np.asarray(listing.parent)
    before = np.zeros(len(parent), int)  # searches on the path from the root
    for state in range(1, len(parent)):
        before[state] = before[parent[state]] + searched[parent[state]]
    return searched.sum() / (1 + before[searched].max())
