"""The best response to a blueprint in the real game: what a player who sees its own cards wins.

The opponent plays by buckets; the player chooses the best action with each hand on each board, and
need not know any abstraction. All boards are enumerated up to the names of suits: flops, and the
turns and rivers of each.

A player who follows the blueprint up to the flop, and plays a best response from the turn on, wins
no more than that. Its value is cheaper: a few turns of each flop give an unbiased estimate, since
it chooses nothing before the turn.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int, Num

from jaxgames.arrays import at, index_batches
from jaxgames.holdem.betting_tree import NO_NODE
from jaxgames.holdem.canonical_boards import HAND_IMAGES, NextCards, canonical_boards, next_cards
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import CLASSES, NUM_HANDS, class_numbers
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.response_rounds import num_runouts, values_at_ends, values_at_rounds
from solvers.device_batches import split_calls

_TURN = 2  # the street, where there is one
_RIVERS = 13  # side by side on an accelerator; divides 52


def flop_values(
    blueprint: Blueprint,
    flops: Int[np.ndarray, " n"],
    *,
    player: int,
    turns: Int[np.ndarray, "n T"] | None = None,
    mesh: Mesh | None = None,
    report: Callable[[float], None] | None = None,
) -> Float[np.ndarray, "n 169 M"]:
    """The responder's counterfactual values at the rounds of some flops.

    Args:
      blueprint: of the opponent: of limit hold'em, or of another game whose hands are shown down on
        the last street only.
      flops: numbers of canonical boards of three cards.
      player: who responds, 0 or 1.
      turns: some turns of each flop, which stand for all of them. The responder follows the
        blueprint on the flop, and plays a best response from the turn on. None: all turns are gone
        through, and the responder plays a best response from the flop on.
      mesh: devices with one axis, `device_batches.DATA`, which share the turns, or the flops if no
        turn is dealt; None: one device.
      report: is told how much is done, from 0 to 1.

    Returns:
      Sums over all hands of a class, and over all turns and rivers.

    Raises:
      ValueError: some hands are shown down earlier, the second street is no flop, later ones have
        more than one card, or the turns are not different cards that may follow these flops.
    """
    boards = canonical_boards(3)[3].cards[flops].astype(np.int32)
    _check(blueprint, boards, turns)
    if len(blueprint.buckets.num_cards) == 2:
        found = _shared_out(blueprint, list(boards), None, player=player, mesh=mesh, report=report)
        return np.stack([_summed_by_class(values) for values in found])
    after = [
        next_cards(board) if turns is None else _drawn(turns[n]) for n, board in enumerate(boards)
    ]
    on_turn = [
        np.append(board, card)
        for board, more in zip(boards, after, strict=True)
        for card in more.cards
    ]
    rivers = None
    if len(blueprint.buckets.num_cards) > _TURN + 1:
        rivers = [next_cards(board[:3], board[3:]) for board in on_turn]
    each = _shared_out(blueprint, on_turn, rivers, player=player, mesh=mesh, report=report)
    found = []
    for board, more in zip(boards, after, strict=True):
        total = sum(times * next(each) for times in more.times)
        below = np.mean([total[HAND_IMAGES[s]] for s in more.symmetries], axis=0, dtype=np.float32)
        values = _on_flop(blueprint, board, below, player=player, best=turns is None)
        found.append(_summed_by_class(np.asarray(values)))
    return np.stack(found)


def _check(blueprint, boards, turns):
    for street, families in enumerate(blueprint.game.rounds.streets[:-1]):
        if any((family.next_family == NO_NODE).any() for family in families):
            raise ValueError(
                f"blueprint: hands are shown down on street {street}; allowed: on the last street"
                f" only, {len(blueprint.game.rounds.streets) - 1}"
            )
    num_cards = blueprint.buckets.num_cards
    if num_cards not in ((0, 3), (0, 3, 4), (0, 3, 4, 5)):
        raise ValueError(f"boards of {num_cards} cards must be of 0, 3, 4 and 5, or the first ones")
    if turns is None:
        return
    both = np.concatenate([boards, turns], axis=1) if len(turns) == len(boards) else turns
    good = both.shape[1] > 3 and ((both >= 0) & (both < NUM_CARDS)).all()
    if len(num_cards) == 2 or not good or any(len(set(cards)) < len(cards) for cards in both):
        raise ValueError(
            f"turns={turns.tolist()} must be different cards that may follow the flops"
            f" {boards.tolist()}, in a game with a turn"
        )


def _drawn(turns):
    """Some turns of a flop, each weighted so that together they count as all of them."""
    every = np.full(len(turns), (NUM_CARDS - 3) / len(turns), np.float32)
    return NextCards(cards=turns, times=every, symmetries=np.zeros(1, int))


def _shared_out(blueprint, boards, rivers, *, player, mesh, report):
    """Yields the responder's values `[1326, M]` at the rounds of some boards of one street, which
    the devices share."""
    size = 1 if mesh is None else mesh.size
    for which in index_batches(len(boards), size):
        given = np.stack([boards[n] for n in which]).astype(np.int32)
        more = rivers and _in_arrays([rivers[n] for n in which])
        values = np.asarray(_values_of_boards(blueprint, given, more, player=player, mesh=mesh))
        done = int(which[-1]) + 1
        if report is not None:
            report(done / len(boards))
        yield from values[: done - which[0]]


def _in_arrays(each):
    """The next cards of D boards: `[D, 52]` each, of which the first are given, and `[D, 2]` their
    numbers."""
    fill = lambda x, dtype: np.pad(x, (0, NUM_CARDS - len(x))).astype(dtype)  # noqa: E731
    return (
        np.stack([fill(more.cards, np.int32) for more in each]),
        np.stack([fill(more.times, np.float32) for more in each]),
        np.stack([fill(more.symmetries, np.int32) for more in each]),
        np.array([[len(more.cards), len(more.symmetries)] for more in each], np.int32),
    )


def best_response_value(
    blueprint: Blueprint,
    values: Float[np.ndarray, "n 169 M"],
    weights: Num[np.ndarray, " n"],
    *,
    player: int,
) -> float:
    """The value of a best response to the blueprint, in chips per hand.

    Args:
      blueprint: of the opponent.
      values: `flop_values` of all canonical flops, or of some, which estimate it from above.
      weights: how often these flops are dealt, as `num_deals` gives it.
      player: who responds, 0 or 1.

    Returns:
      The value of the game to the responder.
    """
    mean = np.average(values, axis=0, weights=weights)
    return float(response_values(blueprint, mean, mean[None], player=player)[0])


def response_values(
    blueprint: Blueprint,
    expected: Float[np.ndarray, "169 M"] | None,
    values: Float[np.ndarray, "n 169 M"],
    *,
    player: int,
) -> Float[np.ndarray, " n"]:
    """The value of a response with these values from the flop on, in chips per hand. Before the
    flop it plays the best actions for the expected values of flops.

    With expected values from other flops this is a lower bound of the value of a best response.

    Args:
      blueprint: of the opponent.
      expected: mean `flop_values` that the responder maximises before the flop. None: it follows
        the blueprint there.
      values: `flop_values`.
      player: who responds, 0 or 1.

    Returns:
      The value of the game to the responder by flop, if each were the only one.
    """
    size = np.bincount(class_numbers(), minlength=len(CLASSES))[:, None]
    deals = math.comb(NUM_CARDS, 3)
    by_hand = lambda x: jnp.asarray((x * deals / size)[class_numbers()], jnp.float32)  # noqa: E731
    pairs = NUM_HANDS * math.comb(NUM_CARDS - 2, 2)
    scale = pairs * num_runouts(blueprint.buckets, 0)
    won = []
    for each in values:
        versions = [each] if expected is None else [expected, each]
        root = _before_flop(
            blueprint, [by_hand(x) for x in versions], player=player, best=expected is not None
        )
        won.append(np.asarray(root, np.float64).sum() / scale)
    return np.array(won)


def _summed_by_class(values):
    """Sums `[169, M]` of values `[1326, M]` over the hands of each class."""
    order = np.argsort(class_numbers(), kind="stable")
    first = np.searchsorted(class_numbers()[order], np.arange(len(CLASSES)))
    return np.add.reduceat(np.asarray(values, np.float64)[order], first, axis=0)


@functools.partial(jax.jit, static_argnames=("player", "best"))
def _before_flop(blueprint, below, *, player, best):
    """The responder's values `[1326]` at the root if flops have the last values `[1326, M]`, and it
    plays the best actions for the first ones, or follows the blueprint."""
    families = blueprint.game.rounds.streets[0]
    ends = [values_at_ends(families, values) for values in below]
    board = jnp.zeros(0, jnp.int32)
    return values_at_rounds(blueprint, board, ends, player=player, best=best)[:, 0]


@functools.partial(jax.jit, static_argnames=("player", "best"))
def _on_flop(blueprint, board, below, *, player, best):
    """The responder's values `[1326, M]` at the rounds of a flop from those of its turns."""
    ends = [values_at_ends(blueprint.game.rounds.streets[1], below)]
    return values_at_rounds(blueprint, board, ends, player=player, best=best)


