"""A counterfactual value-and-policy network for Scotland Yard that has the map built in.

Student of Games has a multilayer perceptron, for which a station is a number among others: it
learns of each station anew which others are near. Here all stations share their weights. So an
example of self-play teaches something about all stations, and the parameters do not depend on the
map. The inputs are those of the paper's network (`ScotlandYardBeliefs.encode`).

- The first hidden layer sees how far away from a station each detective is, the lines that leave
  it, and what holds for the whole board. Each further layer also sees the means of the one before
  over the stations that any moves lead to, and over those that taxis lead to.
- The last hidden layer also sees how probable it is that Mr X is there, would be there after one
  random move, and after two; and the mean of what it has of all stations over Mr X's range. It is
  the only layer that depends on the ranges: a search computes the others once for each leaf.
- The value of a station to Mr X is a number from the last hidden units. The detectives' value is
  what they expect of it: minus the mean over Mr X's range.
- The logit of Mr X's move is a number from the hidden units of the station that it leads to,
  another one for each ticket; that of a double card from the station where he is. To pass has 0.
- A detective's move also sees what all stations say, weighted by Mr X's range, in sums by how far
  they are from where the move leads: so it knows the way to a Mr X who is many moves off.
"""

from __future__ import annotations

import operator

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.checks import at_least
from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs
from jaxgames.scotland_yard.maps import BLACK, KINDS, NOWHERE, distances
from jaxgames.scotland_yard.rules import ScotlandYard
from nets import products
from nets.parameters import check_sizes
from nets.ranges import Logits, Ranges
from nets.torsos import check_layers, linear

_FAR = 6  # moves; stations that are farther away look alike
_KINDS = 3  # of probabilities of a station: now, after one random move, and after two
_TAXI = KINDS.index("taxi")  # also its ticket


