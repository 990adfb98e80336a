"""CFR+ in sequence form with plain NumPy and SciPy, to compare faster programs with.

Alternating updates, regret matching plus, linear averaging, float64, one core; two-player zero-sum
games of OpenSpiel. A player's sequences are numbered level by level (0 is the empty sequence), the
actions of a decision side by side and the decisions with the same parent side by side, so that a
sweep over a level needs only slices, gathers and `np.add.reduceat`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse


class SequenceFormCfrPlus:
    """CFR+ on a `pyspiel.Game`. Policies are vectors over the sequences but the empty one."""

    def __init__(self, game: Any):
        listing = _GameListing()
        listing.visit(game.new_initial_state(), 1.0, [None, None])
        self.players = [
            _Player(*columns)
            for columns in zip(listing.keys, listing.parents, listing.actions, strict=True)
        ]
        entries = [
            [player.number(sequences[i]) for sequences in listing.payoff]
            for i, player in enumerate(self.players)
        ]
        shape = tuple(player.num_sequences for player in self.players)
        payoff = scipy.sparse.csr_array(([*listing.payoff.values()], entries), shape=shape)
        payoff.eliminate_zeros()
        # counterfactual payoffs of player i: payoff[i] @ (reach of the other's sequences)
        self.payoff = [payoff, scipy.sparse.csr_array(-payoff.T)]
        self.regret = [np.zeros(player.num_sequences - 1) for player in self.players]
        self.policy = [player.uniform for player in self.players]
        self.reach = [player.reach(player.uniform) for player in self.players]
        self.average = [np.zeros(player.num_sequences) for player in self.players]
        self.iteration = 0

    def step(self, num_iterations: int) -> None:
        """Makes iterations, each of which updates both players."""
        for _ in range(num_iterations):
            self.iteration += 1
            self._update(0)
            self._update(1)

    def average_policy(self) -> dict[str, list[tuple[int, float]]]:
        """Probabilities of the legal actions by OpenSpiel's information state."""
        policy = {}
        for player, average in zip(self.players, self.average, strict=True):
            probabilities = player.normalise(average[1:])
            for key, actions, begin in zip(player.keys, player.actions, player.begin, strict=True):
                row = probabilities[begin : begin + len(actions)].tolist()
                policy[key] = list(zip(actions, row, strict=True))
        return policy

    def _update(self, i: int) -> None:
        player, regret = self.players[i], self.regret[i]
        self.average[i] += self.iteration * self.reach[i]
        regret += player.regrets(self.payoff[i] @ self.reach[1 - i], self.policy[i])
        np.maximum(regret, 0.0, out=regret)
        self.policy[i] = player.normalise(regret)
        self.reach[i] = player.reach(self.policy[i])


class _GameListing:
    """The decisions and payoffs of a game; a sequence is (decision, place of the action)."""

    def __init__(self):
        self.keys = ([], [])  # by player, OpenSpiel's information state of every decision
        self.parents = ([], [])  # likewise the sequence that leads to it, None if empty
        self.actions = ([], [])  # likewise its legal actions
        self.payoff = {}  # by both players' sequences, the payoff to player 0 times chance
        self._numbers = ({}, {})

    def visit(self, state: Any, chance: float, sequences: list) -> None:
        """Adds the history `state`, to which `sequences` lead, and all histories below it."""
        if state.is_terminal():
            key = tuple(sequences)
            self.payoff[key] = self.payoff.get(key, 0.0) + chance * state.returns()[0]
        elif state.is_chance_node():
            for action, probability in state.chance_outcomes():
                self.visit(state.child(action), chance * probability, sequences)
        else:
            player = state.current_player()
            decision = self._decision(state, player, sequences[player])
            for place, action in enumerate(state.legal_actions()):
                below = list(sequences)
                below[player] = (decision, place)
                self.visit(state.child(action), chance, below)

    def _decision(self, state, player, parent) -> int:
        """The number of the decision at `state`, which is added if it is new."""
        key, numbers = state.information_state_string(), self._numbers[player]
        if key not in numbers:
            numbers[key] = len(numbers)
            self.keys[player].append(key)
            self.parents[player].append(parent)
            self.actions[player].append(state.legal_actions())
        return numbers[key]


