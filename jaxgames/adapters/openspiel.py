"""Games of OpenSpiel (Lanctot et al. 2019), read once through `pyspiel` into a table."""

from __future__ import annotations

import dataclasses
import difflib
import random
from typing import Any

import numpy as np

from jaxgames.adapters.common_knowledge import UNKNOWN, complete_tree
from jaxgames.adapters.tabular_game import TabularGame, TabularState
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import (
    MAX_HISTORIES,
    NO_PARENT,
    GameTree,
    too_large,
)

try:
    import pyspiel
except ImportError as error:
    raise ImportError("OpenSpiel is not installed: pip install 'jaxgames[openspiel]'") from error

_PROBES = 64  # random episodes by which a number of histories is estimated


@dataclasses.dataclass(frozen=True, eq=False)
class OpenSpielGame(TabularGame):
    """A game of OpenSpiel as a table; OpenSpiel draws its states and names its actions."""

    spiel: Any  # the sequential `pyspiel.Game`

    def render(self, state: TabularState) -> str:
        return str(self.spiel_state(int(state.history)))

    def spiel_state(self, row: int) -> Any:
        """Returns OpenSpiel's state at a history."""
        state = self.spiel.new_initial_state()
        for step in self.path(row):
            state.apply_action(int(self.tree.parent_action[step]))
        return state

    def _action_name(self, row: int, action: int) -> str:
        state = self.spiel_state(row)
        return state.action_to_string(state.current_player(), action)


def from_openspiel(game: Any, *, max_histories: int = MAX_HISTORIES) -> OpenSpielGame:
    """Reads a game of OpenSpiel.

    Actions, chance outcomes and players keep their numbers; simultaneous games are played turn by
    turn. Information states are OpenSpiel's strings, completed by `complete_information_states`:
    the strings often do not tell whose turn it is, and may be missing where other players act. What
    they tell after the end of the game (such as the result) is left out, as no play depends on it.

    Args:
      game: a `pyspiel.Game`, or its name: `"leduc_poker(players=3)"`.
      max_histories: the limit on the size of the tree.

    Returns:
      The game.

    Raises:
      TreeTooLargeError: more than `max_histories` histories.
      ValueError: an unknown game, a mean-field game, sampled chance, no information states, or
        imperfect recall.
    """
    spiel = sequential(load_spiel(game) if isinstance(game, str) else game)
    name = f"openspiel:{spiel}"
    estimate = _estimate(spiel)
    if estimate > 4 * max_histories:  # the estimate is noisy; near the limit count exactly
        raise too_large(name, estimate, max_histories)
    table = _HistoryTable(spiel, name)
    states = [spiel.new_initial_state()]
    while states:
        states = table.level(states)
        count = len(table.actor) + len(states)
        if count > max_histories:
            raise too_large(name, max(estimate, count), max_histories)
    return OpenSpielGame(tree=table.tree(), spiel=spiel)


def load_spiel(name: str) -> Any:
    """Returns OpenSpiel's game of a name.

    Raises:
      ValueError: OpenSpiel has no such game, or refuses its parameters.
    """
    known = pyspiel.registered_names()
    short = name.partition("(")[0].strip()
    if short not in known:
        near = difflib.get_close_matches(short, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown OpenSpiel game {short!r}{hint}")
    try:
        return pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise ValueError(f"OpenSpiel game {name!r}: {_first_line(error)}") from None


def sequential(spiel: Any) -> Any:
    """Returns a game of OpenSpiel, in turn-based form if its moves are simultaneous.

    Raises:
      ValueError: the game has no finite tree of information states.
    """
    kind = spiel.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ValueError(f"openspiel:{spiel}: mean-field games have no game tree")
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise ValueError(f"openspiel:{spiel}: chance is sampled, not listed with probabilities")
    if not kind.provides_information_state_string:
        raise ValueError(f"openspiel:{spiel}: OpenSpiel gives no information states for this game")
    if kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.convert_to_turn_based(spiel)
    return spiel


class _HistoryTable:
    """The histories so far, in breadth-first order, one list per column."""

    def __init__(self, spiel, name):
        self.spiel, self.name = spiel, name
        self.parent, self.parent_action, self.chance_prob = [NO_PARENT], [-1], [1.0]
        self.depth, self.actor, self.legal, self.returns, self.labels = [], [], [], [], []
        self.numbers = [{} for _ in range(spiel.num_players())]  # by player: string -> label

    def level(self, states):
        """Records all histories of one depth, and returns those of the next."""
        depth = self.depth[-1] + 1 if self.depth else 0
        below = []
        for state in states:
            row = len(self.actor)
            actor = actor_of(state)
            self.actor.append(actor)
            self.depth.append(depth)
            self.returns.append(state.returns() if actor == TERMINAL else None)
            self.labels.append([self._label(state, actor, p) for p in range(len(self.numbers))])
            moves = moves_of(state, actor)
            self.legal.append([action for action, _ in moves] if actor >= 0 else [])
            for action, probability in moves:
                self.parent.append(row)
                self.parent_action.append(action)
                self.chance_prob.append(probability)
                below.append(state.child(action))
        return below

    def tree(self) -> GameTree:
        """The game tree of the recorded histories."""
        count, players = len(self.actor), len(self.numbers)
        legal = np.zeros((count, self.spiel.num_distinct_actions()), bool)
        rows = np.repeat(np.arange(count), [len(actions) for actions in self.legal])
        legal[rows, [action for actions in self.legal for action in actions]] = True
        nothing = [0.0] * players
        return complete_tree(
            parent=np.array(self.parent),
            parent_action=np.array(self.parent_action),
            depth=np.array(self.depth),
            actor=np.array(self.actor),
            legal=legal,
            chance_prob=np.array(self.chance_prob),
            returns=np.array([nothing if row is None else row for row in self.returns]),
            labels=np.array(self.labels),
            game=self.name,
        )

    def _label(self, state, actor, player):
        """The number of what a player is told at a state; UNKNOWN where OpenSpiel does not tell
        it.
        """
        if actor == TERMINAL:
            return UNKNOWN
        try:
            text = state.information_state_string(player)
        except pyspiel.SpielError as error:
            if actor == player:
                raise ValueError(f"{self.name}: {_first_line(error)}") from None
            return UNKNOWN
        numbers = self.numbers[player]
        return numbers.setdefault(text, len(numbers))


def moves_of(state: Any, actor: int) -> list[tuple[int, float]]:
    """Returns the moves at a state of OpenSpiel with their probabilities (1 for players' moves)."""
    if actor == TERMINAL:
        return []
    if actor == CHANCE:
        return sorted(pair for pair in state.chance_outcomes() if pair[1] > 0)
    return [(action, 1.0) for action in state.legal_actions()]


def actor_of(state: Any) -> int:
    """Returns who acts at a state of OpenSpiel: a player's number, CHANCE or TERMINAL."""
    if state.is_terminal():
        return TERMINAL
    return CHANCE if state.is_chance_node() else state.current_player()


def _estimate(spiel):
    """Estimates the number of histories by random probes, without bias (Knuth 1975)."""
    generator = random.Random(0)
    total = sum(_probe(spiel, generator) for _ in range(_PROBES))
    return min(total / _PROBES, 1e300)


def _probe(spiel, generator):
    """One probe of `_estimate`."""
    state, width, total = spiel.new_initial_state(), 1.0, 1.0
    while not state.is_terminal():
        moves = state.legal_actions()
        width *= len(moves)
        total += width
        state.apply_action(generator.choice(moves))
    return total


def _first_line(error):
    return str(error).strip().splitlines()[0]
