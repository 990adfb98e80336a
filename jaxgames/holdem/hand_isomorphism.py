"""Numbers the classes of hands that differ only in the names of suits (Waugh 2013, "A fast and
optimal hand isomorphism algorithm").

    >>> import numpy as np
    >>> from jaxgames.holdem import HandIsomorphism, cards_name, parse_cards
    >>> HandIsomorphism((2, 3, 1, 1)).size  # own cards, flop, turn, river
    2428287420
    >>> preflop = HandIsomorphism((2,))
    >>> number = preflop.index(np.array(parse_cards("AhKh")))
    >>> cards_name(preflop.cards(np.array([number]))[0])  # one hand of the class
    'AcKc'

The cards of a round are a set. Each suit has a set of ranks in every round; the sets of one suit
have a number among all sets of the same sizes. Suits with sets of the same sizes can be exchanged,
so their numbers form a multiset. The sizes of all suits, the largest first, are the *shape* of a
hand; classes are numbered shape by shape.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Integer, UInt32

_BITS = 24  # of the number of one suit's sets
_CHOOSE = np.array([[math.comb(n, k) for k in range(8)] for n in range(14)], np.uint32)


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The X shapes of hands of R rounds, by rising `key`."""

    key: np.ndarray  # [X] uint32 sizes of all suits, packed
    begin: np.ndarray  # [X + 1] int64 number of the first class of each shape
    sizes: np.ndarray  # [X, 4, R] of each suit's sets, the largest suit first
    sets: np.ndarray  # [X, 4] int64 how many sets of these sizes exist
    alike: np.ndarray  # [X, 4] how many suits from this one on have these sizes
    factor: np.ndarray  # [X, 4] int64 the place value of the multiset that this suit belongs to


