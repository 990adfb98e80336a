"""What programs of sampling do in a traversal, counted: moves of chance, actions, ends of games.

Ours are watched while they run: the compiled game, or the walk through it, reports every move.
OpenSpiel's C++ is given a game in Python that counts the moves. Its information-set MCTS takes no
such game, because it cannot draw the hidden cards anew in one; its simulations are counted from the
frequencies of the actions at the root.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.game_tree import GameTree
from solvers.sampling import external_sampling
from solvers.sampling.decision_tree import DecisionNode, DecisionTree
from solvers.sampling.external_sampling import ExternalSampling

ROOT = 0  # where information-set MCTS searches: the first decision, with the lowest card
MOVES = ("moves of chance", "actions", "ends")
_RESAMPLED = 2000  # hidden cards that are drawn to see by which probabilities they are
_APART = 0.06  # allowed difference of such a frequency, five standard deviations


@record
class CountedTree(DecisionTree):
    """A compiled game that reports the moves of every episode to `count`.

    External sampling must be counted otherwise (`count_external_sampling`): it draws next places
    that it does not visit.
    """

    chance_moves: Array  # [X] int32 moves of chance since the decision before
    count: Callable = flax.struct.field(pytree_node=False)

    def start(self, noise: Float[Array, "1"]) -> Int[Array, ""]:
        """Draws the first place of an episode, and counts."""
        return self._counted(super().start(noise), jnp.bool_(False), jnp.bool_(True))

    def after(
        self, node: DecisionNode, action: Int[Array, ""], noise: Float[Array, "1"]
    ) -> Int[Array, ""]:
        """Draws the place after an action, and counts; after the end nothing is counted."""
        acts = node.actor != TERMINAL
        return self._counted(super().after(node, action, noise), acts, acts)

    def _counted(self, place, acts: Bool[Array, ""], moves: Bool[Array, ""]):
        chance = jnp.where(moves, self.chance_moves[place], 0)
        ends = moves & (self.actor[place] == TERMINAL)
        jax.debug.callback(self.count, chance, acts, ends)
        return place


def count_episodes(
    tree: DecisionTree, source: GameTree, run: Callable[[DecisionTree], Any]
) -> dict[str, int]:
    """Counts the moves that `run` makes in the episodes that it plays on a compiled game.

    Args:
      tree: the compiled game.
      source: its explicit tree.
      run: plays one episode after another, on the tree that it is given.

    Returns:
      The numbers of `MOVES`.
    """
    total = Counter(dict.fromkeys(MOVES, 0))

    def count(*moves):
        total.update({name: int(number) for name, number in zip(MOVES, moves, strict=True)})

    columns = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    chance_moves = jnp.asarray(_chance_moves(source)[np.asarray(tree.history)])
    jax.block_until_ready(run(CountedTree(**columns, chance_moves=chance_moves, count=count)))
    jax.effects_barrier()
    return dict(total)


def count_external_sampling(
    tree: DecisionTree,
    source: GameTree,
    keys: Key[Array, " L"],
    *,
    settings: ExternalSampling,
    num_traversals: int,
) -> dict[str, int]:
    """Counts the moves of new learners' first traversals by external sampling.

    Args:
      tree: the compiled game.
      source: its explicit tree.
      keys: a key for every learner.
      settings: how they learn.
      num_traversals: how many each makes, one player after the other.

    Returns:
      The numbers of `MOVES`.
    """
    chance_moves = jnp.asarray(_chance_moves(source)[np.asarray(tree.history)])

    @jax.jit
    def count(key):
        def step(carry):
            walk, total = carry
            actor = tree.actor[walk.place]
            here = (chance_moves[walk.place], walk.step > 0, actor == TERMINAL)
            here = jnp.stack([number.astype(jnp.int32) for number in here])
            total = total + jnp.where(walk.returns, 0, here)
            walk = external_sampling.step_walk(
                tree, walk, key, last=num_traversals, settings=settings
            )
            return walk, total

        begin = external_sampling.begin_walk(tree, external_sampling.init(tree), key, 0)
        unfinished = lambda carry: carry[0].traversal < num_traversals  # noqa: E731
        zeros = jnp.zeros(len(MOVES), jnp.int32)
        return jax.lax.while_loop(unfinished, step, (begin, zeros))[1]

    total = sum(count(key) for key in keys)
    return dict(zip(MOVES, total.tolist(), strict=True))


def _chance_moves(tree: GameTree) -> Int[np.ndarray, " H"]:
    """How many moves of chance lead to each history from the decision before, or the start."""
    moves = np.zeros(tree.num_histories, np.int32)
    for row in range(1, tree.num_histories):
        parent = tree.parent[row]
        if tree.actor[parent] == CHANCE:
            moves[row] = moves[parent] + 1
    return moves


class CountingGame(pyspiel.Game):
    """A game of OpenSpiel as a game in Python, which C++ can play, and which counts the moves."""

    def __init__(self, game: pyspiel.Game):
        self.game, self.total = game, Counter(dict.fromkeys(MOVES, 0))
        info = pyspiel.GameInfo(
            num_distinct_actions=game.num_distinct_actions(),
            max_chance_outcomes=game.max_chance_outcomes(),
            num_players=game.num_players(),
            min_utility=game.min_utility(),
            max_utility=game.max_utility(),
            utility_sum=game.utility_sum(),
            max_game_length=game.max_game_length(),
        )
        super().__init__(game.get_type(), info, {})

    def new_initial_state(self) -> _CountingState:
        return _CountingState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> _Observer:
        return _Observer()


class _CountingState(pyspiel.State):
    """A state of a `CountingGame`."""

    def __init__(self, game):
        super().__init__(game)
        self.held, self.total = _Held(game.game.new_initial_state()), _Shared(game.total)

    def current_player(self):
        return self.held.state.current_player()

    def chance_outcomes(self):
        return self.held.state.chance_outcomes()

    def is_terminal(self):
        return self.held.state.is_terminal()

    def returns(self):
        return self.held.state.returns()

    def _legal_actions(self, player):
        return self.held.state.legal_actions(player)

    def _apply_action(self, action):
        state, total = self.held.state, self.total.counter
        total["moves of chance" if state.is_chance_node() else "actions"] += 1
        state.apply_action(action)
        total["ends"] += state.is_terminal()

    def _action_to_string(self, player, action):
        return self.held.state.action_to_string(player, action)

    def __str__(self):
        return str(self.held.state)


class _Held:
    """A state that is cloned where Python would copy it."""

    def __init__(self, state):
        self.state = state

    def __deepcopy__(self, memo):
        return _Held(self.state.clone())


class _Shared:
    """A counter that copies of a state share."""

    def __init__(self, counter):
        self.counter = counter

    def __deepcopy__(self, memo):
        return self


class _Observer:
    """What players of a `CountingGame` see: the strings of the game itself."""

    tensor, dict = None, {}

    def string_from(self, state, player):
        return state.held.state.information_state_string(player)

    def set_from(self, state, player):
        pass


def first_decision(game: pyspiel.Game) -> pyspiel.State:
    """OpenSpiel's state at the first decision, after the first outcome of every move of chance."""
    state = game.new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    return state


