"""Numbers for hands that are the same but for the names of suits (Waugh 2013, "A fast and optimal
hand isomorphism algorithm").

    >>> import numpy as np
    >>> from jaxgames.holdem.isomorphism import Isomorphism
    >>> flop = Isomorphism((2, 3))  # own cards, flop; (2, 3, 1, 1) up to the river
    >>> flop.size
    1286792
    >>> cards = flop.cards(np.array([0, 1000]))  # one hand of each number, round by round
    >>> flop.index(cards).tolist()
    [0, 1000]

Cards of one round are a set. Each suit has a set of ranks in every round, which together have a
number among those of equal sizes. Suits of equal sizes can be exchanged: their numbers are a
multiset. What the sizes are, from the suit with the largest on, is a *shape*; hands are numbered
shape by shape.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

_BITS = 24  # of the number of one suit's sets
_CHOOSE = np.array([[math.comb(n, k) for k in range(8)] for n in range(14)], np.uint32)


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The shapes of hands, by rising `key`: what there is to know of each."""

    key: np.ndarray  # [X] uint32 sizes of all suits, packed
    begin: np.ndarray  # [X + 1] int64 number of its first hand
    sizes: np.ndarray  # [X, 4, R] of each suit's sets, the largest suit first
    sets: np.ndarray  # [X, 4] int64 how many sets of these sizes there are
    alike: np.ndarray  # [X, 4] how many suits from this one on have these sizes
    factor: np.ndarray  # [X, 4] int64 what a multiset counts that begins at this suit or before


