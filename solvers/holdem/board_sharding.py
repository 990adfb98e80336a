"""One large subgame over several devices: each has some of the boards after the first card dealt.

All devices have what comes before that card, and all hands. What follows the card, and the memory
for it, is on one device each. Devices communicate only the values of hands when the card is dealt,
which they add up, so every function of a sequence form works inside `ShardedTree.call`.
`docs/holdem.md` has a program.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, PyTree

from jaxgames.arrays import at
from jaxgames.holdem.betting_tree import BettingTree
from jaxgames.holdem.ranges import HANDS
from solvers.holdem.sequence_layout import HoldemLayout
from solvers.holdem.street_boards import StreetBoards
from solvers.holdem.subgame_spec import DECK, check_size, deals_after, subgame_spec
from solvers.holdem.subgame_tree import HoldemTree, tree_from_spec
from solvers.sequence_form import Policy, SequenceForm

BOARDS = "boards"  # the axis of the mesh
NO_BOARD = -1


@dataclasses.dataclass(frozen=True, eq=False)
class ShardedTree:
    """A subgame over D devices.

    The arrays of `sequence_form` have a leading axis of devices, `[D, ...]`.
    """

    sequence_form: SequenceForm
    mesh: Mesh
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]
    layouts: tuple[tuple[HoldemLayout, HoldemLayout], ...]  # by device
    # by device and street: its boards' numbers in the whole subgame, NO_BOARD for padding
    boards: tuple[tuple[Int[np.ndarray, " _"], ...], ...]

    @property
    def root_reach(self) -> tuple[Float[Array, " _"], Float[Array, " _"]]:
        """The ranges as root reaches for solvers."""
        return tuple(jnp.asarray(weights) for weights in self.ranges)

    def call(self, function: Callable[..., PyTree], *arguments: PyTree) -> Any:
        """Calls a function of a sequence form on all devices at once.

        It is compiled once for each function. Results that do not depend on boards, such as
        exploitability, are the same on all devices.

        Args:
          function: called as `function(sequence_form, *arguments)` with each device's part.
          *arguments: pytrees whose arrays have a leading axis of devices.

        Returns:
          The results, whose arrays have a leading axis of devices.
        """
        return _on_all_devices(self.mesh, function)(self.sequence_form, *arguments)

    def gathered(self, policy: Policy, whole: HoldemTree) -> tuple[np.ndarray, ...]:
        """Joins the devices' policies.

        Args:
          policy: the policies of all devices, `[D, _, A]` for each player.
          whole: the tree of the whole subgame on one device.

        Returns:
          Policies `[D_p, A]` of the whole tree.
        """
        joined = []
        for player, (rows, layout) in enumerate(zip(policy, whole.layouts, strict=True)):
            size, rows = layout.num_hands, np.asarray(rows)
            table = np.zeros((layout.treeplex.num_decisions, rows.shape[2]), rows.dtype)
            table = table.reshape(-1, size, rows.shape[2])
            for device, (layouts, boards) in enumerate(zip(self.layouts, self.boards, strict=True)):
                part = rows[device].reshape(-1, size, rows.shape[2])
                for node, first in layouts[player].first_decision.items():
                    numbers = boards[whole.betting.street[node]]
                    (present,) = np.nonzero(numbers != NO_BOARD)
                    table[layout.first_decision[node] + numbers[present]] = part[first + present]
            joined.append(table.reshape(-1, rows.shape[2]))
        return tuple(joined)


@functools.lru_cache(maxsize=32)
def _on_all_devices(mesh, function):
    """The function, jitted, of parts with a leading axis of devices."""

    def on_device(*parts):
        results = function(*at(parts, 0))
        return jax.tree.map(lambda x: x[None], results)

    specs = dict(in_specs=P(BOARDS), out_specs=P(BOARDS))
    return jax.jit(jax.shard_map(on_device, mesh=mesh, **specs, check_vma=False))


def shard_tree(tree: HoldemTree, *, mesh: Mesh, storage: str = "full") -> ShardedTree:
    """Shards a tree that has been built on one device; see `shard_holdem_tree`.

    Args:
      tree: the tree; both players must be able to hold all hands.
      mesh: with the one axis `BOARDS`.
      storage: of the solver's state, as in `cfr.init`; it matters to the estimate of memory only.

    Returns:
      The sharded tree.

    Raises:
      ValueError: no card is dealt any more, or a player cannot hold some of the hands.
      TreeTooLargeError: a device's part takes more memory than it has.
    """
    if any(len(hands) < len(tree.all_hands) for hands in tree.hands):
        raise ValueError(f"{tree.sequence_form.game}: all players must be able to hold all hands")
    return shard_holdem_tree(
        tree.board,
        tree.ranges,
        tree.betting,
        mesh=mesh,
        hands=tree.all_hands,
        deals=tree.deals,
        deck=tree.deck,
        dtype=tree.sequence_form.dtype.name,
        isomorphism=tree.isomorphism,
        storage=storage,
    )


def shard_holdem_tree(
    board: tuple[int, ...],
    ranges: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
    betting: BettingTree,
    *,
    mesh: Mesh,
    hands: Int[np.ndarray, "N k"] = HANDS,
    deals: tuple[int, ...] | None = None,
    deck: tuple[int, ...] = DECK,
    dtype: str = "float32",
    isomorphism: bool = True,
    storage: str = "full",
    max_bytes: int | None = None,
) -> ShardedTree:
    """Builds the subgame of `build_holdem_tree` over the devices of a mesh.

    Showdowns are computed by products.

    Args:
      board: the cards of the board.
      ranges: weights of the hands, by player.
      betting: the betting tree, with one street more than there are deals.
      mesh: with the one axis `BOARDS`.
      hands: the N hands of k cards that the deck has.
      deals: how many cards are dealt before each later street; None: those of hold'em after a board
        of three or four cards.
      deck: all cards of the game.
      dtype: of payoffs, and so of every solver: "float32" or "float64".
      isomorphism: whether boards that are the same under a symmetry of suits are merged.
      storage: of the solver's state, as in `cfr.init`; it matters to the estimate of memory only.
      max_bytes: the memory that solving may take on each device; None: the memory of the device.

    Returns:
      The sharded tree.

    Raises:
      ValueError: as `build_holdem_tree`, or no card is dealt any more.
      TreeTooLargeError: a device's part takes more memory than is allowed.
    """
    deals = deals_after(board) if deals is None else deals
    if not deals:
        raise ValueError(f"board={board} has no cards after it, so devices have no boards to share")
    spec = subgame_spec(
        board, hands, ranges, betting, deals=deals, deck=deck, dtype=dtype, isomorphism=isomorphism
    )
    boards, parts = _parts(spec.streets, mesh.size)
    devices, trees = list(mesh.devices.flat), []
    for device, part in zip(devices, parts, strict=True):
        mine = dataclasses.replace(spec, streets=part)
        check_size(mine, showdowns="products", storage=storage, max_bytes=max_bytes)
        with jax.default_device(device):
            trees.append(tree_from_spec(mine, showdowns="products", axis=BOARDS))
    sharding = NamedSharding(mesh, P(BOARDS))

    def joined(*parts):
        shape = len(parts), *parts[0].shape
        parts = [jax.device_put(x[None], device) for x, device in zip(parts, devices, strict=True)]
        return jax.make_array_from_single_device_arrays(shape, sharding, parts)

    return ShardedTree(
        sequence_form=jax.tree.map(joined, *(tree.sequence_form for tree in trees)),
        mesh=mesh,
        ranges=spec.ranges,
        layouts=tuple(tree.layouts for tree in trees),
        boards=boards,
    )


def _parts(streets: tuple[StreetBoards, ...], count: int):
    """Splits the boards after the first street into `count` parts of the same shape.

    Parts are padded with boards that are never dealt, on which all values are 0.

    Returns:
      By part and street, the boards' numbers in `streets` (NO_BOARD for padding); and by part, its
      streets.
    """
    boards = [[np.zeros(1, np.int64)] for _ in range(count)]
    parts = [[streets[0]] for _ in range(count)]
    for number, street in enumerate(streets[1:]):
        everything = np.arange(len(street.boards))
        children = [
            [everything[part::count]]
            if number == 0
            else [everything[street.parent == above] for above in boards[part][-1]]
            for part in range(count)
        ]
        most = {
            suits: max(np.isin(below, which).sum() for part in children for below in part)
            for suits, which in street.images.items()
        }
        # a part with fewer images than others needs a padding board for them to point at
        width = max(
            len(below)
            + any(np.isin(below, street.images[suits]).sum() < most[suits] for suits in most)
            for part in children
            for below in part
        )
        for part, below in enumerate(children):
            kept, padded = _padded(street, below, most, width)
            boards[part].append(kept)
            parts[part].append(padded)
    return tuple(map(tuple, boards)), list(map(tuple, parts))


def _padded(street, children, most, width):
    """A part's boards of a street, padded to `width` boards for each board before.

    Args:
      street: all boards of the street.
      children: for each of the part's boards before, the boards that follow it.
      most: how many images under each symmetry a board before has at most, in any part.
      width: boards for each board before.

    Returns:
      The boards' numbers in `street` (NO_BOARD for padding), and the part's street.
    """
    kept = np.full((len(children), width), NO_BOARD)
    images = {}
    for row, below in enumerate(children):
        kept[row, : len(below)] = below
    for suits, which in street.images.items():
        places = np.full((len(children), most[suits]), width - 1)
        for row, below in enumerate(children):
            (present,) = np.nonzero(np.isin(below, which))
            places[row, : len(present)] = present
        images[suits] = (places + width * np.arange(len(children))[:, None]).ravel()
    kept = kept.ravel()
    dealt = kept != NO_BOARD
    return kept, dataclasses.replace(
        street,
        boards=street.boards[np.maximum(kept, 0)],
        parent=np.repeat(np.arange(len(children)), width),
        images=images,
        symmetries=tuple(street.symmetries[board] if board != NO_BOARD else () for board in kept),
        dealt=dealt,
    )