def visits_at_root(policies: Sequence[Sequence[tuple[int, float]]], most: int) -> int:
    """How many visits of the root several searches of OpenSpiel's made, each as many.

    Args:
      policies: of every search, the actions and the shares of the visits.
      most: a number that no search exceeds.

    Returns:
      The smallest number of visits of which all shares are whole numbers.
    """
    shares = [share for policy in policies for _, share in policy]
    return math.lcm(*(Fraction(share).limit_denominator(most).denominator for share in shares))


def check_same_root(tree: DecisionTree, source: GameTree, game: pyspiel.Game) -> None:
    """Checks that our search at `ROOT` and OpenSpiel's at `first_decision` have the same task.

    Our worlds there, as histories of OpenSpiel's game, must have the information state that it
    searches, and both must draw them with the same probabilities, up to chance.

    Args:
      tree: the compiled game.
      source: its explicit tree.
      game: OpenSpiel's game, whose actions are numbered alike.

    Raises:
      ValueError: the information states or the probabilities differ.
    """
    root = first_decision(game)
    player, random = root.current_player(), np.random.default_rng(0)
    drawn = Counter(
        tuple(root.resample_from_infostate(player, random.random).history())
        for _ in range(_RESAMPLED)
    )
    ours = _worlds(tree, source)
    for history in ours:
        state = game.new_initial_state()
        for action in history:
            state.apply_action(action)
        told = state.information_state_string(player)
        if told != root.information_state_string(player):
            raise ValueError(f"our search knows {told!r}, OpenSpiel's {root!s}")
    for history in ours.keys() | drawn.keys():
        chances = ours.get(history, 0.0), drawn[history] / _RESAMPLED
        if abs(chances[0] - chances[1]) > _APART:
            raise ValueError(
                f"world {history} has probability {chances[0]} in our search, {chances[1]} in"
                " OpenSpiel's"
            )


def _worlds(tree, source) -> dict[tuple[int, ...], float]:
    """The histories that our search at `ROOT` begins with, and their probabilities."""
    worlds = tree.worlds
    first, count = int(worlds.first[ROOT]), int(worlds.count[ROOT])
    chances: Counter = Counter()
    for ticket in range(first, first + count):
        share = float(worlds.share[ticket])
        chances[_history(tree, source, ticket)] += share / count
        if share < 1:
            chances[_history(tree, source, int(worlds.other[ticket]))] += (1 - share) / count
    return dict(chances)


def _history(tree, source, ticket) -> tuple[int, ...]:
    """The actions that lead to the place of a ticket."""
    row, actions = int(tree.history[int(tree.worlds.place[ticket])]), []
    while row > 0:
        actions.append(int(source.parent_action[row]))
        row = int(source.parent[row])
    return tuple(reversed(actions))