@dataclasses.dataclass(frozen=True)
class _Level:
    """The n decisions of a player after as many own actions, and their q sequences."""

    decisions: slice
    sequences: slice
    actions: slice  # the sequences, counted without the empty one
    begin: np.ndarray  # [n] first sequence of each decision, counted from the level's first
    parents: np.ndarray  # the distinct parent sequences
    first_child: np.ndarray  # first decision below each of them, counted from the level's first
    parent_of: np.ndarray  # [q] parent sequence of each sequence


class _Player:
    """The sequences of one player, level by level."""

    def __init__(self, keys, parents, actions):
        depth = []
        for parent in parents:
            depth.append(0 if parent is None else depth[parent[0]] + 1)
        self._first = [0] * len(keys)  # sequence of each decision, in the order of the listing
        order, ends, begin = [], [], 1
        for level in range(max(depth) + 1):
            of_level = [decision for decision, d in enumerate(depth) if d == level]
            for decision in sorted(of_level, key=lambda d: self.number(parents[d])):
                self._first[decision], begin = begin, begin + len(actions[decision])
                order.append(decision)
            ends.append(len(order))
        self.keys = [keys[decision] for decision in order]
        self.actions = [actions[decision] for decision in order]
        self.num_sequences = begin
        self.num_actions = np.array([len(legal) for legal in self.actions])
        self.begin = np.array([self._first[decision] for decision in order]) - 1
        self.owner = np.repeat(np.arange(len(order)), self.num_actions)
        self.uniform = (1.0 / self.num_actions)[self.owner]
        above = np.array([self.number(parents[decision]) for decision in order])
        self.levels = [
            self._level(slice(*ends_of_level), above)
            for ends_of_level in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def number(self, sequence: tuple[int, int] | None) -> int:
        """Number of a sequence given by decision and place of the action."""
        return 0 if sequence is None else self._first[sequence[0]] + sequence[1]

    def _level(self, decisions, above):
        """The level of these decisions; `above` are the parent sequences of all decisions."""
        begin, counts = self.begin[decisions], self.num_actions[decisions]
        actions = slice(begin[0], begin[-1] + counts[-1])
        parents, first_child = np.unique(above[decisions], return_index=True)
        return _Level(
            decisions=decisions,
            sequences=slice(actions.start + 1, actions.stop + 1),
            actions=actions,
            begin=begin - begin[0],
            parents=parents,
            first_child=first_child,
            parent_of=np.repeat(above[decisions], counts),
        )

    def reach(self, policy: np.ndarray) -> np.ndarray:
        """Own reach of every sequence, computed level by level from the top."""
        reach = np.ones(self.num_sequences)
        for level in self.levels:
            above = reach[level.parent_of]
            np.multiply(policy[level.actions], above, out=reach[level.sequences])
        return reach

    def regrets(self, values: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """Regrets of the sequences, computed from the last level up.

        `values` holds the counterfactual payoffs of what ends right after each sequence, and is
        overwritten.
        """
        decision_values = np.empty(len(self.begin))
        for level in reversed(self.levels):
            weighted = policy[level.actions] * values[level.sequences]
            of_level = np.add.reduceat(weighted, level.begin)
            decision_values[level.decisions] = of_level
            values[level.parents] += np.add.reduceat(of_level, level.first_child)
        return values[1:] - decision_values[self.owner]

    def normalise(self, weight: np.ndarray) -> np.ndarray:
        """Weights of the actions divided by their sum in each decision; uniform where that is 0."""
        total = np.add.reduceat(weight, self.begin)
        none = total <= 0.0
        policy = weight * (1.0 / np.where(none, 1.0, total))[self.owner]
        return np.where(none[self.owner], self.uniform, policy) if none.any() else policy
