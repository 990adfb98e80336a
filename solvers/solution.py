"""Solving a game in one call: `solve("leduc_poker", num_iterations=1000)`."""

from __future__ import annotations

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxgames.checks import at_least
from jaxgames.core import Game
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game
from jaxgames.policy_text import policy_rows
from jaxgames.registry import make
from solvers import evaluation
from solvers.registry import CompiledGame, LinearProgram, prepare_solver, solver_by_name
from solvers.sequence_form import Policy, SequenceForm, build_sequence_form

DEFAULT_ITERATIONS = 1000
_SHOWN = 12  # information states that are printed
_DESCRIBED = 10_000  # information states of a game that are described by their moves


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution:
    """A policy for every player of a game, and how good it is. P players, A actions."""

    solver: str  # as it was given to `solve`
    num_iterations: int | None  # None for the linear program
    policy: Policy  # by player p: probabilities [D_p, A] by number of the information state
    values: Float[np.ndarray, " P"]  # expected payoff of every player
    nash_conv: float  # sum over players of what a best response gains
    compiled: CompiledGame

    @property
    def exploitability(self) -> float:
        """NashConv divided by the number of players."""
        return self.nash_conv / len(self.values)

    @property
    def sequence_form(self) -> SequenceForm:
        """The game as the solver saw it, for further evaluation."""
        return self.compiled.sequence_form

    @property
    def game(self) -> str:
        """The name of the game, with its parameters."""
        return self.sequence_form.game

    def rows(self) -> list[dict[str, object]]:
        """The policy in readable form, one row for each legal action of each information state.

        Returns:
          Rows with the keys `player`, `information_state`, `history`, `action`, `probability` (see
          `jaxgames.policy_text.policy_rows`).

        Raises:
          ValueError: the solution was made from a GameTree or SequenceForm, which names no moves.
        """
        if self.compiled.game is None:
            raise ValueError(f"{self.game} was given without its rules, which name the moves")
        policy = tuple(map(np.asarray, self.policy))
        return policy_rows(self.compiled.game, self.compiled.tree, policy)

    def __str__(self) -> str:
        count = "" if self.num_iterations is None else f" in {self.num_iterations:,} iterations"
        values = ", ".join(f"{value:+.6f}" for value in self.values)
        states = [len(rows) for rows in self.policy]
        return "\n".join(
            [
                f"{self.game} solved by {self.solver}{count}",
                f"  values          {values}",
                f"  exploitability  {self.exploitability:.4g} (NashConv {self.nash_conv:.4g})",
                f"  policy          {sum(states):,} information states",
                *(f"    {line}" for line in itertools.islice(self._lines(), _SHOWN)),
                *(["    ..."] if sum(states) > _SHOWN else []),
            ]
        )

    __repr__ = __str__

    def _lines(self):
        """The policy at one information state after the other."""
        known = self.compiled.game is not None
        if not known or sum(map(len, self.policy)) > _DESCRIBED:
            for player, table in enumerate(self.policy):
                for state, row in enumerate(np.asarray(table[:_SHOWN])):
                    played = "  ".join(f"{probability:.3f}" for probability in row)
                    yield f"player {player}, information state {state}:  {played}"
            return
        states = itertools.groupby(self.rows(), lambda row: (row["player"], row["history"]))
        for (player, history), rows in states:
            played = "  ".join(f"{r['action']} {float(r['probability']):.3f}" for r in rows)
            yield f"player {player}, {history}:  {played}"


def solve(
    game: str | Game | GameTree | SequenceForm,
    solver: str = "cfr_plus",
    *,
    num_iterations: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    max_histories: int = MAX_HISTORIES,
) -> Solution:
    """Solves a game and measures the solution.

    What an iteration is depends on the solver: of the CFR family an update of every player, of
    fictitious_play a best response of every player, of outcome_sampling one episode, of
    external_sampling a traversal for every player, of public_chance_sampling one walk over public
    states. linear_program does not iterate.

    Args:
      game: a name ("leduc_poker(players=3)", "openspiel:NAME", "efg:FILE", "pgx:NAME"), a game, its
        tree, or its sequence form.
      solver: a name of `solver_names()`, perhaps with parameters: "dcfr(gamma=3)".
      num_iterations: how many iterations to make; None for 1,000.
      seed: of the sampling solvers; others draw nothing.
      dtype: precision, "float32" or "float64" (in JAX's x64 mode). A sequence form has its own;
        outcome and external sampling learn in float32.
      max_histories: refuse games with a larger tree.

    Returns:
      The average policies, with their values and their exact exploitability.

    Raises:
      ValueError: unknown game or solver, a bad parameter, or a solver that cannot be used on this
        game.
      TreeTooLargeError: the game has more than `max_histories` histories.
    """
    settings = solver_by_name(solver)
    if isinstance(settings, LinearProgram):
        if num_iterations is not None:
            raise ValueError(
                f"num_iterations={num_iterations}: {solver} does not iterate; allowed: None"
            )
    elif num_iterations is None:
        num_iterations = DEFAULT_ITERATIONS
    else:
        at_least(1, num_iterations=num_iterations)
    compiled = compile_game(game, dtype=dtype, max_histories=max_histories)
    prepared = prepare_solver(settings, compiled, seed=seed)
    state = prepared.run(prepared.initial_state, jnp.int32(num_iterations or 0))
    policy = prepared.average_policy(state)
    values, nash_conv = evaluation.values_and_nash_conv(compiled.sequence_form, policy)
    return Solution(
        solver=solver,
        num_iterations=num_iterations,
        policy=policy,
        values=np.asarray(values),
        nash_conv=float(nash_conv),
        compiled=compiled,
    )


def compile_game(
    game: str | Game | GameTree | SequenceForm,
    *,
    dtype: str = "float32",
    max_histories: int = MAX_HISTORIES,
) -> CompiledGame:
    """Compiles a game for tabular solvers, from whatever is known of it.

    Args:
      game: a name, a game, its tree, or its sequence form.
      dtype: precision of the sequence form, "float32" or "float64"; ignored if it is given.
      max_histories: refuse games with a larger tree.

    Returns:
      The sequence form, with the tree and the game as far as they are known.

    Raises:
      ValueError: unknown game or bad `dtype`.
      TreeTooLargeError: the game has more than `max_histories` histories.
    """
    if isinstance(game, SequenceForm):
        return CompiledGame(sequence_form=game)
    if isinstance(game, str):
        game = make(game, max_histories=max_histories)
    tree = game if isinstance(game, GameTree) else enumerate_game(game, max_histories=max_histories)
    return CompiledGame(
        sequence_form=build_sequence_form(tree, dtype=dtype),
        tree=tree,
        game=None if isinstance(game, GameTree) else game,
    )
