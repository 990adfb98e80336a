"""Growing-tree CFR in a game of perfect information, written as plainly as possible: objects and
recursion, one search at a time, in float64. It takes the random numbers of the search it is
compared with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass
class Place:
    """A public state in the tree, and the action that leads there."""

    state: int
    actor: int  # 0, 1, or negative at terminals
    worth: float  # player 0's, of the evaluator or of the end of the game
    prior: dict[int, float]  # of legal actions
    children: dict[int, Place] = dataclasses.field(default_factory=dict)
    mass: float = 0.0
    regret: float = 0.0
    policy: float = 1.0
    average: float = 0.0
    visits: int = 0
    settled: int = 0  # visits at the last iteration
    value: float = dataclasses.field(init=False)  # of the last iteration; before it, the worth
    reach_total: tuple[float, float] = (0.0, 0.0)
    values_total: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self):
        self.value = self.worth


class ReferenceSearch:
    """One search with CFR+ and linear averaging; `look(state, action)` makes a place."""

    def __init__(
        self,
        look: Callable[[int | None, int | None], Place],
        *,
        expand,
        exploration=1.0,
        cfr_share=0.5,
        virtual_loss=1.0,
        pace=1,
    ):
        self.look, self.expand, self.pace = look, expand, pace
        self.exploration, self.cfr_share, self.virtual_loss = exploration, cfr_share, virtual_loss
        self.root, self.iterations, self.count = look(None, None), 0, 1
        self._open(self.root, len(self.root.prior))

    def run(self, noise: np.ndarray) -> Place:
        """All simulations `[S, D]` of random numbers, with an iteration before every `pace`."""
        for number, numbers in enumerate(noise):
            if number % self.pace == 0:
                self.iterations += 1
                self._value(self.root)
                self._learn(self.root, (1.0, 1.0))
                self._settle(self.root)
            self._simulate(numbers)
        return self.root

    def _open(self, place, number):
        """The best children of a leaf."""
        best = sorted(place.prior, key=lambda a: (-place.prior[a], a))[:number]
        for action in best:
            place.children[action] = self.look(place.state, action)
            place.children[action].policy = 1 / len(best)
            self.count += 1

    def _value(self, place):
        below = place.children.values()
        place.value = sum(c.policy * self._value(c) for c in below) if below else place.worth
        return place.value

    def _learn(self, place, reach):
        """Totals, regrets and averages from a place on, with both players' own reaches there."""
        weight, worth = self.iterations, (place.value, -place.value)
        place.reach_total = tuple(place.reach_total[i] + weight * reach[i] for i in range(2))
        place.values_total = tuple(
            place.values_total[i] + weight * reach[1 - i] * worth[i] for i in range(2)
        )
        if not place.children:
            return
        p, sign = place.actor, 1 if place.actor == 0 else -1
        place.mass += self.iterations * reach[p]
        for child in place.children.values():
            after = [reach[0], reach[1]]
            after[p] *= child.policy
            child.average += self.iterations * after[p]
            self._learn(child, after)
            gain = sign * (child.value - place.value) * reach[1 - p]
            child.regret = max(child.regret + gain, 0)
        total = sum(c.regret for c in place.children.values())
        for child in place.children.values():
            child.policy = child.regret / total if total > 1e-30 else 1 / len(place.children)

    def _settle(self, place):
        place.settled = place.visits
        for child in place.children.values():
            self._settle(child)

    def _simulate(self, numbers):
        place = self.root
        for number in numbers:
            action = (
                self._by_cfr(place, number) if number < self.cfr_share else self._by_puct(place)
            )
            if action not in place.children:
                place.children[action] = self.look(place.state, action)
                place.children[action].policy, place.children[action].visits = 0.0, 1
                self.count += 1
                return
            place = place.children[action]
            place.visits += 1
            if not place.children:
                if place.actor >= 0:
                    self._open(place, self.expand)
                return

    def _by_cfr(self, place, number):
        weights = {a: c.average if place.mass > 0 else c.policy for a, c in place.children.items()}
        point, below = number / self.cfr_share * sum(weights.values()), 0.0
        for action, weight in weights.items():
            if weight > 0 and below <= point:
                chosen = action
            below += weight
        return chosen

    def _by_puct(self, place):
        sign = 1 if place.actor == 0 else -1
        total = sum(child.visits for child in place.children.values()) + 1

        def score(action):
            if action not in place.children:
                return self.exploration * place.prior[action] * math.sqrt(total)
            child = place.children[action]
            under_way = child.visits - child.settled if self.pace > 1 else 0
            weight = 1 + child.settled
            value = weight * sign * child.value - self.virtual_loss * under_way
            bonus = place.prior[action] * math.sqrt(total) / (1 + child.visits)
            return value / (weight + under_way) + self.exploration * bonus

        return max(place.prior, key=score)
