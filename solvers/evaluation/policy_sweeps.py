"""What expected values and best responses have in common: sweeps of policies over a sequence form.

Policies are tuples over players of arrays `[D_p, A]` (see `solvers.sequence_form.Policy`), and
`root_reach` holds each player's own reach of its root sequences `[R_p]`; None means 1 everywhere.
All functions raise `ValueError` for a policy or a root reach of the wrong shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.debug import Checked
from solvers.sequence_form import (
    Policy,
    RootReach,
    SequenceForm,
    checked_root_reach,
    pack,
    sweeps,
)
from solvers.value_checks import check_policy


class Measure(Checked):
    """A measure of policies on a sequence form: jitted, it checks its form, and in debug mode its
    other arguments, too."""

    def __init__(self, function: Callable):
        super().__init__(jax.jit(function), check_policy)

    def __call__(self, form: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(form, SequenceForm):
            raise ValueError(
                f"form is a {type(form).__name__}, must be a SequenceForm: see"
                " solvers.build_sequence_form(game)"
            )
        return super().__call__(form, *args, **kwargs)


def own_reaches(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None
) -> tuple[Array, ...]:
    """Every player's own reach of all its sequences under its policy, in rows."""
    roots = checked_root_reach(form, root_reach)
    return tuple(map(sweeps.reach, form.treeplexes, pack(form, policy), roots))


def root_values_by(
    form: SequenceForm,
    policy: Policy,
    root_reach: RootReach | None,
    *reductions: sweeps.Reduction,
) -> list[tuple[Float[Array, " _"], ...]]:
    """Counterfactual values of every player's root sequences when the others follow `policy`.

    Args:
      form, policy, root_reach: see the module.
      *reductions: the value of a player's own decision, from those of its actions: `sweeps.mean`
        follows `policy`, `sweeps.best` responds to it. All read the same payoffs of terminals.

    Returns:
      For each reduction, by player `[R_p]`.
    """
    reaches, tables = own_reaches(form, policy, root_reach), pack(form, policy)
    values = []
    for p, player in enumerate(form.treeplexes):
        terminal = sweeps.terminal_values(form, reaches, p)
        each = (sweeps.values(player, terminal, tables[p], rule)[2] for rule in reductions)
        values.append([root.ravel() for root in each])
    return [tuple(of_rule) for of_rule in zip(*values, strict=True)]


def expectation(
    form: SequenceForm, root_values: tuple[Array, ...], root_reach: RootReach | None
) -> Float[Array, " P"]:
    """Every player's counterfactual root values `[R_p]`, summed with its own reach as weights."""
    # in full precision: accelerators multiply float32 matrices in less by default
    roots = checked_root_reach(form, root_reach)
    return jnp.stack(
        [
            jnp.vdot(reach, values, precision="highest")
            for reach, values in zip(roots, root_values, strict=True)
        ]
    )
