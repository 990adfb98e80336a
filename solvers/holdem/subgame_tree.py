"""Hold'em from some public state on as a public tree: betting, boards, and what players may hold.

    >>> from jaxgames.holdem.bet_sizes import Sizes
    >>> from jaxgames.holdem.betting import build_betting_tree
    >>> from jaxgames.holdem.cards import parse_cards
    >>> from jaxgames.holdem.ranges import parse_range
    >>> from solvers import cfr
    >>> from solvers.holdem.subgame_tree import holdem_tree
    >>> betting = build_betting_tree(pot=200, stack=900, streets=1, sizes=Sizes.parse("50%", ""))
    >>> board = parse_cards("Td9d6hQc2s")
    >>> ranges = parse_range("66+, A8s+"), parse_range("QQ+, AQ")
    >>> tree = holdem_tree(board, ranges, betting)
    >>> state = cfr.init(tree.public, root_reach=tree.root_reach)
    >>> state = cfr.run(tree.public, state, solver=cfr.dcfr(gamma=3.0), num_iterations=20)

All that works on a `SequenceForm` works on `tree.public`. No abstraction: players see their hands
and all boards; suits that nobody can tell apart are solved once.
"""

from __future__ import annotations

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.game_tree import TreeTooLargeError
from jaxgames.holdem.betting import NO_NODE, SHOWDOWN, BettingTree
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import HANDS
from solvers.holdem.betting_layout import Layout
from solvers.holdem.boards import Street, apart, possible, streets
from solvers.holdem.showdown_by_products import expected_winners, products
from solvers.holdem.showdown_by_ranks import ranks
from solvers.holdem.terminals import terminals
from solvers.sequence_form import SequenceForm
from solvers.sequence_form.storage import check_storage

DECK = tuple(range(NUM_CARDS))
FORMS = ("products", "ranks")
_DEALS = {3: (1, 1), 4: (1,), 5: ()}  # cards of each later street, by those on the board
_STATE_ARRAYS = 4  # of all sequences: what a solve keeps
_ARRAYS = 21  # besides, while solving and while measuring


@dataclasses.dataclass(frozen=True)
class HoldemTree:
    """A subgame, and what its numbers stand for."""

    public: SequenceForm
    betting: BettingTree
    streets: tuple[Street, ...]
    board: tuple[int, ...]
    deck: tuple[int, ...]
    deals: tuple[int, ...]  # cards of each later street
    isomorphism: bool
    form: str  # of showdowns, see `holdem_tree`
    all_hands: Int[np.ndarray, "N k"]  # that there are
    hands: tuple[Int[np.ndarray, "_ k"], Int[np.ndarray, "_ k"]]  # of each player, in this order
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]  # their weights
    layouts: tuple[Layout, Layout]

    @property
    def root_reach(self) -> tuple[Float[Array, " _"], Float[Array, " _"]]:
        """The ranges, for solvers."""
        return tuple(jnp.asarray(held, self.public.dtype) for held in self.ranges)

    @property
    def total(self) -> float:
        """Weight of all pairs of hands that go together; payoffs are weighted by it."""
        return float(self.ranges[0] @ apart(*self.hands) @ self.ranges[1])


def holdem_tree(
    board: tuple[int, ...],
    ranges: tuple[Float[np.ndarray, "1326"], Float[np.ndarray, "1326"]],
    betting: BettingTree,
    *,
    dtype: str = "float32",
    isomorphism: bool = True,
    form: str | None = None,
    storage: str = "full",
    max_bytes: int | None = None,
) -> HoldemTree:
    """The subgame on a board of three to five cards.

    `form` is how showdowns are computed, "ranks" or "products"; by default what is faster on this
    backend. `isomorphism` solves suits that nobody can tell apart once for all. `storage` is what
    the solve will have (see `cfr.init`), and matters to its memory only.

    Raises:
      ValueError: the board does not have three to five different cards, a range is empty on it, or
        the betting tree has not as many streets as there are left.
      TreeTooLargeError: solving needs more than `max_bytes`, by default what the device has.
    """
    deals = deals_after(board)
    return build_holdem_tree(
        board,
        HANDS,
        ranges,
        betting,
        deals=deals,
        dtype=dtype,
        isomorphism=isomorphism,
        form=form,
        storage=storage,
        max_bytes=max_bytes,
    )


