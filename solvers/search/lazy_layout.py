"""The sizes of trees whose children are made lazily, and how sweeps and walks go through them."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxgames.beliefs.contract import BeliefGame
from solvers.search.search_state import GrowingTreeCfr

# On accelerators, where places may look at all others of their trees, or at A others:
_MOST_PAIRED = 256  # places of a tree that are fewer to look at than children in a list
_MOST_LISTED = 32  # actions
_MOST_AT_ONCE = 1024  # places of a tree


@dataclasses.dataclass(frozen=True)
class LazyLayout:
    """The sizes of a batch of trees. Static under `jit`."""

    batch: int  # B trees
    room: int  # T places of each
    levels: int  # D depths that places may have
    actions: int  # A
    expand: int  # k children that a leaf gets; a root has all
    lane: int  # places of a level of each tree that a step of a sweep takes
    # whether sweeps go level by level (`lazy_steps`), or all places take part in each step
    # (`lazy_at_once`), where siblings are found among all pairs of places, or in the lists
    sweep: Literal["levels", "pairs", "lists"]

    @property
    def places(self) -> int:
        """P = B * T, one more than the last place."""
        return self.batch * self.room

    @property
    def roots(self) -> Int[Array, " B"]:
        """The first places of the trees."""
        return jnp.arange(self.batch, dtype=jnp.int32) * self.room

    @property
    def doublings(self) -> int:
        """The least n for which no place has a 2^n-th ancestor."""
        return (self.levels - 1).bit_length()

    def by_tree(self, table: Array) -> Array:
        """A table `[P, ...]` as `[B, T, ...]`."""
        return table.reshape(self.batch, self.room, *table.shape[1:])


def lazy_layout(game: BeliefGame, settings: GrowingTreeCfr, batch: int) -> LazyLayout:
    """The sizes of the trees of a batch of searches.

    Args:
      game: of perfect information.
      settings: of the searches, with `expand`: there is room for what their simulations add.
      batch: B, how many there are.
    """
    expand = min(settings.expand, game.num_children)
    room = 1 + game.most_legal + settings.simulations * expand
    on_cpu = jax.default_backend() == "cpu"
    least, most = (8, 64) if on_cpu else (64, 1024)
    return LazyLayout(
        batch=batch,
        room=room,
        levels=min(game.max_depth + 1, room),
        actions=game.num_children,
        expand=expand,
        lane=min(max(2 ** math.ceil(math.log2(room / 16)), least), most),
        sweep="levels" if on_cpu else _sweep_at_once(room, game.num_children),
    )


def _sweep_at_once(room, actions):
    """On an accelerator, where steps cost more than work: all places in each step, unless they
    would look at too many others."""
    if room <= _MOST_PAIRED:
        return "pairs"
    if actions <= _MOST_LISTED:
        return "lists"
    return "pairs" if room <= _MOST_AT_ONCE else "levels"
