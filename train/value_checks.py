"""What steps of training check in debug mode (see `jaxgames.debug`)."""

from __future__ import annotations

from typing import Any

from jaxgames.debug import require_finite


def check_training(state: Any) -> None:
    """Of a step of training: parameters of the network that learns."""
    require_finite(state.learner.params, "state.learner.params")
