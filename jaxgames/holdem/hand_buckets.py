"""Ways to put the hands of a street into buckets: the parts of a card abstraction.

- `classes`: before the flop, the 169 classes of hands.
- `all`: one bucket with all hands.
- `ehs2`: E[HS^2] in steps of equal width (Heinrich and Silver 2015).
- `percentile`: equally many deals in each bucket, by E[HS^2] (Johanson 2007).
- `nested`: percentiles by E[HS^2], each of them in percentiles by E[HS] (Zinkevich et al. 2008).
- `kmeans`: k-means over the distributions of strength at showdown, as cumulative histograms; on
  the last street, over the strengths themselves (Johanson, Burch, Valenzano and Bowling 2013).
- `ochs`: on the last street, k-means over the shares of the pot against eight clusters of hands,
  which k-means puts together by their distributions before the flop (the same paper).

A table has a row for each canonical board and a bucket for each hand there.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt

from jaxgames.arrays import index_batches
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    MAX_BOARD_CARDS,
    board_symmetries,
    canonical_boards,
    num_deals,
    possible_hands,
)
from jaxgames.holdem.equity import rank_hands, showdown_equity
from jaxgames.holdem.hand_strength import (
    last_points,
    most_points,
    num_completions,
    strength_histograms,
    strength_sums,
)
from jaxgames.holdem.k_means import closest_centres, k_means
from jaxgames.holdem.ranges import CLASSES, NUM_HANDS, class_numbers
from jaxgames.registry import unknown

MOST_BUCKETS = 2**16  # fewer than there are hands beside any board, up to the names of suits
_BINS = 30
_CLUSTERS = 8  # of opponents' hands in `ochs`
_SAMPLE = 300_000  # points that centres are fitted to
_OCHS_BOARDS = 4096  # that these are drawn from
_BATCH = 64  # boards whose hands are put into buckets at once
_BOARDS_OF_MASS = 2048  # whose deals are counted at once


@dataclasses.dataclass(frozen=True)
class Buckets:
    """How the hands of a street are put into buckets: `Buckets.parse("kmeans:200")`."""

    kind: str
    sizes: tuple[int, ...]  # the number of buckets, or of those at both levels of `nested`

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(unknown("kind of buckets", self.kind, KINDS))
        levels = 2 if self.kind == "nested" else 1
        if len(self.sizes) != levels or min(self.sizes) < 1:
            raise ValueError(f"buckets {self}: {self.kind} takes {levels} number(s) of at least 1")
        if self.number > MOST_BUCKETS:
            raise ValueError(f"buckets {self}: at most {MOST_BUCKETS:,} are allowed")

    @property
    def number(self) -> int:
        """How many buckets there are."""
        return int(np.prod(self.sizes))

    @property
    def dtype(self) -> np.dtype:
        """Of their numbers: as few bytes as they need."""
        return np.dtype(np.uint8 if self.number <= 256 else np.uint16)

    @classmethod
    def parse(cls, text: str) -> Buckets:
        """Reads "KIND:NUMBER", such as "ehs2:1000" or "nested:20x10"; "169" is "classes:169".

        Raises:
          ValueError: the text is not understood, or has an unknown kind.
        """
        text = f"classes:{text}" if text.isdigit() else text
        match = re.fullmatch(r"([a-z0-9]+):(\d+(?:x\d+)?)", text)
        if match is None:
            raise ValueError(
                f"buckets {text!r} must be KIND:NUMBER, such as ehs2:1000 or nested:20x10; kinds:"
                f" {', '.join(KINDS)}"
            )
        return cls(match[1], tuple(map(int, match[2].split("x"))))

    def __str__(self) -> str:
        return f"{self.kind}:{'x'.join(map(str, self.sizes))}"


def bucket_table(
    buckets: Buckets, num_cards: int, last: int = MAX_BOARD_CARDS
) -> UInt[np.ndarray, "B 1326"]:
    """The buckets of all hands on all canonical boards; 0 for hands that share a card with one.

    Hands that differ only in the names of suits are in the same bucket.

    Args:
      buckets: which.
      num_cards: cards of the boards: 0, or 3 to `last`.
      last: cards of the last street's board: 3, 4 or 5.

    Returns:
      Numbers of buckets, in as few bytes as they need.

    Raises:
      ValueError: these buckets are not for boards of this many cards; or there are more of them
        than different hands, or than different strengths that tell hands of the last street apart.
    """
    if last not in (3, 4, 5) or num_cards not in (0, *range(3, last + 1)):
        raise ValueError(f"num_cards={num_cards} must be 0 or from 3 to last={last}, 3 to 5")
    check_number(buckets, num_cards)
    table = KINDS[buckets.kind](buckets, num_cards, last)
    return table.astype(buckets.dtype)


def check_number(buckets: Buckets, num_cards: int) -> None:
    """Checks that a street has not more buckets than different hands, before a table is made.

    Args:
      buckets: which.
      num_cards: cards of the boards.

    Raises:
      ValueError: there are more.
    """
    if num_cards == 0 and buckets.number > len(CLASSES):
        raise ValueError(
            f"buckets {buckets}: there are only {len(CLASSES)} different hands before the flop"
        )


def _check_strengths(buckets, mass, num_cards, last):
    """On the last street, where a hand has one strength: checks that there are enough of them."""
    most = np.count_nonzero(mass)
    if num_cards == last and buckets.number > most:
        raise ValueError(
            f"buckets {buckets}: hands have only {most:,} different strengths on boards of"
            f" {last} cards"
        )


def _classes(buckets, num_cards, last):
    if num_cards or buckets.number != len(CLASSES):
        raise ValueError(f"buckets {buckets} must be {len(CLASSES)}, before the flop")
    return class_numbers()[None]


def _one_bucket(buckets, num_cards, last):
    if buckets.number != 1:
        raise ValueError(f"buckets {buckets} must be 1: all hands are in it")
    return np.zeros((len(num_deals(num_cards)), NUM_HANDS), np.uint8)


# By means


def _equal_widths(buckets, num_cards, last):
    values, number, _ = _distinct(2, num_cards, last)
    total = most_points(last) ** 2 * num_completions(num_cards, last)
    bucket = np.minimum(values.astype(np.int64) * buckets.number // total, buckets.number - 1)
    return _looked_up(bucket, number, num_cards)


def _percentiles(buckets, num_cards, last):
    _, number, mass = _distinct(2, num_cards, last)
    _check_strengths(buckets, mass, num_cards, last)
    return _looked_up(_shared_out(mass, buckets.number), number, num_cards)


def _nested(buckets, num_cards, last):
    outer, inner = buckets.sizes
    first = _percentiles(Buckets("percentile", (outer,)), num_cards, last)
    values, number, _ = _distinct(1, num_cards, last)
    here, deals = possible_hands(num_cards), num_deals(num_cards)
    table = first.astype(np.uint32) * inner
    for group in range(outer):
        mine = here & (first == group)
        mass = _mass(number, mine, deals, len(values))
        if mass.any():
            table[mine] += _shared_out(mass, inner)[number[mine]].astype(np.uint32)
    return table


def _distinct(power, num_cards, last):
    """The different values of E[HS^power] in their order, as whole numbers; the number of each
    hand's value; and how many deals have each."""
    if num_cards == last:
        number = last_points(last)
        values = np.arange(most_points(last) + 1) ** power
    else:
        sums = strength_sums(power, num_cards, last)
        values, number = np.unique(sums, return_inverse=True)
        number = number.reshape(-1, NUM_HANDS)
    mass = _mass(number, possible_hands(num_cards), num_deals(num_cards), len(values))
    return values, number, mass