class StationNetwork(nnx.Module):
    """Values `[N]` and policy logits `[A, N]` of either player, as those of `nets.Cvpn`."""

    def __init__(
        self,
        rules: ScotlandYard,
        *,
        width: int,
        depth: int,
        dtype: str,
        rngs: nnx.Rngs,
    ):
        """Makes a network with random parameters.

        Args:
          rules: of the game.
          width: hidden units of each station.
          depth: hidden layers, of which the last one sees the ranges.
          dtype: precision of the factors in products of hidden layers and of probabilities,
            "float32" or "bfloat16".
          rngs: of the parameters.

        Raises:
          ValueError: unknown dtype, a width below 1, or a depth below 2.
        """
        check_layers(width, depth, dtype)
        at_least(2, depth=depth)
        self.rules, self.dtype, count = rules, dtype, rules.detectives
        self.width = width
        # A detective's distances weigh by its place in the order of moves, and whether it has moved
        # in this round.
        self.near = nnx.Linear(2 * count * (_FAR + 1), width, use_bias=False, rngs=rngs)
        self.lines = nnx.Linear(BLACK + 1, width, use_bias=False, rngs=rngs)
        board = sum(self._parts) + rules.rounds + 1
        self.board = nnx.Linear(board, width, rngs=rngs)
        self.layers = nnx.List(
            linear(3 * width, width, rngs=rngs, dtype=dtype) for _ in range(1, depth)
        )
        self.belief = nnx.Linear(_KINDS, width, use_bias=False, rngs=rngs)
        self.expected = nnx.Linear(width, width, use_bias=False, rngs=rngs)
        self.value = nnx.Linear(width, 1, rngs=rngs)
        self.mr_x = nnx.Linear(width, BLACK + 2, rngs=rngs)  # by ticket, and for a double card
        self.chased = nnx.Linear(width, width, rngs=rngs)
        self.chase = nnx.Linear((_FAR + 1) * width, width, use_bias=False, rngs=rngs)
        self.arrive = nnx.Linear(width, width, rngs=rngs)
        self.detective = nnx.Linear(width, BLACK, rngs=rngs)

    def __call__(self, features: Float[Array, "*B F"], ranges: Ranges) -> tuple[Ranges, Logits]:
        """Values per unit of compatible opponent reach, and logits of all actions."""
        if features.ndim > 1:
            return jax.vmap(self)(features, ranges)
        prepared = self.prepare(features)
        hidden = jax.nn.relu(jnp.stack([*self._last(prepared, ranges[0])]).T)
        return self.prepared_values(prepared, ranges), self._logits(features, hidden, ranges[0])

    def check_fits(self, game: BeliefGame, features: Float[Array, " F"] | None = None) -> None:
        """Checks that the network was made for a game.

        Args:
          game: the game.
          features: of one of its public states, which follow from the game.

        Raises:
          ValueError: it was made for another game, or the parameters are of another network.
        """
        check_sizes(self, game, {"rules": getattr(game, "game", None)})
        found, expected = self.belief.kernel.shape[-1], self.width
        if found != expected:
            raise ValueError(
                f"params are of a network of width {found}, and do not fit the graph of one of"
                f" width {expected}"
            )

    can_prepare = True

    def prepare(self, features: Float[Array, " F"]) -> Float[Array, "W N"]:
        """The last layer's sums over what does not depend on the ranges."""
        hidden, size = self._first(features), self.rules.num_stations
        spread = jnp.asarray(_neighbours(self.rules.moves))  # [2 N, N]
        for layer in self.layers:
            hidden = jax.nn.relu(hidden)
            means = products.dot(spread, hidden, self.dtype)
            hidden = layer(jnp.concatenate([hidden, means[:size], means[size:]], axis=1))
        return hidden.T

    def prepared_values(self, prepared: Float[Array, "W N"], ranges: Ranges) -> Ranges:
        """The values of `__call__`, from `prepare` of the features."""
        weights, his = self.value.kernel[...][:, 0], self.value.bias[...]
        for weight, sums in zip(weights, self._last(prepared, ranges[0]), strict=True):
            his += weight * jax.nn.relu(sums)
        return his, -jnp.sum(ranges[0] * his, keepdims=True)

    @property
    def _parts(self):
        """Numbers of features after the detectives' stations: cards, turn, double card, round."""
        count = self.rules.detectives
        return BLACK * count + BLACK + 2, 1 + count, 1, 1

    def _detectives(self, features):
        """The detectives' stations `[D]`."""
        size = self.rules.detectives, self.rules.num_stations
        where = features[: size[0] * size[1]].reshape(size)
        return jnp.argmax(where, axis=1)

    def _turn(self, features):
        """Who moves: 0 is Mr X, also while he shows himself."""
        _, turn, *after = self._parts
        end = len(features) - sum(after)
        return jnp.argmax(features[end - turn : end]).astype(jnp.int32)

    def _first(self, features):
        """The first layer's sums `[N, W]`."""
        rules = self.rules
        # Each detective's place in the order of moves, and after them those who have moved.
        number = jnp.arange(rules.detectives, dtype=jnp.int32)
        ahead = number - jnp.maximum(self._turn(features) - 1, 0)
        place = jnp.where(ahead >= 0, ahead, rules.detectives + number)
        weights = self.near.kernel[...].reshape(2 * rules.detectives, _FAR + 1, -1)[place]
        is_far = self._is_far(self._detectives(features), features.dtype)
        near = jnp.einsum("dnk,dkw->nw", is_far, weights)
        played = jnp.round(features[-1] * rules.rounds).astype(jnp.int32)
        played = jax.nn.one_hot(played, rules.rounds + 1, dtype=features.dtype)
        board = self.board(jnp.concatenate([features[-sum(self._parts) :], played]))
        return near + self.lines(jnp.asarray(_lines(rules.moves))) + board[None]

    def _last(self, prepared, mr_x):
        """The last layer's sums `[N]`, unit after unit.

        A search spends most of its time here. So written, XLA makes one loop over the stations of
        this layer and of the values, which keeps nothing in memory: on CPUs many times as fast as
        products of matrices.
        """
        spread = jnp.asarray(_random_moves(self.rules.moves))  # [N, 2 N]
        moved = products.dot(mr_x, spread, self.dtype)
        belief = jnp.sqrt(jnp.concatenate([mr_x, moved]).reshape(_KINDS, -1))
        expected = self.expected(prepared @ mr_x)
        for sums, unit, weights in zip(prepared, expected, self.belief.kernel[...].T, strict=True):
            yield sums + unit + sum(map(operator.mul, weights, belief))

    def _is_far(self, stations, dtype):
        """One-hot distances, in moves, of each station from some `[S, N, distances]`."""
        distance = jnp.asarray(np.minimum(distances(self.rules.map), _FAR))[stations]
        return jax.nn.one_hot(distance, _FAR + 1, dtype=dtype)

    def _logits(self, features, hidden, mr_x):
        table, passing = self.rules.moves, self.rules.num_open
        to, ticket = np.where(table.to == NOWHERE, 0, table.to), table.ticket
        his = self.mr_x(hidden)  # [N, tickets and double card]
        his = jnp.concatenate([his[to, ticket].T, his[None, :, -1]])
        mover = jnp.maximum(self._turn(features) - 1, 0)
        station = self._detectives(features)[mover]
        to, ticket = (jnp.asarray(x)[station, :passing] for x in (to, ticket))
        # What stations say of Mr X being there, in sums by their distances from where moves lead.
        says = mr_x[:, None] * jax.nn.relu(self.chased(hidden))
        sums = jnp.einsum("snk,nw->skw", self._is_far(to, mr_x.dtype), says)
        there = jax.nn.relu(self.arrive(hidden[to]) + self.chase(sums.reshape(passing, -1)))
        theirs = self.detective(there)[jnp.arange(passing), jnp.minimum(ticket, BLACK - 1)]
        return his, jnp.pad(theirs, (0, 1))[:, None]


