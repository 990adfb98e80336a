"""Card abstractions: buckets for the hands of each street, as tables that are made once and kept.

    >>> from jaxgames.holdem.card_abstraction import CardAbstraction
    >>> abstraction = CardAbstraction.parse("169/ehs2:1000/ehs2:500/ehs2:200")
    >>> abstraction.num_buckets
    (169, 1000, 500, 200)

With imperfect recall a bucket depends on the hand and the unordered board, so that a table of a
street has a row for each canonical board and an entry for each hand. With perfect recall a bucket
is a sequence of such buckets.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import operator
import pathlib
import warnings
from collections.abc import Callable

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt

from jaxgames.core import record
from jaxgames.files import DAMAGED_ARRAYS, cache_folder, write_arrays
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    MAX_BOARD_CARDS,
    NUM_BOARDS,
    BoardFinder,
    board_finder,
    find_boards,
)
from jaxgames.holdem.hand_buckets import MOST_BUCKETS, Buckets, bucket_table, check_number
from jaxgames.holdem.ranges import NUM_HANDS

CACHE = "card_abstractions"  # the folder of the tables
_VERSION = 1  # of the tables in the cache: one more whenever any kind makes other tables
_RECALL = ", perfect recall"


@dataclasses.dataclass(frozen=True)
class CardAbstraction:
    """Buckets for each street."""

    streets: tuple[Buckets, ...]
    perfect_recall: bool = False

    def __post_init__(self):
        if not self.streets:
            raise ValueError("abstraction streets=(): there must be one or more")
        if self.num_buckets[-1] > MOST_BUCKETS:
            raise ValueError(
                f"abstraction {self}: a street has {self.num_buckets[-1]:,} sequences of buckets;"
                f" at most {MOST_BUCKETS:,} are allowed"
            )

    @property
    def num_buckets(self) -> tuple[int, ...]:
        """How many buckets each street has; sequences of buckets with perfect recall."""
        numbers = [buckets.number for buckets in self.streets]
        if self.perfect_recall:
            numbers = itertools.accumulate(numbers, operator.mul)
        return tuple(numbers)

    @classmethod
    def parse(cls, text: str) -> CardAbstraction:
        """Reads the buckets of all streets with slashes between them, as `Buckets.parse` does, and
        ", perfect recall" after them where that is meant.

        Raises:
          ValueError: the text is not understood.
        """
        streets = text.removesuffix(_RECALL).split("/")
        return cls(tuple(map(Buckets.parse, streets)), text.endswith(_RECALL))

    def __str__(self) -> str:
        return "/".join(map(str, self.streets)) + _RECALL * self.perfect_recall


@record
class BucketTables:
    """The buckets of all hands on all boards, for `buckets_of_deal`."""

    tables: tuple[Array, ...]  # by street: [B, 1326] on canonical boards
    finder: BoardFinder
    num_cards: tuple[int, ...] = flax.struct.field(pytree_node=False)  # of the board, by street
    # of the boards on which the strengths of hands were taken
    strength_cards: int = flax.struct.field(pytree_node=False)
    # how many there are, by street; with perfect recall, of sequences
    num_buckets: tuple[int, ...] = flax.struct.field(pytree_node=False)
    perfect_recall: bool = flax.struct.field(pytree_node=False)


def bucket_tables(
    abstraction: CardAbstraction,
    *,
    board: tuple[int, ...] = (0, 3, 1, 1),
    strength_cards: int | None = None,
    folder: pathlib.Path | None = None,
    report: Callable[[str], None] | None = None,
) -> BucketTables:
    """The tables of an abstraction; made where they are not in the cache, which takes minutes.

    Args:
      abstraction: of as many streets as the game has.
      board: cards that are dealt to the board on each street.
      strength_cards: of the boards on which the strengths of hands are taken: 3, 4 or 5, and not
        fewer than the game has. None: as many as the game has.
      folder: where tables are kept; None: `card_abstractions` in the user's cache folder.
      report: is told of each table as it begins to be read or made.

    Returns:
      The tables.

    Raises:
      ValueError: the game has other streets, buckets are not for a street's boards or more than
        there are different hands, or strengths cannot be taken on boards of this many cards.
      OSError: a table cannot be written.
    """
    num_cards = tuple(itertools.accumulate(board))
    if len(num_cards) != len(abstraction.streets):
        raise ValueError(
            f"abstraction {abstraction} has {len(abstraction.streets)} streets; the game has"
            f" {len(num_cards)}, with board={board}"
        )
    last = num_cards[-1] if strength_cards is None else strength_cards
    if not num_cards[-1] <= last <= MAX_BOARD_CARDS:
        raise ValueError(
            f"strength_cards={last} must be from the game's {num_cards[-1]} to {MAX_BOARD_CARDS}"
        )
    for buckets, cards in zip(abstraction.streets, num_cards, strict=True):
        check_number(buckets, cards)
    folder = cache_folder(CACHE) if folder is None else folder
    tables = [
        _kept(buckets, cards, last, folder, report)
        for buckets, cards in zip(abstraction.streets, num_cards, strict=True)
    ]
    return BucketTables(
        tables=tuple(map(jnp.asarray, tables)),
        finder=board_finder(max(num_cards[-1], 1)),
        num_cards=num_cards,
        strength_cards=last,
        num_buckets=abstraction.num_buckets,
        perfect_recall=abstraction.perfect_recall,
    )


def table_bytes(abstraction: CardAbstraction, *, board: tuple[int, ...] = (0, 3, 1, 1)) -> int:
    """What an abstraction's tables take in memory.

    Args:
      abstraction: of as many streets as the game has.
      board: cards that are dealt to the board on each street.
    """
    rows = [NUM_BOARDS[cards] for cards in itertools.accumulate(board)]
    return NUM_HANDS * sum(
        count * buckets.dtype.itemsize
        for count, buckets in zip(rows, abstraction.streets, strict=True)
    )


def fingerprint(tables: BucketTables) -> str:
    """A hash (SHA-256) of all buckets. Of 226 MB it takes a second.

    Tables of one name may differ: k-means rounds differently on other hardware.
    """
    whole = hashlib.sha256()
    for table in tables.tables:
        whole.update(np.ascontiguousarray(table, "<u2"))
    return whole.hexdigest()


def buckets_of_deal(tables: BucketTables, board: Int[Array, " n"]) -> Int[Array, "S 1326"]:
    """The bucket of every hand on every street of a deal; pure JAX.

    Args:
      tables: of the abstraction.
      board: the cards so far, in the order of the deal.

    Returns:
      Numbers of buckets on the S streets that have been dealt; unspecified for hands that share a
      card with the street's board.
    """
    return _buckets(tables, board, slice(None))


def buckets_of_hands(
    tables: BucketTables, board: Int[Array, " n"], hands: Int[Array, " H"]
) -> Int[Array, "S H"]:
    """The buckets of some hands on every street of a deal; pure JAX, as `buckets_of_deal`.

    Args:
      tables: of the abstraction.
      board: the cards so far, in the order of the deal.
      hands: their numbers among all 1,326 (`jaxgames.holdem.ranges`).
    """
    return _buckets(tables, board, hands)


def _buckets(tables, board, hands):
    number, permutation = find_boards(tables.finder, board)
    images, before, buckets = jnp.asarray(HAND_IMAGES, jnp.int32), 1, []
    for cards, table, count in zip(
        tables.num_cards, tables.tables, tables.num_buckets, strict=True
    ):
        if cards > len(board):
            break
        own = table[number[cards], images[permutation[cards], hands]].astype(jnp.int32)
        if tables.perfect_recall and buckets:
            own = buckets[-1] * (count // before) + own
        buckets.append(own)
        before = count
    return jnp.stack(buckets)


def _kept(buckets, num_cards, last, folder, report) -> UInt[np.ndarray, "B 1326"]:
    """A table from the cache, or a new one, which is kept there."""
    name = hashlib.sha256(f"{_VERSION} {buckets} {num_cards} {last}".encode()).hexdigest()[:16]
    path = folder / f"{str(buckets).replace(':', '-')}-{num_cards}-{name}.npz"
    if path.exists():
        _tell(report, "reading", buckets, num_cards)
        try:
            with np.load(path) as file:  # which compares checksums
                return file["table"]
        except (OSError, *DAMAGED_ARRAYS) as error:
            warnings.warn(f"{path} is damaged ({error}) and is made again", stacklevel=3)
    _tell(report, "making", buckets, num_cards)
    table = bucket_table(buckets, num_cards, last)
    folder.mkdir(parents=True, exist_ok=True)
    write_arrays(path, table=table, compressed=False)
    return table


def _tell(report, what, buckets, num_cards):
    if report is not None:
        report(f"{what} buckets {buckets} for boards of {num_cards} cards")