def _mass(number, mask, deals, size):
    """How many deals have each number, of hands in a mask."""
    mass = np.zeros(size)
    for begin in range(0, len(number), _BOARDS_OF_MASS):
        rows = slice(begin, begin + _BOARDS_OF_MASS)
        weight = np.broadcast_to(deals[rows, None], mask[rows].shape)[mask[rows]]
        mass += np.bincount(number[rows][mask[rows]], weights=weight, minlength=size)
    return mass


def _shared_out(mass, number):
    """Buckets of values in their order, such that all have about the same mass."""
    below = np.cumsum(mass) - mass / 2  # a value goes where its middle is
    return np.minimum((below / mass.sum() * number).astype(np.int64), number - 1)


def _looked_up(bucket, number, num_cards):
    """A table from the bucket of each value, and the number of each hand's value."""
    return np.where(possible_hands(num_cards), bucket.astype(np.uint16)[number], 0)


# By distributions


def _clustered(buckets, num_cards, last):
    if num_cards == last:
        return _clustered_strengths(buckets, last)
    counts = _cumulative(num_cards, last)
    scale = 1 / num_completions(num_cards, last)
    board, hand = _drawn_hands(num_cards, _SAMPLE)
    sample = _float32(counts[board, hand]) * scale
    centres = k_means(jax.random.key(0), sample, jnp.ones(len(sample)), count=buckets.number)
    assign = jax.jit(lambda counts: closest_centres(counts.astype(jnp.float32) * scale, centres))
    table = np.zeros(counts.shape[:2], np.uint16)
    for rows in index_batches(len(table), min(_BATCH, len(table))):
        given = jnp.asarray(counts[rows].reshape(-1, counts.shape[-1]))
        table[rows] = np.asarray(assign(given)).reshape(len(rows), NUM_HANDS)
    return _canonical(table, num_cards)


