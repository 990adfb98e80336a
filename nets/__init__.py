"""Networks (Flax NNX), and evaluators that let a search ask them.

    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> import nets
    >>> from jaxgames import make
    >>> from jaxgames.beliefs import belief_table
    >>> game = belief_table(make("kuhn_poker"))
    >>> graph, params = nnx.split(nets.new_cvpn(game, seed=0, width=16, depth=1))
    >>> evaluate = nets.CvpnEvaluator(graph)
    >>> reach = tuple(jnp.ones(rows) for rows in game.num_rows)
    >>> values, prior = evaluate(params, game, game.root(), reach)
    >>> [x.shape for x in (*values, *prior)]
    [(3,), (3,), (2, 3), (2, 3)]

A network is made by `new_...` from a game's sizes; its evaluator is made from `nnx.split(network)`
and called with the parameters, the game and a public state, so that one compiled search serves all
parameters.

- `Cvpn`, `new_cvpn`, `CvpnEvaluator`: values and policies at public belief states (Student of
  Games).
- `PositionNetwork`, `new_position_network`: the same where nothing is hidden, as AlphaZero's.
- `StationNetwork`, `new_station_network`: the same for Scotland Yard, with the map built in.
- `ValuePrior`, `AlphaZeroNetwork`, `new_value_prior`, `ValuePriorEvaluator`: a value and a prior at
  one information state (AlphaZero, learned best responses).
- `LeafValues`, `leaf_features`: what leaves of a depth-limited hold'em subgame are worth.
- `Mlp`, `ResidualMlp`, `Convolutional`, `new_torso`: their torsos.
- `MlpHead`, `new_player_networks`, `apply_player_networks`: a network for each player.
- `to_bytes` and `from_bytes`: parameters as the content of a file.
"""

from nets.alphazero_network import AlphaZeroNetwork
from nets.cvpn import Cvpn, CvpnEvaluator, new_cvpn
from nets.leaf_value_network import LeafValues, leaf_features
from nets.parameters import from_bytes, to_bytes
from nets.player_networks import MlpHead, apply_player_networks, new_player_networks
from nets.position_network import PositionNetwork, new_position_network
from nets.station_network import StationNetwork, new_station_network
from nets.torsos import Convolutional, Mlp, ResidualMlp, new_torso
from nets.value_prior import ValuePrior, ValuePriorEvaluator, new_value_prior

__all__ = [
    "AlphaZeroNetwork",
    "Convolutional",
    "Cvpn",
    "CvpnEvaluator",
    "LeafValues",
    "Mlp",
    "MlpHead",
    "PositionNetwork",
    "ResidualMlp",
    "StationNetwork",
    "ValuePrior",
    "ValuePriorEvaluator",
    "apply_player_networks",
    "from_bytes",
    "leaf_features",
    "new_cvpn",
    "new_player_networks",
    "new_position_network",
    "new_station_network",
    "new_torso",
    "new_value_prior",
    "to_bytes",
]
