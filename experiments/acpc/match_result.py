"""The numbers of a match by the ACPC protocol."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Sequence

from experiments.acpc.dealer import Client, DealtHand, Schedule
from experiments.harness import results

MEASURE = (
    "chips that each client won, by hand; with duplicate in the deals that were played in all"
    " seats, if there are two or more"
)


def numbers(
    schedule: Schedule, clients: Sequence[Client], hands: Sequence[DealtHand]
) -> list[results.Number]:
    """The mean winnings of all clients, and how many of their actions were corrected.

    Args:
      schedule: of the match.
      clients: of the match.
      hands: that were played to their end, which may be fewer than the match has.
    """
    scale = 1000 / max(*schedule.game.blinds, 1)
    measured = [results.Number(name="hands", value=float(len(hands)), unit="hands")]
    for number, client in enumerate(clients):
        if hands:
            measured.append(_won(client.name, schedule, hands, number, scale))
        measured.append(
            results.Number(
                name=f"corrected:{client.name}", value=float(client.corrected), unit="actions"
            )
        )
    return measured


def _won(name, schedule, hands, number, scale):
    """What a client won by hand, with an interval; with fewer than two samples, as of whole deals,
    the mean of all hands without one."""
    samples = [scale * value for value in _samples(schedule, hands, number)]
    if len(samples) > 1:
        low, high = results.interval(samples)
        value = statistics.fmean(samples)
        return results.Number(name=name, value=value, low=low, high=high, unit="mbb/h")
    value = scale * statistics.fmean(hand.values[number] for hand in hands)
    return results.Number(name=name, value=value, unit="mbb/h")


def _samples(schedule, hands, number):
    """What a client won, by hand; with duplicate by deal that was played in all seats."""
    if not schedule.duplicate:
        return [hand.values[number] for hand in hands]
    deals = collections.defaultdict(list)
    for hand in hands:
        deals[hand.deal].append(hand.values[number])
    whole = [values for values in deals.values() if len(values) == schedule.game.players]
    return [statistics.fmean(values) for values in whole]
