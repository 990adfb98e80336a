"""A counterfactual value-and-policy network for games of perfect information.

In chess and Go, Student of Games has AlphaZero's network (Schmid et al. 2023, supplement, "Network
Architecture and Optimization"). It sees a position as the player to move does, and says what it is
worth to them and what they should do. So what it learns of one player's positions holds for the
other's. Ranges do not go in: they are known where nothing is hidden (Table S1).
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from jaxgames.beliefs.contract import BeliefGame
from nets.alphazero_network import AlphaZeroNetwork
from nets.parameters import check_sizes
from nets.ranges import Logits, Ranges
from nets.value_prior import ValuePrior, new_value_prior


class PositionNetwork(nnx.Module):
    """Values `[1]` and policy logits `[A, 1]` of either player, as those of `nets.Cvpn`.

    Features are seen by the player to move, who is the last of them.
    """

    def __init__(self, mover: ValuePrior | AlphaZeroNetwork):
        """Makes a network.

        Args:
          mover: says the value to the player to move, and logits of what they do.
        """
        self.mover = mover

    def __call__(self, features: Float[Array, "*B F"], ranges: Ranges) -> tuple[Ranges, Logits]:
        """Values per unit of compatible opponent reach, and logits of all actions, which are the
        same for both players: those of who acts count."""
        value, logits = self.mover(features)
        first = (value * (1 - 2 * features[..., -1]))[..., None]
        return (first, -first), (logits[..., None], logits[..., None])

    def check_fits(self, game: BeliefGame, features: Float[Array, " F"] | None = None) -> None:
        """Checks that the network has the sizes of a game; they are known when a program is traced.

        Args:
          game: the game.
          features: of one of its public states; None: their number is not checked.

        Raises:
          ValueError: the sizes are those of another game, or the parameters of another network.
        """
        allowed = {"num_actions": max(game.num_actions)}
        if features is not None:
            allowed["num_features"] = features.shape[-1]
        check_sizes(self.mover, game, allowed)
        if self.mover.num_logits != self.mover.num_actions:
            raise ValueError(
                f"params are of a network with {self.mover.num_logits} actions, and do not fit the"
                f" graph of one with {self.mover.num_actions}"
            )

    can_prepare = False  # nothing is left to do when ranges are known


def new_position_network(game: BeliefGame, *, seed: int, **sizes: Any) -> PositionNetwork:
    """Makes a network of the sizes that a game asks for.

    Args:
      game: of perfect information, with `game.seen_by_mover`, such as those of `pgx_beliefs`.
      seed: of the first parameters.
      sizes: width, depth, torso and dtype, as of `new_value_prior`.

    Returns:
      The network.

    Raises:
      ValueError: another game, an unknown torso or dtype, or a size below 1.
    """
    if not game.seen_by_mover:
        raise ValueError(f"{game.name} has no features that are seen by the player to move")
    return PositionNetwork(new_value_prior(game, seed=seed, **sizes))
