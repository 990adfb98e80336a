"""Games of hold'em with buckets in place of cards, and the layout of their tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.holdem.ranges import NUM_HANDS
from solvers.blueprint.betting_rounds import BettingRounds, Family

# rounds of a family that are computed at once, which fit in a CPU's caches and fill its vectors
_CHUNK = 64

Tables = tuple[tuple[Array, ...], ...]  # by street and family


@dataclasses.dataclass(frozen=True, eq=False)
class BucketGame:
    """A betting tree with buckets in place of cards. Static under `jit`."""

    rounds: BettingRounds
    num_buckets: tuple[int, ...]  # by street

    def __post_init__(self):
        if len(self.num_buckets) != len(self.rounds.streets):
            raise ValueError(
                f"num_buckets={self.num_buckets} must be of {len(self.rounds.streets)} streets"
            )

    @property
    def num_information_states(self) -> int:
        """Pairs of a decision and a bucket."""
        return sum(b * d for b, d in zip(self.num_buckets, self.rounds.num_decisions, strict=True))

    @property
    def table_bytes(self) -> int:
        """Bytes of regrets and average policies in float32."""
        return sum(2 * 4 * math.prod(shape) for _, _, shape in self.shapes())

    def iteration_bytes(self, *, groups: int, deals: int) -> int:
        """Bytes that an iteration needs beside the tables, in float32: an upper estimate.

        It is a tenth too large in limit hold'em on accelerators; CPUs need less.

        Args:
          groups: the room for groups of hands.
          deals: on a device at once.
        """
        rounds = sum(family.entries for families in self.rounds.streets for family in families)
        chunks = []
        for _, family, (_, columns, buckets, size) in self.shapes():
            shown = family.template.num_ends
            places = shown + len(family.template.loser)
            rows = 3 * groups * places + buckets * (places + columns) + 2 * NUM_HANDS * shown
            chunks.append(2 * size * rows)
        # reaches and values of all rounds, what both players have in a chunk, and pairs of hands
        return 4 * deals * (8 * groups * rounds + max(chunks) + 2 * NUM_HANDS**2)

    def shapes(self) -> Iterator[tuple[int, Family, tuple[int, int, int, int]]]:
        """The street, the family and the shape of each table: N chunks, C actions, B buckets, and E
        rounds of a chunk."""
        for street, families in enumerate(self.rounds.streets):
            for family in families:
                chunks = -(-family.entries // _CHUNK)
                size = family.entries if chunks == 1 else _CHUNK
                buckets = self.num_buckets[street]
                yield street, family, (chunks, family.template.columns, buckets, size)


def in_chunks(values: Float[Array, "*n M"], table: Float[Array, "N C B E"]) -> Array:
    """The values of a family's rounds `[N, ..., E]` as its table has them; 0 of those that do not
    exist."""
    chunks, size = len(table), table.shape[-1]
    missing = [(0, 0)] * (values.ndim - 1) + [(0, chunks * size - values.shape[-1])]
    return jnp.moveaxis(jnp.pad(values, missing).reshape(*values.shape[:-1], chunks, size), -2, 0)