def deals_after(board: tuple[int, ...]) -> tuple[int, ...]:
    """How many cards are dealt on each later street.

    Raises:
      ValueError: the board does not have three to five different cards.
    """
    if len(set(board)) != len(board) or len(board) not in _DEALS:
        raise ValueError(f"board={board} must have 3 to 5 different cards")
    return _DEALS[len(board)]


def build_holdem_tree(
    board: tuple[int, ...],
    hands: Int[np.ndarray, "N k"],
    ranges: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
    betting: BettingTree,
    *,
    deals: tuple[int, ...],
    deck: tuple[int, ...] = DECK,
    dtype: str = "float32",
    isomorphism: bool = True,
    form: str | None = None,
    storage: str = "full",
    max_bytes: int | None = None,
) -> HoldemTree:
    """The same for any deck and hands of one or two cards, with so many cards dealt before each
    later street.

    Raises:
      ValueError: a range is empty on the board, there are not as many streets as deals and one, or
        no such form or storage.
      TreeTooLargeError: as `holdem_tree`.
    """
    check_storage(storage)
    form = form or _fastest_form()
    if form not in FORMS:
        raise ValueError(f"form={form!r} must be one of {', '.join(FORMS)}")
    spot = make_spot(
        board, hands, ranges, betting, deals=deals, deck=deck, dtype=dtype, isomorphism=isomorphism
    )
    check_size(spot, form=form, storage=storage, max_bytes=max_bytes)
    return tree_of(spot, form=form)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spot:
    """A subgame before anything is built of it; see `HoldemTree`."""

    betting: BettingTree
    streets: tuple[Street, ...]
    board: tuple[int, ...]
    deck: tuple[int, ...]
    deals: tuple[int, ...]
    isomorphism: bool
    dtype: str
    all_hands: Int[np.ndarray, "N k"]
    hands: tuple[Int[np.ndarray, "_ k"], Int[np.ndarray, "_ k"]]
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]


def make_spot(
    board: tuple[int, ...],
    hands: Int[np.ndarray, "N k"],
    ranges: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
    betting: BettingTree,
    *,
    deals: tuple[int, ...],
    deck: tuple[int, ...],
    dtype: str,
    isomorphism: bool,
) -> Spot:
    """The boards that may come, and the hands that either player may hold.

    Raises:
      ValueError: a range is empty on the board, or there are not as many streets as deals and one.
    """
    if betting.num_streets != 1 + len(deals):
        raise ValueError(
            f"the betting tree has {betting.num_streets} streets; from a board of {len(board)}"
            f" cards there are {1 + len(deals)}"
        )
    there = possible(hands, np.array(board, int).reshape(1, -1))[0]
    ranges = tuple(np.where(there, weights, 0) for weights in ranges)
    for player, weights in enumerate(ranges):
        if not weights.any():
            raise ValueError(f"player {player}'s range is empty on this board")
    found = streets(
        board,
        deals,
        deck=deck,
        hands=hands[there],
        ranges=tuple(r[there] for r in ranges),
        isomorphism=isomorphism,
    )
    return Spot(
        betting=betting,
        streets=found,
        board=tuple(board),
        deck=deck,
        deals=deals,
        isomorphism=isomorphism,
        dtype=dtype,
        all_hands=hands,
        hands=tuple(hands[weights > 0] for weights in ranges),
        ranges=tuple(weights[weights > 0].astype(dtype) for weights in ranges),
    )


