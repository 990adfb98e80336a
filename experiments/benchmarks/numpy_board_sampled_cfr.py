"""One iteration of board-sampled linear CFR in NumPy, to compare with `solvers.blueprint`.

The same work, street by street with vectors over groups of hands, as one writes it in NumPy: each
group's policy is read from its buckets' tables, and showdowns are a product with a matrix of pairs
of groups. Tables are `[B, C, M]` by street and family.
"""

from __future__ import annotations

import numpy as np

from solvers.blueprint.betting_rounds import END, FOLDED, BettingRounds
from solvers.blueprint.deals import Deal


def prepare(deal: Deal) -> dict[str, np.ndarray]:
    """A deal's arrays, with the matrix of showdowns between groups."""
    arrays = {name: np.asarray(getattr(deal, name)) for name in ("bucket", "size", "with_card")}
    cards, strength = np.asarray(deal.cards), np.asarray(deal.strength)
    apart = ~(cards[:, None, :, None] == cards[None, :, None, :]).any(axis=(2, 3))
    wins = np.where(apart, np.sign(strength[:, None] - strength[None]), 0).astype(np.float32)
    order = np.argsort(np.asarray(deal.group), kind="stable")
    first = np.searchsorted(np.asarray(deal.group)[order], np.arange((arrays["size"] > 0).sum()))
    summed = np.add.reduceat(np.add.reduceat(wins[np.ix_(order, order)], first, 0), first, 1)
    groups = len(arrays["size"])
    arrays["wins"] = np.zeros((groups, groups), np.float32)
    arrays["wins"][: len(first), : len(first)] = summed
    return arrays


def iterate(rounds: BettingRounds, regret, average, deal: dict[str, np.ndarray], step: float):
    """Adds an iteration to the tables in place."""
    size, inside, wins = deal["size"][:, None, None], deal["with_card"], deal["wins"]
    groups = len(size)
    mask = (size[:, :, 0] > 0).astype(np.float32)

    def folds(x):
        x = x.reshape(groups, -1)
        met = size[:, 0] * (size[:, 0].T @ x) - inside @ (inside.T @ x) + size[:, 0] * x
        return met

    # 1. Down: policies, reaches of both players at all nodes, folds and ends.
    streets, reach = [], [[(mask, mask)]]
    for street, families in enumerate(rounds.streets):
        rows, kept, ends = deal["bucket"][street], [], []
        for number, family in enumerate(families):
            policy = _matched(family.template, regret[street][number])[rows]  # [G, C, M]
            at = {"node": {0: reach[street][number]}, FOLDED: {}, END: {}}
            for node, actions in enumerate(family.template.actions):
                actor, first = family.template.actor[node], family.template.first_column[node]
                for action, edge in enumerate(actions):
                    after = list(at["node"][node])
                    after[actor] = after[actor] * policy[:, first + action]
                    at[edge.kind][edge.target] = after
            kept.append((policy, at))
            ends.append(at[END])
        streets.append(kept)
        if street + 1 < len(rounds.streets):
            reach.append(_reaches_below(families, ends, rounds.streets[street + 1]))
    # 2. Up: values, regrets, averages.
    below = None
    for street in reversed(range(len(rounds.streets))):
        values = []
        for number, family in enumerate(rounds.streets[street]):
            policy, at = streets[street][number]
            worth = {"node": {}, FOLDED: {}, END: {}}
            for k in range(family.template.num_ends):
                if (family.next_family[k] < 0).all():
                    worth[END][k] = [
                        (wins @ at[END][k][1 - p]) * family.end_chips[k].astype(np.float32)
                        for p in range(2)
                    ]
                else:
                    worth[END][k] = [
                        np.stack(
                            [
                                below[f][p][:, e]
                                for f, e in zip(
                                    family.next_family[k], family.next_entry[k], strict=True
                                )
                            ],
                            axis=1,
                        )
                        for p in range(2)
                    ]
            for f, loser in enumerate(family.template.loser):
                chips = family.fold_chips[f].astype(np.float32)
                worth[FOLDED][f] = [
                    folds(at[FOLDED][f][1 - p]) * (chips if p != loser else -chips)
                    for p in range(2)
                ]
            regrets = np.zeros_like(policy)
            averages = np.zeros_like(policy)
            for node in reversed(range(len(family.template.actor))):
                actor, first = family.template.actor[node], family.template.first_column[node]
                actions = family.template.actions[node]
                found = [worth[edge.kind][edge.target] for edge in actions]
                own = sum(policy[:, first + a] * x[actor] for a, x in enumerate(found))
                result = [None, None]
                result[actor], result[1 - actor] = own, sum(x[1 - actor] for x in found)
                worth["node"][node] = result
                for a, x in enumerate(found):
                    regrets[:, first + a] = x[actor] - own
                    averages[:, first + a] = at["node"][node][actor] * policy[:, first + a]
            values.append(worth["node"][0])
            _add_rows(regret[street][number], deal["bucket"][street], step * regrets)
            _add_rows(average[street][number], deal["bucket"][street], step * size * averages)
        below = values


def _matched(template, regret):
    """Regret matching `[B, C, M]`."""
    policy = np.empty_like(regret)
    for first, actions in zip(template.first_column, template.actions, strict=True):
        columns = slice(first, first + len(actions))
        positive = np.maximum(regret[:, columns], 0)
        mass = positive.sum(axis=1, keepdims=True)
        policy[:, columns] = np.where(
            mass > 0, positive / np.where(mass > 0, mass, 1), np.float32(1 / len(actions))
        )
    return policy


def _reaches_below(families, ends, following):
    """Both players' reaches at the beginnings of the next street's rounds."""
    result = [
        [np.empty((len(ends[0][0][0]), family.entries), np.float32) for _ in range(2)]
        for family in following
    ]
    for family, at in zip(families, ends, strict=True):
        for k, pair in at.items():
            for m, (f, e) in enumerate(
                zip(family.next_family[k], family.next_entry[k], strict=True)
            ):
                if f >= 0:
                    for p in range(2):
                        result[f][p][:, e] = pair[p][:, m]
    return result


def _add_rows(table, rows, values):
    for row, value in zip(rows, values, strict=True):
        table[row] += value
