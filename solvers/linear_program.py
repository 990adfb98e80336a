"""Exact equilibria of two-player zero-sum games by sequence-form linear programming.

The program is that of Koller, Megiddo and von Stengel (1996). HiGHS solves it through SciPy, on the
host and in float64. The iterative solvers are tested against it.
"""

from __future__ import annotations

import jax
import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Float

from solvers.sequence_form import Histories, SequenceForm, checked_histories
from solvers.sequence_form.treeplex import Treeplex


def solve(form: SequenceForm) -> tuple[float, tuple[Float[np.ndarray, "_ A"], ...]]:
    """The value of a game to player 0, and an equilibrium.

    Args:
      form: the sequence form of an explicit tree with a single root sequence per player, so of a
        whole game.

    Returns:
      The value to player 0, and policies `[D_p, A]` by player.

    Raises:
      ValueError: the form is not of an explicit tree, the game is not for two players or not
        zero-sum, or it is a subgame with several root sequences.
      RuntimeError: HiGHS did not find the optimum.
    """
    histories = checked_histories(form, "linear_program.solve")
    _check(form, histories)
    row, column = np.asarray(histories.payoff_sequences)
    payoffs = np.asarray(histories.payoffs, np.float64)
    shape = tuple(player.num_sequences for player in form.treeplexes)
    values, policies = [], []
    for p, (own, other) in enumerate(((row, column), (column, row))):
        matrix = scipy.sparse.coo_array((payoffs[:, p], (own, other)), (shape[p], shape[1 - p]))
        value, reach = _maximin(matrix.tocsr(), form.treeplexes[p], form.treeplexes[1 - p])
        values.append(value)
        policies.append(_behaviour(form, form.treeplexes[p], reach))
    return float((values[0] - values[1]) / 2), tuple(policies)


def _check(form: SequenceForm, histories: Histories) -> None:
    if form.num_players != 2:
        raise ValueError(f"{form.game} has {form.num_players} players; the program needs 2")
    if any(player.num_roots != 1 for player in form.treeplexes):
        raise ValueError(f"{form.game}: subgames with several root sequences are not supported")
    total = np.asarray(histories.payoffs, np.float64).sum(axis=1)
    if np.abs(total).max() > 1e-6 * np.abs(histories.payoffs).max():
        raise ValueError(f"{form.game} is not zero-sum: payoffs sum to {np.abs(total).max():.3g}")


def _maximin(payoff, own: Treeplex, other: Treeplex) -> tuple[float, np.ndarray]:
    """The value that a player can guarantee, and a realisation plan [Q] that guarantees it.

    The maximum over the player's plans x, and values v of the other's information sets, of v[root]
    such that E x = e and F^T v <= payoff^T x, where E x = e and F y = e define the two players'
    realisation plans (Koller et al. 1996, section 4).
    """
    (e, start), (f, _) = _plan_constraints(own), _plan_constraints(other)
    sizes = (own.num_sequences, f.shape[0])
    objective = np.zeros(sum(sizes))
    objective[sizes[0]] = -1.0
    optimum = scipy.optimize.linprog(
        objective,
        A_ub=scipy.sparse.hstack([-payoff.T, f.T]).tocsr(),
        b_ub=np.zeros(other.num_sequences),
        A_eq=scipy.sparse.hstack([e, scipy.sparse.csr_array((e.shape[0], sizes[1]))]).tocsr(),
        b_eq=start,
        bounds=[(0, None)] * sizes[0] + [(None, None)] * sizes[1],
        method="highs",
    )
    if optimum.status != 0:
        raise RuntimeError(f"HiGHS found no optimum: {optimum.message}")
    return -optimum.fun, optimum.x[: sizes[0]]


def _plan_constraints(player: Treeplex):
    """The matrix E and the right-hand side e of a player's realisation plans, E x = e.

    One row says that the root sequence has weight 1; one row for each decision, that its actions
    together have the weight of its parent sequence; one for each padded sequence, that its weight
    is 0.
    """
    rows, columns, values = [np.zeros(1, int)], [np.zeros(1, int)], [np.ones(1)]
    count = 1
    for group, first, above in _groups(player):
        slots = first + np.arange(group.uniform.size).reshape(group.uniform.shape)
        decision = count + np.arange(group.num_decisions)
        rows += [np.broadcast_to(decision, slots.shape).ravel(), decision]
        columns += [slots.ravel(), above + np.asarray(group.parent.index)]
        values += [np.ones(slots.size), -np.ones(group.num_decisions)]
        count += group.num_decisions
        padded = slots[np.asarray(group.uniform) == 0]
        rows.append(count + np.arange(len(padded)))
        columns.append(padded)
        values.append(np.ones(len(padded)))
        count += len(padded)
    table = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    start = np.zeros(count)
    start[0] = 1.0
    return scipy.sparse.csr_array(table, shape=(count, player.num_sequences)), start


def _groups(player: Treeplex):
    """Every group, with the first sequence of the group and of the level above."""
    above = 0
    for level in player.levels:
        first = level.begin
        for group in level.groups:
            yield group, first, above
            first += group.uniform.size
        above = level.begin


def _behaviour(form, player, reach):
    """The policy [D, A] of a realisation plan; uniform where the plan is 0."""
    policy = np.zeros((player.num_decisions, form.num_actions))
    for group, first, _ in _groups(player):
        group = jax.tree.map(np.asarray, group)
        weight = np.maximum(reach[first : first + group.uniform.size], 0)
        weight = weight.reshape(group.uniform.shape)
        total = weight.sum(axis=0)
        table = np.where(total > 0, weight / np.where(total > 0, total, 1), group.uniform)
        legal = group.uniform > 0
        states = np.broadcast_to(group.decision, legal.shape)
        policy[states[legal], group.action[legal]] = table[legal]
    return policy