def tree_of(spot: Spot, *, form: str, axis: str | None = None) -> HoldemTree:
    """Builds the tree; `axis` of a mesh is what boards after the first are spread over, where
    `spot` has only some of them (see `sharding`)."""
    betting, dtype = spot.betting, spot.dtype
    layouts = tuple(Layout(betting, spot.streets, p, spot.hands[p], dtype, axis) for p in range(2))
    operators = _operators(betting, spot.streets, layouts, spot.deck, spot.deals, dtype, form)
    public = SequenceForm(
        treeplexes=tuple(layout.player for layout in layouts),
        terminals=tuple(
            terminals(layouts[p], layouts[1 - p], player=p, operators=operators[p], dtype=dtype)
            for p in range(2)
        ),
        num_actions=betting.child.shape[1],
        game="hold'em subgame",
        dtype=np.dtype(dtype),
    )
    return HoldemTree(
        public=public,
        betting=betting,
        streets=spot.streets,
        board=spot.board,
        deck=spot.deck,
        deals=spot.deals,
        isomorphism=spot.isomorphism,
        form=form,
        all_hands=spot.all_hands,
        hands=spot.hands,
        ranges=spot.ranges,
        layouts=layouts,
    )


def _fastest_form():
    return "ranks" if jax.default_backend() == "cpu" else "products"


def _operators(betting, found, layouts, deck, deals, dtype, form):
    """By player, what every street's folds and showdowns are computed with."""
    operators, hands = [], [layout.hands for layout in layouts]
    for street, at in enumerate(found):
        shown = ((betting.actor == SHOWDOWN) & (betting.street == street)).any()
        if form == "ranks" and not deals[street:] and shown:
            operators.append(
                [
                    ranks(
                        hands[p],
                        hands[1 - p],
                        at.boards,
                        num_blocks=layouts[1 - p].street.count(street),
                    )
                    for p in range(2)
                ]
            )
            continue
        matrices = (None, None)
        if shown:
            matrix = expected_winners(
                hands[0], hands[1], at.boards, deck=deck, deals=deals[street:], dtype=dtype
            )
            matrices = matrix, -jnp.swapaxes(matrix, 1, 2)
        operators.append(
            [products(hands[p], hands[1 - p], matrices[p], dtype=dtype) for p in range(2)]
        )
    return tuple(zip(*operators, strict=True))


def estimated_bytes(
    betting: BettingTree,
    streets: tuple[Street, ...],
    num_hands: tuple[int, int],
    *,
    dtype: str = "float32",
    form: str = "ranks",
    storage: str = "full",
) -> int:
    """About how much memory it takes to solve a subgame and to measure the solution."""
    size, total = np.dtype(dtype).itemsize, 0
    kept = size if storage == "full" else np.dtype(storage).itemsize
    each = _ARRAYS * size + _STATE_ARRAYS * kept
    for street, at in enumerate(streets):
        for player in range(2):
            nodes = (betting.actor == player) & (betting.street == street)
            blocks = int((betting.child[nodes] != NO_NODE).sum())
            total += blocks * len(at.boards) * num_hands[player] * each
        if form == "products" or street < len(streets) - 1:
            total += 2 * len(at.boards) * num_hands[0] * num_hands[1] * size
    return total


def check_size(spot: Spot, *, form: str, storage: str, max_bytes: int | None) -> None:
    """Refuses what is too large; `max_bytes` of None is what the device has.

    Raises:
      TreeTooLargeError: with an estimate of the memory it takes.
    """
    betting, found, hands = spot.betting, spot.streets, spot.hands
    needed = estimated_bytes(
        betting, found, tuple(map(len, hands)), dtype=spot.dtype, form=form, storage=storage
    )
    allowed = _device_bytes() if max_bytes is None else max_bytes
    if needed > allowed:
        boards = "/".join(f"{len(at.boards):,}" for at in found)
        raise TreeTooLargeError(
            f"this subgame needs about {needed / 1e9:.2g} GB, more than {allowed / 1e9:.2g} GB:"
            f" {len(betting.actor):,} betting nodes, {boards} boards by street,"
            f" {len(hands[0]):,} and {len(hands[1]):,} hands; fewer bet sizes or hands make it"
            " smaller"
        )


def _device_bytes():
    stats = jax.local_devices()[0].memory_stats() or {}
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return stats.get("bytes_limit", physical)