def _clustered_strengths(buckets, last):
    """k-means over the strengths of the last street, of which there are as many as points."""
    values, number, mass = _distinct(1, last, last)
    _check_strengths(buckets, mass, last, last)
    strengths = _float32(values[:, None] / most_points(last))
    centres = k_means(jax.random.key(0), strengths, _float32(mass), count=buckets.number)
    nearest = np.asarray(closest_centres(strengths, centres))
    return _looked_up(nearest, number, last)


def _cumulative(num_cards, last):
    """Cumulative histograms of strength `[B, 1326, BINS - 1]`, as counts."""
    inner = np.arange(1, _BINS) * most_points(last) // _BINS
    return strength_histograms(num_cards, inner, last)


def _by_opponents(buckets, num_cards, last):
    if num_cards != last:
        raise ValueError(f"buckets {buckets} are for the last street; on earlier ones: kmeans")
    boards = canonical_boards(last)[-1].cards
    opponents = jnp.asarray(opponent_clusters(last))
    generator = np.random.default_rng(0)
    deals = num_deals(last)
    drawn = generator.choice(len(boards), _OCHS_BOARDS, p=deals / deals.sum())
    each, sample = _SAMPLE // _OCHS_BOARDS, []
    for rows in index_batches(len(drawn), _BATCH):
        shares, possible = _shares(jnp.asarray(boards[drawn[rows]], jnp.int32), opponents)
        for there, mask in zip(np.asarray(shares), np.asarray(possible), strict=True):
            sample.append(there[generator.choice(np.flatnonzero(mask), each, replace=False)])
    sample = jnp.asarray(np.concatenate(sample))
    centres = k_means(jax.random.key(1), sample, jnp.ones(len(sample)), count=buckets.number)

    @jax.jit
    def assign(boards):
        shares, _ = _shares(boards, opponents)
        return jax.vmap(closest_centres, (0, None))(shares, centres)

    table = np.zeros((len(boards), NUM_HANDS), np.uint16)
    for rows in index_batches(len(boards), _BATCH):
        table[rows] = assign(jnp.asarray(boards[rows], jnp.int32))
    return _canonical(table, num_cards)


@functools.cache
def opponent_clusters(last: int = MAX_BOARD_CARDS) -> Float[np.ndarray, "8 1326"]:
    """Eight clusters of hands, by the distributions of their strength at showdown, before the
    flop: which hands are in each, from the weakest cluster on."""
    counts = _cumulative(0, last)[0]
    classes = class_numbers()
    _, one = np.unique(classes, return_index=True)
    points = _float32(counts[one] / num_completions(0, last))
    size = np.bincount(classes, minlength=len(CLASSES))
    centres = k_means(jax.random.key(0), points, _float32(size), count=_CLUSTERS)
    centres = centres[jnp.argsort(-jnp.sum(centres, axis=1))]  # weak hands have high counts
    cluster = np.asarray(closest_centres(points, centres))[classes]
    return (cluster == np.arange(_CLUSTERS)[:, None]).astype(np.float32)


@jax.jit
def _shares(boards, opponents):
    """Shares of the pot `[n, 1326, C]` of all hands against C ranges on boards `[n, 5]`, and which
    hands are possible."""

    def on_board(board):
        ranking = rank_hands(board)
        shares = jax.vmap(lambda weights: showdown_equity(ranking, weights))(opponents)
        return shares.T, ranking.strength >= 0

    return jax.vmap(on_board)(boards)


# Boards and hands


def _drawn_hands(num_cards, count):
    """Boards and possible hands, drawn as they are dealt."""
    generator, here, deals = (
        np.random.default_rng(0),
        possible_hands(num_cards),
        num_deals(num_cards),
    )
    board = generator.choice(len(here), 2 * count, p=deals / deals.sum())
    hand = generator.integers(NUM_HANDS, size=2 * count)
    kept = here[board, hand]
    return board[kept][:count], hand[kept][:count]


def _canonical(table, num_cards):
    """A table in which hands that a symmetry of the board exchanges have the same bucket, in spite
    of rounding."""
    for board, images in board_symmetries(num_cards):
        table[board] = table[board][HAND_IMAGES[images].min(axis=0)]
    return np.where(possible_hands(num_cards), table, 0)


def _float32(values):
    return jnp.asarray(np.asarray(values), jnp.float32)


KINDS = {
    "classes": _classes,
    "all": _one_bucket,
    "ehs2": _equal_widths,
    "percentile": _percentiles,
    "nested": _nested,
    "kmeans": _clustered,
    "ochs": _by_opponents,
}