@dataclasses.dataclass(frozen=True)
class HandIsomorphism:
    """The classes of hands under permutations of suits.

    Attributes:
      rounds: cards that are dealt in each round, at most seven in all.
    """

    rounds: tuple[int, ...]

    def __post_init__(self):
        if not self.rounds or min(self.rounds) < 1 or sum(self.rounds) > 7:
            raise ValueError(
                f"rounds={self.rounds} must have at least one card each and at most 7 in all"
            )
        if self.size > 2**32:
            raise ValueError(f"rounds={self.rounds}: {self.size:,} hands are more than 2**32")

    @property
    def num_cards(self) -> int:
        """Cards of a hand."""
        return sum(self.rounds)

    @property
    def size(self) -> int:
        """The number of classes."""
        return int(_shapes(self.rounds).begin[-1])

    def index(self, cards: Int[Array | np.ndarray, "... n"]) -> UInt32[Array, "..."]:
        """The numbers of the classes of hands; pure JAX.

        Args:
          cards: hands `[..., n]`, their cards in the order of the rounds.

        Returns:
          Numbers from 0 to `size - 1`, `[...]`.

        Raises:
          ValueError: hands do not have as many cards as the rounds.
        """
        if cards.shape[-1] != self.num_cards:
            raise ValueError(f"cards {cards.shape} must have {self.num_cards} on the last axis")
        shapes = _shapes(self.rounds)
        columns = [jnp.asarray(cards[..., i]) for i in range(self.num_cards)]
        suits = _sorted([self._packed_suit(columns, suit) for suit in range(4)])
        key = functools.reduce(lambda key, suit: key << 7 | suit >> _BITS, suits, jnp.uint32(0))
        shape = jnp.searchsorted(shapes.key, key, method="scan_unrolled")
        index = jnp.asarray(shapes.begin[:-1].astype(np.uint32))[shape]
        alike = jnp.asarray(shapes.alike.astype(np.uint32))[shape]
        factor = jnp.asarray(shapes.factor.astype(np.uint32))[shape]
        for place, suit in enumerate(suits):
            number = suit & jnp.uint32(2**_BITS - 1)
            index = index + factor[..., place] * _multisets(number, alike[..., place])
        return index

    def cards(self, numbers: Integer[np.ndarray, " B"]) -> Int[np.ndarray, "B n"]:
        """One hand of each class, in NumPy: the inverse of `index`.

        Args:
          numbers: B numbers of classes.

        Returns:
          Cards `[B, n]` in the order of the rounds.

        Raises:
          ValueError: a number is not from 0 to `size - 1`.
        """
        numbers = np.asarray(numbers, np.int64)
        bad = numbers[(numbers < 0) | (numbers >= self.size)]
        if len(bad):
            raise ValueError(f"number {bad[0]} of a hand must be from 0 to {self.size - 1}")
        shapes = _shapes(self.rounds)
        shape = np.searchsorted(shapes.begin, numbers, side="right") - 1
        rest, hands = numbers - shapes.begin[shape], np.zeros((len(numbers), self.num_cards), int)
        # the column of each hand's next card, by round
        column = np.cumsum((0, *self.rounds))[:-1] + np.zeros((len(numbers), 1), int)
        within = np.zeros(len(numbers), np.int64)
        for place in range(4):
            # the number of this suit's multiset, where one begins here
            alike, sets = shapes.alike[shape, place], shapes.sets[shape, place]
            if place:
                first = shapes.factor[shape, place] != shapes.factor[shape, place - 1]
                first |= alike >= shapes.alike[shape, place - 1]
            else:
                first = np.ones(len(numbers), bool)
            multisets = _comb(sets + alike - 1, alike)
            within = np.where(first, rest // shapes.factor[shape, place] % multisets, within)
            # the largest number of the multiset is this suit's
            number = _largest(within, alike)
            within = within - _comb(number + alike - 1, alike)
            self._write_suit(hands, column, shapes.sizes[shape, place], number, place)
        return hands

    def _packed_suit(self, columns, suit):
        """A suit's sizes by round and the number of its sets, packed into a word: `[...]` uint32.

        The number is a mixed-radix number with a digit for each round: the colexicographic rank of
        the round's set among the sets of its size, of ranks that earlier rounds have left.
        """
        mine = [(card & 3) == suit for card in columns]
        ranks = [card >> 2 for card in columns]
        sizes, number, count, unit = jnp.uint32(0), jnp.uint32(0), jnp.uint32(1), 1
        used, begin = jnp.int32(0), 0
        for cards in self.rounds:
            of_round = range(begin, begin + cards)
            size = sum(mine[i].astype(jnp.int32) for i in of_round)
            for i in of_round:
                lower = [mine[j] & (ranks[j] < ranks[i]) for j in range(begin + cards)]
                place = ranks[i] - sum((x.astype(jnp.int32) for x in lower[:begin]), 0)
                order = 1 + sum(x.astype(jnp.int32) for x in lower[begin:])
                number = number + jnp.where(mine[i], count * _choose(place, order), 0)
            count = count * _choose(13 - used, size)
            sizes, unit = sizes + unit * size.astype(jnp.uint32), unit * (cards + 1)
            used, begin = used + size, begin + cards
        return sizes << _BITS | number

    def _write_suit(self, hands, column, sizes, number, suit):
        """Writes the cards of one suit into `hands`, from the sizes and the number of its sets; the
        inverse of `_packed_suit`. Advances `column`, where the next card of each round goes."""
        rows, used = np.arange(len(hands)), np.zeros((len(hands), 13), bool)
        for turn in range(len(self.rounds)):
            size = sizes[:, turn]
            left = 13 - used.sum(axis=1)
            count = _CHOOSE[left, size].astype(np.int64)
            number, code = number // count, number % count
            free = np.argsort(used, axis=1, kind="stable")  # unused ranks come first
            for order in range(int(size.max(initial=0)), 0, -1):
                present = order <= size
                place = (_CHOOSE[None, :, order] <= code[:, None]).sum(axis=1) - 1
                code = np.where(present, code - _CHOOSE[place, order], code)
                rank = free[rows, place]
                some = rows[present]
                hands[some, column[some, turn]] = 4 * rank[present] + suit
                column[some, turn] += 1
                used[some, rank[present]] = True


@functools.cache
def _shapes(rounds: tuple[int, ...]) -> Shapes:
    """All shapes of hands that are dealt in these rounds."""
    units = np.cumprod((1, *(cards + 1 for cards in rounds)))[:-1]
    one_suit = [
        sizes
        for sizes in itertools.product(*(range(cards + 1) for cards in rounds))
        if sum(sizes) <= 13
    ]
    packed = {sizes: int(units @ sizes) for sizes in one_suit}
    one_suit.sort(key=packed.get, reverse=True)
    fours = list(_splits(one_suit, rounds, 4))
    keys = [functools.reduce(lambda key, s: key << 7 | packed[s], four, 0) for four in fours]
    order = np.argsort(keys)
    sizes = np.array(fours)[order]
    # how many sets of its sizes each suit may have
    sets = np.ones(sizes.shape[:2], np.int64)
    for turn in range(len(rounds)):
        sets *= _CHOOSE[13 - sizes[:, :, :turn].sum(axis=2), sizes[:, :, turn]].astype(np.int64)
    # runs of suits with the same sizes: a multiset of numbers each
    alike, factor = np.ones_like(sets), np.ones_like(sets)
    same = (sizes[:, 1:] == sizes[:, :-1]).all(axis=2)
    for place in (2, 1, 0):
        alike[:, place] += np.where(same[:, place], alike[:, place + 1], 0)
    multisets, total = _comb(sets + alike - 1, alike), np.ones(len(sets), np.int64)
    for place in range(4):
        first = np.ones(len(sets), bool) if place == 0 else ~same[:, place - 1]
        factor[:, place] = np.where(first, total, factor[:, max(place - 1, 0)])
        total = np.where(first, total * multisets[:, place], total)
    return Shapes(
        key=np.array(keys, np.uint32)[order],
        begin=np.concatenate([[0], np.cumsum(total)]),
        sizes=sizes,
        sets=sets,
        alike=alike,
        factor=factor,
    )


def _splits(one_suit, left, suits):
    """All ways to split the cards `left` of each round over `suits` suits, the largest first."""
    if suits == 0:
        if not any(left):
            yield ()
        return
    for place, sizes in enumerate(one_suit):
        rest = tuple(x - y for x, y in zip(left, sizes, strict=True))
        if min(rest) >= 0:
            yield from ((sizes, *more) for more in _splits(one_suit[place:], rest, suits - 1))


def _choose(n, k):
    """Binomial coefficients of arrays."""
    return jnp.asarray(_CHOOSE)[n, k]


def _sorted(suits):
    """Four arrays, sorted elementwise from the largest to the smallest by a sorting network."""
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        suits[i], suits[j] = jnp.maximum(suits[i], suits[j]), jnp.minimum(suits[i], suits[j])
    return suits


def _multisets(number, alike):
    """How many multisets of `alike` numbers, 1 to 4, have all numbers below `number`."""
    two = number * (number + 1) // 2
    three = two * (number + 2) // 3
    four = three * (number + 3) // 4
    return jnp.where(
        alike == 1, number, jnp.where(alike == 2, two, jnp.where(alike == 3, three, four))
    )


def _comb(n, k):
    """Binomial coefficients of n over k, for k from 1 to 4, in int64."""
    result = np.ones_like(n)
    for i in range(4):
        result = np.where(i < k, result * (n - i) // (i + 1), result)
    return result


def _largest(within, alike):
    """The largest number for which at most `within` multisets of `alike` numbers have all numbers
    below it, by bisection."""
    low, high = np.zeros_like(within), np.where(alike == 1, within + 1, 4096)
    while (high - low > 1).any():
        middle = (low + high) // 2
        fits = _comb(middle + alike - 1, alike) <= within
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low