@functools.partial(jax.jit, static_argnames=("player", "mesh"))
def _values_of_boards(blueprint, boards, rivers, *, player, mesh):
    """The responder's values `[D, 1326, M]` at the rounds of boards, one on each device, summed
    over all rivers if the boards are turns."""

    def on_device(blueprint, batch):
        board, rivers = at(batch, 0)
        ends = None
        if rivers is not None:
            below = _over_rivers(blueprint, board, rivers, player)
            ends = [values_at_ends(blueprint.game.rounds.streets[_TURN], below)]
        return values_at_rounds(blueprint, board, ends, player=player, best=True)[None]

    return split_calls(on_device, mesh)(blueprint, (boards, rivers))


def _over_rivers(blueprint, board, rivers, player):
    """The responder's values `[1326, M]` at the rounds of the last street, summed over all rivers.

    A CPU takes one river after the other. An accelerator takes `_RIVERS` at a time over all 52
    places: a loop with a data-dependent count would synchronise with the host at each turn.
    """
    cards, times, symmetries, (num_cards, num_symmetries) = rivers
    images = jnp.asarray(HAND_IMAGES, jnp.int32)
    count = sum(family.entries for family in blueprint.game.rounds.streets[-1])
    nothing = jnp.zeros((NUM_HANDS, count), jnp.float32)

    def worth(card):
        more = jnp.concatenate([board, card[None]])
        return values_at_rounds(blueprint, more, None, player=player, best=True)

    def one_by_one(cards, times):
        add = lambda n, total: total + times[n] * worth(cards[n])  # noqa: E731
        return jax.lax.fori_loop(jnp.int32(0), num_cards, add, nothing)

    def several(cards, times):
        def add(total, some):  # places without a card count 0 times
            values = jax.vmap(worth)(some[0])
            return total + jnp.tensordot(some[1], values, 1, precision="highest"), None

        parts = cards.reshape(-1, _RIVERS), times.reshape(-1, _RIVERS)
        return jax.lax.scan(add, nothing, parts)[0]

    total = jax.lax.platform_dependent(cards, times, cpu=one_by_one, default=several)
    image = lambda n, mean: mean + total[images[symmetries[n]]]  # noqa: E731
    images_sum = jax.lax.fori_loop(jnp.int32(0), num_symmetries, image, nothing)
    return images_sum / num_symmetries.astype(jnp.float32)
