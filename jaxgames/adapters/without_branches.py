"""Steps of pgx's environments without branches."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxgames.arrays import choose


class WithoutBranches:
    """A base of environments that step like `pgx.core.Env`, which has branches. XLA computes all
    branches of a batch, and in them a product with a constant once for every game."""

    def step(self, state: Any, action: Int[Array, ""], key: Any = None) -> Any:
        """The state after an action; a loss for an illegal one, as in pgx."""
        moved = self._step(state.replace(_step_count=state._step_count + 1), action, key)
        over = state.terminated | state.truncated
        after = choose(over, state.replace(rewards=jnp.zeros_like(moved.rewards)), moved)
        lost = self._step_with_illegal_action(after, state.current_player)
        after = choose(state.legal_action_mask[action], after, lost)
        after = after.replace(legal_action_mask=after.legal_action_mask | after.terminated)
        return after.replace(observation=self.observe(after))
