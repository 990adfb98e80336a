"""Trees that the tests of the solvers share, in float64, and OpenSpiel's view of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import numpy as np
import pyspiel
from solver_reference import random_tree

from jaxgames import TERMINAL, enumerate_game, make, registry
from jaxgames.adapters.gambit import parse_efg
from jaxgames.game_tree import GameTree
from solvers import evaluation
from solvers.sequence_form import SequenceForm, build_sequence_form

Policies = tuple[np.ndarray, ...]

OPENSPIEL_NAMES = {  # ours: theirs, with actions and chance outcomes numbered alike
    "kuhn_poker": "kuhn_poker",
    "kuhn_poker(players=3)": "kuhn_poker(players=3)",
    "leduc_poker": "leduc_poker",
    "liars_dice(sides=3)": "liars_dice(dice_sides=3)",
    "liars_dice(sides=4)": "liars_dice(dice_sides=4)",
    "goofspiel(cards=4,points=descending)": (
        "turn_based_simultaneous_game(game=goofspiel(imp_info=true,num_cards=4,"
        "points_order=descending))"
    ),
    "tic_tac_toe": "tic_tac_toe",
    "matrix_mp": "turn_based_simultaneous_game(game=matrix_mp())",
    "matrix_rps": "turn_based_simultaneous_game(game=matrix_rps())",
}

# Chance decides in secret who moves first, and neither player can tell: no numbering of the
# information states by time exists (Jakobsen, Sorensen, Conitzer 2016).
UNTIMED = """EFG 2 R "untimed" { "A" "B" }
c "" 1 "" { "A first" 1/3 "B first" 2/3 } 0
p "" 1 1 "" { "l" "r" } 0
p "" 2 1 "" { "l" "r" } 0 t "" 1 "" { 3 -3 } t "" 2 "" { -1 1 }
p "" 2 1 0 t "" 3 "" { 0 0 } t "" 4 "" { 2 -2 }
p "" 2 1 0
p "" 1 1 0 t "" 5 "" { -2 2 } t "" 6 "" { 1 -1 }
p "" 1 1 0 t "" 7 "" { 4 -4 } t "" 8 "" { -3 3 }
"""


@functools.cache
def game_tree(name: str) -> GameTree:
    """The explicit tree of a registered game, of a `random(...)` one, or of `untimed`."""
    if name == "untimed":
        return parse_efg(UNTIMED, name=name).tree
    if name.startswith("random("):
        return registry.call(name, "game", {"random": random_tree})
    return enumerate_game(make(name))


@functools.cache
def form_of(name: str, *, root: int = 0, dtype: str = "float64") -> SequenceForm:
    """The sequence form of a registered game, built once for all tests."""
    # not traced, even if a jitted function of a test is the first that asks for it
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return build_sequence_form(game_tree(name), root=root, dtype=dtype)


@functools.cache
def openspiel(name: str) -> tuple[pyspiel.Game, tuple[tuple[str, ...], ...]]:
    """OpenSpiel's game, and its names of our information states, by player and number."""
    tree, spiel = game_tree(name), pyspiel.load_game(OPENSPIEL_NAMES[name])
    states = [spiel.new_initial_state()]
    for parent, action in zip(tree.parent[1:], tree.parent_action[1:], strict=True):
        states.append(states[parent].child(int(action)))
    names = tuple(
        tuple(
            states[row].information_state_string(player)
            for row in tree.representative(player)[: tree.num_decisions[player]]
        )
        for player in range(tree.num_players)
    )
    return spiel, names


def to_openspiel(name: str, policies: Sequence[np.ndarray]) -> dict[str, list[tuple[int, float]]]:
    """Our policies as OpenSpiel's table."""
    legal = [game_tree(name).legal_actions(player) for player in range(len(policies))]
    return {
        text: [
            (int(a), float(policies[player][row, a])) for a in np.flatnonzero(legal[player][row])
        ]
        for player, names in enumerate(openspiel(name)[1])
        for row, text in enumerate(names)
    }


def from_openspiel(name: str, table: dict[str, list[tuple[int, float]]]) -> Policies:
    """OpenSpiel's table as policies of ours."""
    tree = game_tree(name)
    policies = tuple(np.zeros((count, tree.num_actions)) for count in tree.num_decisions)
    for policy, names in zip(policies, openspiel(name)[1], strict=True):
        for row, text in enumerate(names):
            for action, probability in table[text]:
                policy[row, action] = probability
    return policies


def swapped(tree: GameTree) -> GameTree:
    """The same game with the two players' names exchanged."""
    actor = np.where(tree.actor >= 0, 1 - tree.actor, tree.actor)
    return tree.replace(
        actor=actor,
        returns=tree.returns[:, ::-1],
        information_state=tree.information_state[:, ::-1],
        num_decisions=tree.num_decisions[::-1],
        num_information_states=tree.num_information_states[::-1],
    )


def with_other_returns(tree: GameTree, seed: int) -> GameTree:
    """The same game with random payoffs."""
    over = (tree.actor == TERMINAL)[:, None]
    noise = np.random.default_rng(seed).normal(size=tree.returns.shape)
    return tree.replace(returns=np.where(over, noise, 0.0))


@jax.jit
def gains(form: SequenceForm, policies: Policies) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Values, best-response values and NashConv, in one compilation that all tests share."""
    value = evaluation.expected_value(form, policies)
    best = evaluation.best_response_value(form, policies)
    return value, best, evaluation.nash_conv(form, policies)


def assert_policies_close(ours, theirs, *, atol: float) -> None:
    """Every player's policy is the same, element by element."""
    assert len(ours) == len(theirs)
    for player, (policy, other) in enumerate(zip(ours, theirs, strict=True)):
        message = f"player {player}"
        np.testing.assert_allclose(np.asarray(policy), other, rtol=0, atol=atol, err_msg=message)
