"""What blueprints of limit hold'em are worth in the real game: against themselves, and against
players who respond to them. What has been measured is kept piece by piece.

Responders see their cards; the estimates are the mean of both seats.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from experiments.best_response.blueprint_responses import local_best_response
from experiments.harness.progress import progress
from experiments.harness.runs import Run
from jaxgames.holdem.canonical_boards import canonical_boards, num_deals
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.deals import random_boards
from solvers.blueprint.enumerated_match import values_on_boards
from solvers.blueprint.hand_policy import hand_policy

ALL_FLOPS = len(num_deals(3))  # canonical ones
BOARDS = 64  # of a blueprint against itself, in one piece
_FLOPS = 16  # whose turns make a piece where responders deviate from the turn on


class Estimate(NamedTuple):
    """In thousandths of a big blind per hand."""

    value: float
    error: float  # a standard error; 0: it is exact


def estimate(poker: Poker, chips: Float[np.ndarray, " n"], weights: object = None) -> Estimate:
    """The mean of chips, with its standard error.

    Args:
      poker: the game, which says what a big blind is.
      chips: what was won in n independent parts.
      weights: of the parts; None: all alike.
    """
    chips = 1000 / max(poker.blinds) * np.asarray(chips, np.float64)
    mean = np.average(chips, weights=weights)
    variance = np.average((chips - mean) ** 2, weights=weights)
    return Estimate(float(mean), float(np.sqrt(variance / (len(chips) - 1))))


def draw_flops(count: int, *, seed: int) -> Int[np.ndarray, " count"]:
    """Numbers of different canonical flops, all of them or some that are drawn.

    A flop is drawn in proportion to how often it is dealt: along all deals, in which the flops come
    in random order, one is taken at equal intervals. So a plain mean over the drawn flops is that
    over all deals on average.

    Args:
      count: how many there are. 1,755 are all, whose weights are `num_deals`.
      seed: of the order.

    Raises:
      ValueError: `count` is less than 2, or so large that a flop could be drawn twice.
    """
    deals = num_deals(3)
    most = deals.sum() // deals.max()
    if count == len(deals):
        return np.arange(count)
    if not 2 <= count <= most:
        raise ValueError(
            f"flops={count} must be from 2 to {most}, or {len(deals):,}, which are all"
        )
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(deals))
    ends = np.cumsum(deals[order])
    taken = (generator.random() + np.arange(count)) * (ends[-1] / count)
    return order[np.searchsorted(ends, taken, side="right")]


def draw_turns(flops: Int[np.ndarray, " n"], count: int, *, seed: int) -> Int[np.ndarray, "n T"]:
    """Different turns of each flop.

    Args:
      flops: numbers of canonical flops.
      count: T, of each flop.
      seed: what is drawn for a flop depends on the seed and this flop alone.
    """
    cards = canonical_boards(3)[3].cards
    return np.stack(
        [
            np.random.default_rng((seed, flop)).permutation(
                np.setdiff1d(np.arange(NUM_CARDS), cards[flop])
            )[:count]
            for flop in flops
        ]
    )


def value_to_the_dealer(
    run: Run, name: str, blueprint: Blueprint, poker: Poker, *, boards: int, seed: int
) -> Estimate:
    """What player 1 wins where both play the blueprint, over all pairs of hands on drawn boards.

    Args:
      run: keeps the pieces; its devices share the boards.
      name: of the blueprint within the run.
      blueprint: what is measured.
      poker: the game.
      boards: how many are drawn: `BOARDS` or a multiple, or fewer.
      seed: of the boards.
    """
    drawn = random_boards(jax.random.key(seed), boards, num_cards=sum(poker.board))
    won: list[float] = []
    with progress(f"value, {name}", boards) as report:
        for begin in range(0, boards, BOARDS):
            now = drawn[begin : begin + BOARDS]

            def play(now=now):
                return np.asarray(values_on_boards(blueprint, blueprint, now, mesh=run.mesh))

            path = run.checkpoint / name / f"boards-{begin}.json"
            won += run.kept_json(path, lambda play=play: (-play()).tolist())
            report(len(won), None, 0.0)
    return estimate(poker, np.array(won))


def best_responses(
    run: Run, name: str, blueprint: Blueprint, poker: Poker, *, flops: Int[np.ndarray, " n"]
) -> Estimate:
    """What best responses win on some flops with all turns and rivers.

    If these are not all flops, what is played before the flop is chosen on one half of them and
    valued on the other, so that no response is chosen by what it is valued on: the estimate is a
    lower bound on average. On all flops it is exact.

    Args:
      run: keeps the values of each flop; its devices share the turns.
      name: of the blueprint within the run.
      blueprint: what is measured.
      poker: the game.
      flops: as `draw_flops` gives them.
    """
    values: list[list[np.ndarray]] = [[], []]
    with progress(f"best responses, {name}", 2 * len(flops)) as report:
        for number, flop in enumerate(flops):
            for player in range(2):

                def so_far(share, done=2 * number + player):
                    report(done + share, None, 0.0)

                respond = functools.partial(
                    _flop_values, run, blueprint, flops[[number]], player, report=so_far
                )
                path = run.checkpoint / name / f"player-{player}-flop-{flop}.json"
                values[player].append(np.array(run.kept_json(path, respond)[0]))
                so_far(1)
    both = [np.stack(each) for each in values]
    if len(flops) == ALL_FLOPS:
        won = [
            best_response.best_response_value(blueprint, each, num_deals(3)[flops], player=player)
            for player, each in enumerate(both)
        ]
        return Estimate(1000 / max(poker.blinds) * sum(won) / 2, 0.0)
    halves = np.array_split(np.arange(len(flops)), 2)
    by_flop = []
    for player, each in enumerate(both):
        of_halves = [
            best_response.response_values(
                blueprint, each[other].mean(axis=0), each[half], player=player
            )
            for half, other in (halves, halves[::-1])
        ]
        by_flop.append(np.concatenate(of_halves))
    return estimate(poker, sum(by_flop) / 2)


def responses_from_the_turn(
    run: Run,
    name: str,
    blueprint: Blueprint,
    poker: Poker,
    *,
    flops: Int[np.ndarray, " n"],
    turns: Int[np.ndarray, "n T"],
) -> Float[np.ndarray, " n"]:
    """The values of players who follow the blueprint before the turn and play a best response from
    it on: on some turns of each flop with all rivers, a lower bound of those of best responses.

    Args:
      run: keeps the pieces; its devices share the turns.
      name: of the blueprint within the run.
      blueprint: what is measured.
      poker: the game.
      flops: as `draw_flops` gives them.
      turns: as `draw_turns` gives them.

    Returns:
      Chips per hand by flop.
    """
    by_flop = []
    with progress(f"from the turn on, {name}", 2 * len(flops)) as report:
        for player in range(2):
            found = []
            for begin in range(0, len(flops), _FLOPS):
                these, done = slice(begin, begin + _FLOPS), player * len(flops) + begin
                count = len(flops[these])

                def so_far(share, done=done, count=count):
                    report(done + share * count, None, 0.0)

                respond = functools.partial(
                    _flop_values, run, blueprint, flops[these], player, turns[these], report=so_far
                )
                path = run.checkpoint / name / f"player-{player}-turns-from-{begin}.json"
                found += run.kept_json(path, respond)
                so_far(1)
            by_flop.append(
                best_response.response_values(blueprint, None, np.array(found), player=player)
            )
    return sum(by_flop) / 2


def flop_weights(flops: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"] | None:
    """How often flops are dealt, if these are all; None for flops that are drawn, all alike."""
    return num_deals(3)[flops] if len(flops) == ALL_FLOPS else None


def _flop_values(run, blueprint, flops, player, turns=None, *, report):
    """As lists, which a checkpoint keeps."""
    values = best_response.flop_values(
        blueprint, flops, player=player, turns=turns, mesh=run.mesh, report=report
    )
    return values.tolist()


def local_best_responses(
    run: Run, name: str, blueprint: Blueprint, poker: Poker, *, deals: int, seed: int
) -> Estimate:
    """What local best response wins; see `blueprint_responses.local_best_response`."""
    policy = hand_policy(blueprint, poker)
    chips = local_best_response(run, poker, name, policy, deals=deals, seed=seed)
    return estimate(poker, chips.mean(axis=1))
