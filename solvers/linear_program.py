"""Exact equilibria of two-player zero-sum games by sequence-form linear programming.

Koller, Megiddo, von Stengel (1996). Solved on the host in float64 by HiGHS through SciPy: the
oracle that the iterative solvers are tested against.
"""

from __future__ import annotations

import jax
import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Float

from solvers.sequence_form import Histories, SequenceForm, checked_histories
from solvers.sequence_form.treeplex import Treeplex


def solve(tree: SequenceForm) -> tuple[float, tuple[Float[np.ndarray, "_ A"], ...]]:
    """Value to player 0 and an equilibrium, by player `[D_p, A]`.

    The tree must start at a single root sequence per player (a whole game).

    Raises:
      ValueError: the game is not an explicit tree, not for two players or not zero-sum, or it is a
        subgame with several root sequences.
      RuntimeError: HiGHS did not find the optimum.
    """
    histories = checked_histories(tree, "linear_program.solve")
    _check(tree, histories)
    row, column = np.asarray(histories.payoff_sequences)
    payoffs = np.asarray(histories.payoffs, np.float64)
    shape = tuple(player.num_sequences for player in tree.treeplexes)
    values, policies = [], []
    for p, (own, other) in enumerate(((row, column), (column, row))):
        matrix = scipy.sparse.coo_array((payoffs[:, p], (own, other)), (shape[p], shape[1 - p]))
        value, reach = _maximin(matrix.tocsr(), tree.treeplexes[p], tree.treeplexes[1 - p])
        values.append(value)
        policies.append(_behaviour(tree, tree.treeplexes[p], reach))
    return float((values[0] - values[1]) / 2), tuple(policies)


def _check(tree: SequenceForm, histories: Histories) -> None:
    if tree.num_players != 2:
        raise ValueError(f"{tree.game} has {tree.num_players} players; the program needs 2")
    if any(player.num_roots != 1 for player in tree.treeplexes):
        raise ValueError(f"{tree.game}: subgames with several root sequences are not supported")
    total = np.asarray(histories.payoffs, np.float64).sum(axis=1)
    scale = max(1.0, float(np.abs(histories.payoffs).max()))
    if np.abs(total).max() > 1e-6 * scale:
        raise ValueError(
            f"{tree.game} is not zero-sum: payoffs differ by {np.abs(total).max():.3g}"
        )


def _maximin(payoff, own: Treeplex, other: Treeplex) -> tuple[float, np.ndarray]:
    """max over own x, and values v of the other's information sets, of v[root] such that
    E x = e and F^T v <= payoff^T x, where E x = e and F y = e say what a sequence plan is."""
    (e, start), (f, _) = _plan_constraints(own), _plan_constraints(other)
    sizes = (own.num_sequences, f.shape[0])
    objective = np.zeros(sum(sizes))
    objective[sizes[0]] = -1.0
    found = scipy.optimize.linprog(
        objective,
        A_ub=scipy.sparse.hstack([-payoff.T, f.T]).tocsr(),
        b_ub=np.zeros(other.num_sequences),
        A_eq=scipy.sparse.hstack([e, scipy.sparse.csr_array((e.shape[0], sizes[1]))]).tocsr(),
        b_eq=start,
        bounds=[(0, None)] * sizes[0] + [(None, None)] * sizes[1],
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"HiGHS found no optimum: {found.message}")
    return -found.fun, found.x[: sizes[0]]


def _plan_constraints(player: Treeplex):
    """Rows: the root has weight 1; a decision's actions have together its parent's weight; padded
    sequences have none."""
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
    """Every group with its first row and the first row of the level above."""
    above = 0
    for level in player.levels:
        first = level.begin
        for group in level.groups:
            yield group, first, above
            first += group.uniform.size
        above = level.begin


def _behaviour(tree, player, reach):
    policy = np.zeros((player.num_decisions, tree.num_actions))
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
