"""The numbers of a match by the ACPC protocol."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Sequence

from experiments.acpc.dealer import Client, DealtHand, Schedule
from experiments.harness import results

MEASURE = (
    "chips that each client won, by hand; errors are those of the mean of hands, with duplicate"
    " that of deals that were played in all seats"
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
            won = statistics.fmean(hand.values[number] for hand in hands)
            samples = [scale * value for value in _samples(schedule, hands, number)]
            low, high = results.interval(samples) if len(samples) > 1 else (None, None)
            measured.append(
                results.Number(
                    name=client.name, value=scale * won, low=low, high=high, unit="mbb/h"
                )
            )
        measured.append(
            results.Number(
                name=f"corrected:{client.name}", value=float(client.corrected), unit="actions"
            )
        )
    return measured


def _samples(schedule, hands, number):
    """What a client won, by hand; with duplicate by deal that was played in all seats."""
    if not schedule.duplicate:
        return [hand.values[number] for hand in hands]
    deals = collections.defaultdict(list)
    for hand in hands:
        deals[hand.deal].append(hand.values[number])
    whole = [values for values in deals.values() if len(values) == schedule.game.players]
    return [statistics.fmean(values) for values in whole]
