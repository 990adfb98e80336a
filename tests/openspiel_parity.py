"""Compares our games with OpenSpiel's, along random playouts or over the whole tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel

from jaxgames.core import CHANCE, TERMINAL, Game, State
from jaxgames.game_tree import GameTree, enumerate_game

ActionMap = Callable[[pyspiel.State, int], int]  # (their state, their action) -> our action
Compared = Literal["everywhere", "before_the_end", "decisions"]


def assert_same_game(
    game: Game,
    pyspiel_game: pyspiel.Game,
    *,
    num_playouts: int,
    seed: int,
    action_map: ActionMap | None = None,
) -> None:
    """Plays uniformly random episodes in both libraries in step and compares every state.

    Compared are the actor, the legal actions, the chance outcomes with their probabilities, and
    the returns. `action_map` translates OpenSpiel's actions and chance outcomes into ours (default:
    they are equal).
    """
    assert game.num_players == pyspiel_game.num_players()
    action_map, generator = action_map or same_action, np.random.default_rng(seed)
    lines = []  # our moves of each playout, and OpenSpiel's states before them and at the end
    for _ in range(num_playouts):
        theirs, made = pyspiel_game.new_initial_state(), []
        seen = [theirs.clone()]
        while not theirs.is_terminal():
            move = int(generator.choice(moves(theirs)))
            made.append(action_map(theirs, move))
            theirs.apply_action(move)
            seen.append(theirs.clone())
        lines.append((made, seen))
    length = max(len(made) for made, _ in lines)
    actions = [made + [0] * (length - len(made)) for made, _ in lines]  # the end stays the end
    played = _shown_along(game, np.array(actions, np.int32))
    for number, (_, seen) in enumerate(lines):
        for time, theirs in enumerate(seen):
            shown = {name: values[number, time] for name, values in played.items()}
            assert_same_state(State(**shown), theirs, action_map)


def _shown_along(game, actions):
    """What states show before each action of some lines of play `[N, T]`, and at the end."""

    def shown(state):
        return {
            name: getattr(state, name) for name in ("actor", "legal", "chance_probs", "returns")
        }

    @jax.jit
    @jax.vmap
    def play(line):
        def step(state, action):
            return game.step(state, action), shown(state)

        last, before = jax.lax.scan(step, game.init(), line)
        return jax.tree.map(lambda x, end: jnp.concatenate([x, end[None]]), before, shown(last))

    return jax.tree.map(np.asarray, play(actions))


def universal_poker(text: str, abstraction: str = "fcpa") -> pyspiel.Game:
    """OpenSpiel's game of one of the ACPC's game definitions."""
    lines = [line.partition("#")[0] for line in text.splitlines() if "=" in line]
    pairs = [[part.strip() for part in line.split("=")] for line in lines]
    parameters = {key: int(v) if v.isdigit() else v for key, v in pairs}
    parameters["betting"] = "nolimit" if "nolimit" in text else "limit"
    parameters["bettingAbstraction"] = abstraction
    if "stack" not in parameters:
        parameters["stack"] = " ".join(["10000"] * parameters["numPlayers"])
    return pyspiel.load_game("universal_poker", parameters)


def assert_same_state(state: State, theirs: pyspiel.State, action_map: ActionMap) -> None:
    """Both show the same actor, legal actions, chance outcomes and returns."""
    where = f"after {theirs.history()}"
    actor, legal, chance_probs, returns = expected_view(
        theirs, len(state.legal), len(state.chance_probs), action_map
    )
    assert int(state.actor) == actor, where
    np.testing.assert_array_equal(np.asarray(state.legal), legal, where)
    np.testing.assert_allclose(np.asarray(state.chance_probs), chance_probs, 1e-6, err_msg=where)
    np.testing.assert_allclose(np.asarray(state.returns), returns, 1e-6, err_msg=where)


def assert_same_tree(
    game: Game, pyspiel_game: pyspiel.Game, *, information: Compared = "everywhere"
) -> GameTree:
    """Compares every history of both games, and which histories a player can tell apart.

    Where a player acts, histories share our information state exactly if they share OpenSpiel's
    information state string. The same is asserted of all players, given the number of steps and
    whose turn it is (public in our contract), "everywhere", or "before_the_end" (where OpenSpiel
    may show the result), or not at all. Actions must be numbered alike.

    Returns: our tree.
    """
    tree = enumerate_game(game)
    histories = [pyspiel_game.new_initial_state()]
    for parent, action in zip(tree.parent[1:], tree.parent_action[1:], strict=True):
        histories.append(histories[parent].child(action))
    assert_same_rows(tree, histories, game.num_chance_outcomes)
    for player in range(game.num_players):
        strings = np.array([state.information_state_string(player) for state in histories])
        own = tree.actor == player
        assert_same_partition(tree.information_state[own, player], strings[own])
        also = {
            "everywhere": tree.actor < game.num_players,
            "before_the_end": tree.actor != TERMINAL,
        }
        rows = also.get(information, own)
        clock = (tree.depth[rows], tree.actor[rows])
        assert_same_partition(tree.information_state[rows, player], strings[rows], *clock)
    return tree


def assert_same_rows(tree: GameTree, histories: list[pyspiel.State], num_outcomes: int) -> None:
    """Actor, legal actions, returns and chance probabilities agree at every history."""
    views = [expected_view(s, tree.num_actions, num_outcomes, same_action) for s in histories]
    actor, legal, chance_probs, returns = map(np.array, zip(*views, strict=True))
    np.testing.assert_array_equal(tree.actor, actor)
    np.testing.assert_array_equal(tree.legal, legal)
    np.testing.assert_allclose(tree.returns, returns, atol=1e-12)
    dealt = np.flatnonzero(np.append(False, actor[tree.parent[1:]] == CHANCE))
    expected = chance_probs[tree.parent[dealt], tree.parent_action[dealt]]
    np.testing.assert_allclose(tree.chance_prob[dealt], expected, atol=1e-12)
    children = np.bincount(tree.parent[dealt], minlength=tree.num_histories)
    np.testing.assert_array_equal(children, (chance_probs > 0).sum(axis=1))


def assert_same_partition(ours: np.ndarray, *theirs: np.ndarray) -> None:
    """Two labellings of the same things, the second by tuples, put the same things together."""
    labels, others = ours.tolist(), list(zip(*theirs, strict=True))
    assert len(set(labels)) == len(set(others)) == len(set(zip(labels, others, strict=True)))


def expected_view(
    theirs: pyspiel.State, num_actions: int, num_outcomes: int, action_map: ActionMap
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Actor, legal actions, chance probabilities and returns in the terms of our contract."""
    legal, chance_probs = np.zeros(num_actions, bool), np.zeros(num_outcomes)
    returns = np.zeros(theirs.num_players())
    if theirs.is_terminal():
        return TERMINAL, legal, chance_probs, np.array(theirs.returns())
    if theirs.is_chance_node():
        for outcome, probability in theirs.chance_outcomes():
            chance_probs[action_map(theirs, outcome)] += probability
        return CHANCE, legal, chance_probs, returns
    legal[[action_map(theirs, action) for action in theirs.legal_actions()]] = True
    return theirs.current_player(), legal, chance_probs, returns


def moves(theirs: pyspiel.State) -> list[int]:
    """The legal actions, or the chance outcomes of positive probability."""
    if theirs.is_chance_node():
        return [outcome for outcome, probability in theirs.chance_outcomes() if probability > 0]
    return theirs.legal_actions()


def same_action(theirs: pyspiel.State, action: int) -> int:
    """The action map of games that number actions as OpenSpiel does."""
    return action
