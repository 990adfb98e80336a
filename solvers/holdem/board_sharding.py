"""One large subgame over several devices: each has some of the boards after the first card dealt.

    >>> import functools
    >>> import jax
    >>> import numpy as np
    >>> from jax.sharding import Mesh
    >>> from jaxgames.holdem.bet_sizes import Sizes
    >>> from jaxgames.holdem.betting import build_betting_tree
    >>> from jaxgames.holdem.cards import parse_cards
    >>> from jaxgames.holdem.ranges import parse_range
    >>> from solvers import cfr
    >>> from solvers.holdem.board_sharding import BOARDS, spread_holdem_tree
    >>> betting = build_betting_tree(pot=200, stack=200, streets=2, sizes=Sizes.parse("100%", ""))
    >>> board, ranges = parse_cards("Td9d6hQc"), (parse_range("QQ"), parse_range("AQ"))
    >>> mesh = Mesh(np.array(jax.devices()), (BOARDS,))
    >>> spread = spread_holdem_tree(board, ranges, betting, mesh=mesh)
    >>> state = spread.call(lambda tree: cfr.init(tree, root_reach=spread.root_reach))
    >>> run = functools.partial(cfr.run, solver=cfr.dcfr(), num_iterations=10)
    >>> policy = spread.call(cfr.average_policy, spread.call(run, state))

What comes before that card is on all devices, as are hands; what follows it, and all memory of it,
on one each. The one thing that devices tell each other is what is worth what when the card is
dealt: they add it up. So all that works on a tree works here, inside `call`.
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

from jaxgames.holdem.betting import BettingTree
from jaxgames.holdem.ranges import HANDS
from solvers.holdem.betting_layout import Layout
from solvers.holdem.boards import Street
from solvers.holdem.subgame_tree import (
    DECK,
    HoldemTree,
    check_size,
    deals_after,
    make_spot,
    tree_of,
)
from solvers.sequence_form import Policy, SequenceForm

BOARDS = "boards"  # the axis of the mesh
NO_BOARD = -1


@dataclasses.dataclass(frozen=True, eq=False)
class SpreadTree:
    """A subgame over D devices; arrays of `public` are theirs one after the other, [D, ...]."""

    public: SequenceForm
    mesh: Mesh
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]
    layouts: tuple[tuple[Layout, Layout], ...]  # by device
    # by device and street: which boards of the whole subgame it has, NO_BOARD where none
    boards: tuple[tuple[Int[np.ndarray, " _"], ...], ...]

    @property
    def root_reach(self) -> tuple[Float[Array, " _"], Float[Array, " _"]]:
        """The ranges, for solvers."""
        return tuple(jnp.asarray(held) for held in self.ranges)

    def call(self, function: Callable[..., PyTree], *arguments: PyTree) -> Any:
        """`function(tree, *arguments)` on all devices at once, compiled once for each function.

        Each gets its part of the tree and of the arguments, whose arrays have a leading axis of
        devices, as has what is returned. What does not depend on boards, such as exploitability, is
        the same on all.
        """

        return _on_all(self.mesh, function)(self.public, *arguments)

    def gathered(self, policy: Policy, whole: HoldemTree) -> tuple[np.ndarray, ...]:
        """Policies of the devices `[D, _, A]` as policies of the `whole` tree `[D_p, A]`."""
        found = []
        for player, (rows, layout) in enumerate(zip(policy, whole.layouts, strict=True)):
            size, rows = layout.num_hands, np.asarray(rows)
            table = np.zeros((layout.player.num_decisions, rows.shape[2]), rows.dtype)
            table = table.reshape(-1, size, rows.shape[2])
            for device, (layouts, boards) in enumerate(zip(self.layouts, self.boards, strict=True)):
                part = rows[device].reshape(-1, size, rows.shape[2])
                for node, first in layouts[player].first_decision.items():
                    here = boards[whole.betting.street[node]]
                    (there,) = np.nonzero(here != NO_BOARD)
                    table[layout.first_decision[node] + here[there]] = part[first + there]
            found.append(table.reshape(-1, rows.shape[2]))
        return tuple(found)


@functools.lru_cache(maxsize=32)
def _on_all(mesh, function):
    def on_one(*parts):
        found = function(*jax.tree.map(lambda x: x[0], parts))
        return jax.tree.map(lambda x: x[None], found)

    specs = dict(in_specs=P(BOARDS), out_specs=P(BOARDS))
    return jax.jit(jax.shard_map(on_one, mesh=mesh, **specs, check_vma=False))


def spread(tree: HoldemTree, *, mesh: Mesh, storage: str = "full") -> SpreadTree:
    """A tree that is built, over the devices of a mesh: see `spread_holdem_tree`.

    Raises:
      ValueError: no card is dealt any more, or a player cannot hold some hands.
      TreeTooLargeError: a device's part does not fit on it.
    """
    if any(len(hands) < len(tree.all_hands) for hands in tree.hands):
        raise ValueError(f"{tree.public.game}: all players must be able to hold all hands")
    return spread_holdem_tree(
        tree.board,
        tree.ranges,
        tree.betting,
        mesh=mesh,
        hands=tree.all_hands,
        deals=tree.deals,
        deck=tree.deck,
        dtype=tree.public.dtype.name,
        isomorphism=tree.isomorphism,
        storage=storage,
    )


def spread_holdem_tree(
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
) -> SpreadTree:
    """The subgame of `build_holdem_tree` over the devices of a mesh with the axis `BOARDS`.

    `deals` are those after three to five cards if None. Showdowns are computed as products.

    Raises:
      ValueError: as `build_holdem_tree`; or no card is dealt any more.
      TreeTooLargeError: a device's part needs more than `max_bytes`, by default what it has.
    """
    deals = deals_after(board) if deals is None else deals
    if not deals:
        raise ValueError(f"board={board} has no cards after it, whose boards devices could share")
    spot = make_spot(
        board, hands, ranges, betting, deals=deals, deck=deck, dtype=dtype, isomorphism=isomorphism
    )
    boards, parts = _parts(spot.streets, mesh.size)
    devices, trees = list(mesh.devices.flat), []
    for device, part in zip(devices, parts, strict=True):
        mine = dataclasses.replace(spot, streets=part)
        check_size(mine, form="products", storage=storage, max_bytes=max_bytes)
        with jax.default_device(device):
            trees.append(tree_of(mine, form="products", axis=BOARDS))
    sharding = NamedSharding(mesh, P(BOARDS))

    def joined(*parts):
        shape = len(parts), *parts[0].shape
        parts = [jax.device_put(x[None], device) for x, device in zip(parts, devices, strict=True)]
        return jax.make_array_from_single_device_arrays(shape, sharding, parts)

    return SpreadTree(
        public=jax.tree.map(joined, *(tree.public for tree in trees)),
        mesh=mesh,
        ranges=spot.ranges,
        layouts=tuple(tree.layouts for tree in trees),
        boards=boards,
    )


def _parts(streets: tuple[Street, ...], count: int):
    """The boards of each part, and its streets: of one shape, so boards are added that are never
    dealt, on which nothing is worth anything."""
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
        # where images are missing, there must be a board that is never dealt to stand in for them
        width = max(
            len(below)
            + any(np.isin(below, street.images[suits]).sum() < most[suits] for suits in most)
            for part in children
            for below in part
        )
        for part, below in enumerate(children):
            kept, filled = _filled(street, below, most, width)
            boards[part].append(kept)
            parts[part].append(filled)
    return tuple(map(tuple, boards)), list(map(tuple, parts))


def _filled(street, children, most, width):
    """A part's boards of a street, so many for each board before, and as many images of each."""
    kept = np.full((len(children), width), NO_BOARD)
    images = {}
    for row, below in enumerate(children):
        kept[row, : len(below)] = below
    for suits, which in street.images.items():
        places = np.full((len(children), most[suits]), width - 1)
        for row, below in enumerate(children):
            (found,) = np.nonzero(np.isin(below, which))
            places[row, : len(found)] = found
        images[suits] = (places + width * np.arange(len(children))[:, None]).ravel()
    kept = kept.ravel()
    dealt = kept != NO_BOARD
    return kept, dataclasses.replace(
        street,
        boards=street.boards[np.maximum(kept, 0)],
        parent=np.repeat(np.arange(len(children)), width),
        images=images,
        alike=tuple(street.alike[board] if board != NO_BOARD else () for board in kept),
        dealt=dealt,
    )