def new_station_network(
    game: ScotlandYardBeliefs,
    *,
    seed: int,
    width: int = 16,
    depth: int = 3,
    dtype: str = "float32",
) -> StationNetwork:
    """Makes a network for a game.

    Args:
      game: the belief-level game.
      seed: of the first parameters.
      width: hidden units of each station.
      depth: hidden layers.
      dtype: precision of the factors in products of hidden layers and of probabilities, "float32"
        or "bfloat16".

    Returns:
      The network.

    Raises:
      ValueError: unknown dtype, a width below 1, or a depth below 2.
    """
    return StationNetwork(game.game, width=width, depth=depth, dtype=dtype, rngs=nnx.Rngs(seed))


def _lines(table):
    """Lines that leave each station `[N, tickets]`, in tens."""
    exists = table.to != NOWHERE
    lines = [np.sum(exists & (table.ticket == t), axis=1) for t in range(BLACK + 1)]
    return np.stack(lines, axis=1).astype(np.float32) / 10


def _random_moves(table):
    """Where one and two moves by random lines lead, side by side `[N, 2 N]`."""
    once = _means(table, table.to != NOWHERE)
    return np.concatenate([once, once @ once], axis=1)


def _neighbours(table):
    """Matrix `[2 N, N]` of means over the stations that any moves lead to, and that taxis do."""
    exists = table.to != NOWHERE
    return np.concatenate([_means(table, exists), _means(table, exists & (table.ticket == _TAXI))])


def _means(table, counted):
    """Matrix `[N, N]` of means over the stations that the counted moves `[N, slots]` lead to."""
    size, (station, slot) = len(table.to), np.nonzero(counted)
    moves = np.zeros((size, size), np.float32)
    np.add.at(moves, (station, table.to[station, slot]), 1)
    return moves / np.maximum(moves.sum(axis=1, keepdims=True), 1)
