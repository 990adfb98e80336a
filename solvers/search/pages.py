"""Pages of places for the classes of a forest, such as nodes of one depth: linked lists of pages.

How many places a class needs is known only while a search runs. A page belongs to one class; a
class that is full takes the next free page. Places are numbers, and whoever has tables for them
reads and writes whole pages.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from jaxgames.core import record

NO_PAGE = -1


@record
class Pages:
    """Pages of classes: which page belongs to which, in the order in which they were taken."""

    first: Array  # [Q] int32 the first page of a class, or NO_PAGE
    last: Array  # [Q] int32
    count: Array  # [Q] int32 places in use
    following: Array  # [P] int32 the next page of the same class, or NO_PAGE
    owner: Array | None  # [P] int32 the class of a page that is taken, if that is kept
    used: Array  # [] int32 pages


def new_pages(num_classes: int, num_pages: int, *, owned: bool = False) -> Pages:
    """Pages of which none is taken; with `owned`, each knows its class then."""
    none = jnp.full(num_classes, NO_PAGE, jnp.int32)
    return Pages(
        first=none,
        last=none,
        count=jnp.zeros(num_classes, jnp.int32),
        following=jnp.full(num_pages, NO_PAGE, jnp.int32),
        owner=jnp.zeros(num_pages, jnp.int32) if owned else None,
        used=jnp.int32(0),
    )


def take_places(
    pages: Pages, kind: Int[Array, " n"], wanted: Bool[Array, " n"], *, page: int
) -> tuple[Pages, Int[Array, " n"]]:
    """Takes one place for each of some items.

    Args:
      pages: with enough room.
      kind: the class of each item.
      wanted: the items that need a place.
      page: places on a page.

    Returns:
      The pages, and the items' places; those of other items lie behind the last page.
    """
    classes = jnp.arange(len(pages.first), dtype=jnp.int32)
    chosen = (kind[:, None] == classes[None]) & wanted[:, None]
    before = jnp.cumsum(chosen, axis=0, dtype=jnp.int32)
    new = before[-1]
    rank = jnp.sum(jnp.where(chosen, before - 1 + pages.count[None], 0), axis=1, dtype=jnp.int32)
    had, needs = (-(-count // page) for count in (pages.count, pages.count + new))
    begin = pages.used + jnp.cumsum(needs - had, dtype=jnp.int32) - (needs - had)
    # an item's page is the class's last one, or one of its new ones
    number = rank // page - had[kind]
    at_page = jnp.where(number < 0, pages.last[kind], begin[kind] + number)
    room = len(pages.following)
    place = jnp.where(wanted, at_page * page + rank % page, room * page)
    grows = needs > had
    end = begin + needs - had - 1  # the last of the new pages
    # new pages follow one another, but for the last of each class
    every = jnp.arange(room, dtype=jnp.int32)
    used = begin[-1] + needs[-1] - had[-1]
    fresh = (every >= pages.used) & (every < used)
    following = jnp.where(fresh, every + 1, pages.following)
    following = following.at[jnp.where(grows, end, room)].set(NO_PAGE, mode="drop")
    link = jnp.where(grows & (had > 0), pages.last, room)
    following = following.at[link].set(begin, mode="drop")
    owner = pages.owner
    if owner is not None:
        new_owner = jnp.sum(every[:, None] >= (begin + needs - had)[None], axis=1, dtype=jnp.int32)
        owner = jnp.where(fresh, new_owner, owner)
    return Pages(
        first=jnp.where(grows & (had == 0), begin, pages.first),
        last=jnp.where(grows, end, pages.last),
        count=pages.count + new,
        following=following,
        owner=owner,
        used=used,
    ), place


def over_pages(
    pages: Pages,
    kind: Int[Array, ""] | int,
    step: Callable[[Array, PyTree], PyTree],
    carry: PyTree,
    *,
    page: int,
) -> PyTree:
    """`carry = step(first place, carry)` for every page of a class."""

    def go_on(state):
        number, carry = state
        return pages.following[number], step(number * page, carry)

    start = pages.first[kind], carry
    return jax.lax.while_loop(lambda state: state[0] != NO_PAGE, go_on, start)[1]


def in_rounds(
    pages: Pages, kinds: int, *, page: int
) -> tuple[Int[Array, "P {kinds}"], Int[Array, ""]]:
    """Pages that can be treated at once: one of each kind, of classes of the same group.

    Args:
      pages: with owners; classes are numbered `group * kinds + kind`.
      kinds: how many classes a group has.
      page: places on a page.

    Returns:
      By round, a page of each kind, or NO_PAGE; the rounds of a group follow one another, and the
      groups in order. And how many rounds there are.
    """
    needs = -(-pages.count.reshape(-1, kinds) // page)
    rounds = jnp.max(needs, axis=1)
    end = jnp.cumsum(rounds, dtype=jnp.int32)
    room = len(pages.following)
    number = jnp.arange(room, dtype=jnp.int32)
    earlier = number[None] < number[:, None]
    rank = jnp.sum(earlier & (pages.owner[None] == pages.owner[:, None]), axis=1, dtype=jnp.int32)
    group = pages.owner // kinds
    at = jnp.where(number < pages.used, (end - rounds)[group] + rank, room)
    table = jnp.full((room, kinds), NO_PAGE, jnp.int32)
    return table.at[at, pages.owner % kinds].set(number, mode="drop"), end[-1]
