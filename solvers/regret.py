"""Regret minimisers of the CFR family: what to play next, given what every action was worth.

A minimiser is one pure function, `update`, with its hyper-parameters closed over; it works on
`[A, n]` tables of n decisions with A action slots each. The sweep over the tree and the averaging
of policies are someone else's job (`cfr.py`).
"""

from __future__ import annotations

import abc
import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes, sum_actions
from jaxgames.core import record


@record
class RegretState:
    """Memory of a minimiser for n decisions; `policy` is what it plays next."""

    regret: Array  # [A, n]
    policy: Array  # [A, n]


class RegretMinimizer(abc.ABC):
    """Chooses policies from the regrets it is shown; frozen and hashable, so static under `jit`."""

    @abc.abstractmethod
    def update(
        self,
        state: RegretState,
        instant: Float[Array, "A n ..."],
        uniform: Float[Array, "A n ..."],
        step: Float[Array, "..."],
    ) -> RegretState:
        """State after iteration `step` = 1, 2, ... whose instantaneous regrets are `instant`.

        `uniform` is the uniform policy over legal actions, zero at padding. `step` broadcasts
        against the tables.
        """


def match(regret: Float[Array, "A ..."], uniform: Float[Array, "A ..."]) -> Float[Array, "A ..."]:
    """Regret matching (Hart and Mas-Colell 2000): positive parts normalised, else uniform."""
    uniform = append_axes(uniform, regret)
    positive = jnp.where(uniform > 0, jnp.maximum(regret, 0), 0)
    total = sum_actions(positive)
    some = total >= jnp.finfo(total.dtype).tiny  # a smaller one has no finite reciprocal
    scale = 1 / jnp.where(some, total, 1)
    return jnp.where(some[None], positive * scale[None], uniform)


@dataclasses.dataclass(frozen=True)
class RegretMatching(RegretMinimizer):
    """CFR (Zinkevich et al. 2007): sums of regrets, iteration t weighted by t**power."""

    power: float = 0.0

    def update(self, state, instant, uniform, step):
        weighted = instant if self.power == 0 else instant * step**self.power
        regret = state.regret + weighted
        return RegretState(regret=regret, policy=match(regret, uniform))


@dataclasses.dataclass(frozen=True)
class RegretMatchingPlus(RegretMinimizer):
    """CFR+ (Tammelin 2014): sums of regrets, cut at zero after every iteration.

    During the first `discounted` iterations t they are multiplied by sqrt(t) / (sqrt(t) + 1) after
    that (Brown, Sandholm and Amos 2018, appendix: 30).
    """

    discounted: int = 0

    def __post_init__(self):
        if self.discounted < 0:
            raise ValueError(f"cfr_plus: discounted={self.discounted} must be at least 0")

    def update(self, state, instant, uniform, step):
        regret = jnp.maximum(state.regret + instant, 0)
        if self.discounted:
            root = jnp.sqrt(step)
            regret = regret * jnp.where(step <= self.discounted, root / (root + 1), 1)
        return RegretState(regret=regret, policy=match(regret, uniform))


@dataclasses.dataclass(frozen=True)
class DiscountedRegretMatching(RegretMinimizer):
    """DCFR (Brown and Sandholm 2019): positive regrets times t^a/(t^a+1), negative with b."""

    alpha: float = 1.5
    beta: float = 0.0

    def __post_init__(self):
        if math.isnan(self.alpha) or math.isnan(self.beta):
            raise ValueError(f"dcfr: alpha={self.alpha} and beta={self.beta} must be numbers")

    def update(self, state, instant, uniform, step):
        regret = state.regret + instant
        # t^a/(t^a+1), written so that infinite a and b are allowed: they make CFR+ of it
        positive, negative = 1 / (1 + step**-self.alpha), 1 / (1 + step**-self.beta)
        discount = jnp.where(regret > 0, positive, negative)
        regret = regret * discount
        return RegretState(regret=regret, policy=match(regret, uniform))


@dataclasses.dataclass(frozen=True)
class PredictiveRegretMatchingPlus(RegretMinimizer):
    """PCFR+ (Farina, Kroer, Sandholm 2021): plays as if the last regrets came once more."""

    def update(self, state, instant, uniform, step):
        regret = jnp.maximum(state.regret + instant, 0)
        return RegretState(regret=regret, policy=match(regret + instant, uniform))
