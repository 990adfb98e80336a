"""Regret minimisers of the CFR family: what to play next, given the regrets so far.

A minimiser is one pure function, `update`, with its hyper-parameters closed over. It works on
tables `[A, n]` of n decisions with A action slots each. The sweeps over the sequence form and the
averaging of policies are done elsewhere (`cfr.py`).

Notation: r^t(s, a) = q^t(s, a) - v^t(s) is the instantaneous regret of action a at decision s in
iteration t, the counterfactual value of the action less that of the decision; R^t(s, a) is what the
minimiser accumulates; pi^(t+1) is the policy it plays next; [x]+ is max(x, 0).
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes, sum_actions
from jaxgames.core import record


@record
class RegretState:
    """Memory of a minimiser for n decisions; `policy` is what it plays next."""

    regret: Array  # [A, n] R^t
    policy: Array  # [A, n] pi^(t+1)


class RegretMinimizer(abc.ABC):
    """Chooses policies from regrets; frozen and hashable, so static under `jit`."""

    @abc.abstractmethod
    def update(
        self,
        state: RegretState,
        instant: Float[Array, "A n ..."],
        uniform: Float[Array, "A n ..."],
        step: Float[Array, "..."],
        *,
        total: Callable[[Array], Array] = sum_actions,
    ) -> RegretState:
        """The state after one more iteration.

        Args:
          state: the state before it.
          instant: instantaneous regrets r^t `[A, n, ...]`.
          uniform: the uniform policy over legal actions `[A, n]`, 0 at padding.
          step: number t = 1, 2, ... of the iteration; broadcasts against the tables.
          total: the sums over the actions of each decision `[n, ...]` from a table `[A, n, ...]`.

        Returns:
          R^t and pi^(t+1).
        """


def match(
    regret: Float[Array, "A ..."],
    uniform: Float[Array, "A ..."],
    *,
    total: Callable[[Array], Array] = sum_actions,
) -> Float[Array, "A ..."]:
    """Regret matching (Hart and Mas-Colell 2000; Zinkevich et al. 2007, equation 8).

    pi(s, a) = [R(s, a)]+ / sum_b [R(s, b)]+, or uniform where no regret is positive.

    Args:
      regret: accumulated regrets `[A, ...]`.
      uniform: the uniform policy over legal actions, 0 at padding; trailing axes may be missing.
      total: the sums over the actions of each decision `[...]` from a table `[A, ...]`.

    Returns:
      Policies `[A, ...]`.
    """
    uniform = append_axes(uniform, regret)
    positive = jnp.where(uniform > 0, jnp.maximum(regret, 0), 0)
    mass = total(positive)
    has_positive = mass >= jnp.finfo(mass.dtype).tiny  # below, the reciprocal is not finite
    scale = 1 / jnp.where(has_positive, mass, 1)
    return jnp.where(has_positive[None], positive * scale[None], uniform)


@dataclasses.dataclass(frozen=True)
class RegretMatching(RegretMinimizer):
    """CFR (Zinkevich et al. 2007): R^t = R^(t-1) + t^power r^t.

    A power of 0 is CFR, of 1 linear CFR (Brown and Sandholm 2019).
    """

    power: float = 0.0

    def update(self, state, instant, uniform, step, *, total=sum_actions):
        weighted = instant if self.power == 0 else instant * step**self.power
        regret = state.regret + weighted
        return RegretState(regret=regret, policy=match(regret, uniform, total=total))


@dataclasses.dataclass(frozen=True)
class RegretMatchingPlus(RegretMinimizer):
    """CFR+ (Tammelin 2014): R^t = [R^(t-1) + r^t]+.

    In the first `discounted` iterations R^t is then multiplied by sqrt(t) / (sqrt(t) + 1) (Brown,
    Sandholm and Amos 2018, appendix, with 30).
    """

    discounted: int = 0

    def __post_init__(self):
        if self.discounted < 0:
            raise ValueError(f"cfr_plus: discounted={self.discounted} must be at least 0")

    def update(self, state, instant, uniform, step, *, total=sum_actions):
        regret = jnp.maximum(state.regret + instant, 0)
        if self.discounted:
            root = jnp.sqrt(step)
            regret = regret * jnp.where(step <= self.discounted, root / (root + 1), 1)
        return RegretState(regret=regret, policy=match(regret, uniform, total=total))


@dataclasses.dataclass(frozen=True)
class DiscountedRegretMatching(RegretMinimizer):
    """DCFR (Brown and Sandholm 2019): R^t = (R^(t-1) + r^t) d, discounted after every iteration.

    d is t^alpha / (t^alpha + 1) where the sum is positive, and t^beta / (t^beta + 1) elsewhere.
    """

    alpha: float = 1.5
    beta: float = 0.0

    def __post_init__(self):
        if math.isnan(self.alpha) or math.isnan(self.beta):
            raise ValueError(f"dcfr: alpha={self.alpha} and beta={self.beta} must be numbers")

    def update(self, state, instant, uniform, step, *, total=sum_actions):
        regret = state.regret + instant
        # t^a / (t^a + 1), written so that infinite exponents are allowed: with inf and -inf, CFR+
        # but for the first iteration, whose regrets of both signs count half
        positive, negative = 1 / (1 + step**-self.alpha), 1 / (1 + step**-self.beta)
        discount = jnp.where(regret > 0, positive, negative)
        regret = regret * discount
        return RegretState(regret=regret, policy=match(regret, uniform, total=total))


@dataclasses.dataclass(frozen=True)
class PredictiveRegretMatchingPlus(RegretMinimizer):
    """PCFR+ (Farina, Kroer and Sandholm 2021): R^t = [R^(t-1) + r^t]+.

    The policy is regret matching of R^t + r^t: the last regrets predict the next.
    """

    def update(self, state, instant, uniform, step, *, total=sum_actions):
        regret = jnp.maximum(state.regret + instant, 0)
        return RegretState(regret=regret, policy=match(regret + instant, uniform, total=total))