@dataclasses.dataclass(frozen=True)
class Isomorphism:
    """Hands that are dealt in rounds of so many cards, at most seven in all."""

    rounds: tuple[int, ...]

    def __post_init__(self):
        if not self.rounds or min(self.rounds) < 1 or sum(self.rounds) > 7:
            raise ValueError(f"rounds={self.rounds} must have a card each and at most 7 in all")
        if self.size > 2**32:
            raise ValueError(f"rounds={self.rounds}: {self.size:,} hands are more than 2**32")

    @property
    def num_cards(self) -> int:
        """Of a hand."""
        return sum(self.rounds)

    @property
    def size(self) -> int:
        """How many different hands there are."""
        return int(_shapes(self.rounds).begin[-1])

    def index(self, cards: Int[Array | np.ndarray, "... n"]) -> UInt32[Array, "..."]:
        """The numbers of hands, whose cards are in the order of the rounds; pure JAX.

        Raises:
          ValueError: hands do not have as many cards as the rounds.
        """
        if cards.shape[-1] != self.num_cards:
            raise ValueError(f"cards {cards.shape} must have {self.num_cards} on the last axis")
        shapes = _shapes(self.rounds)
        held = [jnp.asarray(cards[..., i]) for i in range(self.num_cards)]
        suits = _sorted([self._suit(held, suit) for suit in range(4)])
        key = functools.reduce(lambda key, suit: key << 7 | suit >> _BITS, suits, jnp.uint32(0))
        shape = jnp.searchsorted(shapes.key, key, method="scan_unrolled")
        found = jnp.asarray(shapes.begin[:-1].astype(np.uint32))[shape]
        alike = jnp.asarray(shapes.alike.astype(np.uint32))[shape]
        factor = jnp.asarray(shapes.factor.astype(np.uint32))[shape]
        for place, suit in enumerate(suits):
            number = suit & jnp.uint32(2**_BITS - 1)
            found = found + factor[..., place] * _multisets(number, alike[..., place])
        return found

    def cards(self, numbers: Int[np.ndarray, " B"]) -> Int[np.ndarray, "B n"]:
        """One hand of each number, in numpy.

        Raises:
          ValueError: a number is not from 0 to `size - 1`.
        """
        numbers = np.asarray(numbers, np.int64)
        bad = numbers[(numbers < 0) | (numbers >= self.size)]
        if len(bad):
            raise ValueError(f"number {bad[0]} of a hand must be from 0 to {self.size - 1}")
        shapes = _shapes(self.rounds)
        shape = np.searchsorted(shapes.begin, numbers, side="right") - 1
        rest, found = numbers - shapes.begin[shape], np.zeros((len(numbers), self.num_cards), int)
        after = np.cumsum((0, *self.rounds))[:-1] + np.zeros((len(numbers), 1), int)
        within = np.zeros(len(numbers), np.int64)
        for place in range(4):
            alike, sets = shapes.alike[shape, place], shapes.sets[shape, place]
            if place:
                first = shapes.factor[shape, place] != shapes.factor[shape, place - 1]
                first |= alike >= shapes.alike[shape, place - 1]
            else:
                first = np.ones(len(numbers), bool)
            multisets = _comb(sets + alike - 1, alike)
            within = np.where(first, rest // shapes.factor[shape, place] % multisets, within)
            number = _largest(within, alike)
            within = within - _comb(number + alike - 1, alike)
            self._put(found, after, shapes.sizes[shape, place], number, place)
        return found

    def _suit(self, held, suit):
        """A suit's sizes and the number of its sets, packed: `[...]` uint32."""
        mine = [(card & 3) == suit for card in held]
        ranks = [card >> 2 for card in held]
        sizes, number, count, unit = jnp.uint32(0), jnp.uint32(0), jnp.uint32(1), 1
        used, begin = jnp.int32(0), 0
        for cards in self.rounds:
            here = range(begin, begin + cards)
            size = sum(mine[i].astype(jnp.int32) for i in here)
            for i in here:
                lower = [mine[j] & (ranks[j] < ranks[i]) for j in range(begin + cards)]
                place = ranks[i] - sum((x.astype(jnp.int32) for x in lower[:begin]), 0)
                order = 1 + sum(x.astype(jnp.int32) for x in lower[begin:])
                number = number + jnp.where(mine[i], count * _choose(place, order), 0)
            count = count * _choose(13 - used, size)
            sizes, unit = sizes + unit * size.astype(jnp.uint32), unit * (cards + 1)
            used, begin = used + size, begin + cards
        return sizes << _BITS | number

    def _put(self, found, after, sizes, number, suit):
        """Writes a suit's cards where its sets have these numbers; `after` says where to."""
        rows, used = np.arange(len(found)), np.zeros((len(found), 13), bool)
        for turn in range(len(self.rounds)):
            size = sizes[:, turn]
            left = 13 - used.sum(axis=1)
            count = _CHOOSE[left, size].astype(np.int64)
            number, code = number // count, number % count
            free = np.argsort(used, axis=1, kind="stable")  # the ranks that are left come first
            for order in range(int(size.max(initial=0)), 0, -1):
                there = order <= size
                place = (_CHOOSE[None, :, order] <= code[:, None]).sum(axis=1) - 1
                code = np.where(there, code - _CHOOSE[place, order], code)
                rank = free[rows, place]
                some = rows[there]
                found[some, after[some, turn]] = 4 * rank[there] + suit
                after[some, turn] += 1
                used[some, rank[there]] = True


@functools.cache
def _shapes(rounds: tuple[int, ...]) -> Shapes:
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
    sets = np.ones(sizes.shape[:2], np.int64)
    for turn in range(len(rounds)):
        sets *= _CHOOSE[13 - sizes[:, :, :turn].sum(axis=2), sizes[:, :, turn]].astype(np.int64)
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
    """All ways to split what is left over so many suits, from the largest on."""
    if suits == 0:
        if not any(left):
            yield ()
        return
    for place, sizes in enumerate(one_suit):
        rest = tuple(x - y for x, y in zip(left, sizes, strict=True))
        if min(rest) >= 0:
            yield from ((sizes, *more) for more in _splits(one_suit[place:], rest, suits - 1))


def _choose(n, k):
    return jnp.asarray(_CHOOSE)[n, k]


def _sorted(suits):
    """Four numbers from the largest on."""
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        suits[i], suits[j] = jnp.maximum(suits[i], suits[j]), jnp.minimum(suits[i], suits[j])
    return suits


def _multisets(number, alike):
    """How many multisets of `alike` numbers are all below `number`."""
    two = number * (number + 1) // 2
    three = two * (number + 2) // 3
    four = three * (number + 3) // 4
    return jnp.where(
        alike == 1, number, jnp.where(alike == 2, two, jnp.where(alike == 3, three, four))
    )


def _comb(n, k):
    """n over k, for k from 1 to 4, in int64."""
    found = np.ones_like(n)
    for i in range(4):
        found = np.where(i < k, found * (n - i) // (i + 1), found)
    return found


def _largest(within, alike):
    """The largest number below which there are at most `within` multisets of `alike` numbers."""
    low, high = np.zeros_like(within), np.where(alike == 1, within + 1, 4096)
    while (high - low > 1).any():
        middle = (low + high) // 2
        fits = _comb(middle + alike - 1, alike) <= within
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low
