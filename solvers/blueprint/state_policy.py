"""Policies by information state as policies by hand, for any number of players, and their folders.

Policies of two players are kept as blueprints (`solvers.blueprint.blueprint`), which play matches
over all pairs of hands. The decisions of more players are too many for a betting tree: here the
rows of a table are the information states of a walk through a betting graph.
"""

from __future__ import annotations

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import record
from jaxgames.files import DAMAGED_ARRAYS, write_arrays
from jaxgames.holdem.betting_graph import graph_of_rules
from jaxgames.holdem.card_abstraction import (
    BucketTables,
    CardAbstraction,
    buckets_of_deal,
    buckets_of_hands,
)
from jaxgames.holdem.ranges import ordered_hand_number
from jaxgames.holdem.rules import Poker, PokerState
from jaxgames.registry import make
from solvers.blueprint.betting_walk import BettingWalk, follow, places_of_actions, walk_of_graph
from solvers.blueprint.blueprint import (
    POLICY_FILE,
    described_buckets,
    read_description,
    write_description,
)
from solvers.blueprint.bucket_uct import ReadOut

_ACTIONS = ("fold", "call", "raise")  # of the rules, in the order of their numbers
_CHUNK = 2**20  # states that are read out at once


@record
class PolicyByState:
    """What a policy of N information states does with every hand: a function of the public state,
    and a pytree, which compiled functions take as an argument."""

    rows: Array  # [N + 1, A] probabilities of the walk's actions
    places: Array  # [E, 4] as of `places_of_actions`, of the three actions of the rules
    walk: BettingWalk
    buckets: BucketTables

    def __call__(self, state: PokerState) -> Float[Array, "1326 3"]:
        """The probabilities of the actions at a state where a player acts.

        Rows of hands that share a card with the board are unspecified.
        """
        return self._with_buckets(state, buckets_of_deal(self.buckets, state.board)[state.round])

    def of_hand(self, state: PokerState, hand: Int[Array, "2"]) -> Float[Array, "3"]:
        """The probabilities of the actions with one hand."""
        number = ordered_hand_number(jnp.min(hand), jnp.max(hand))
        bucket = buckets_of_hands(self.buckets, state.board, number[None])[state.round]
        return self._with_buckets(state, bucket)[0]

    def _with_buckets(self, state, bucket):
        """The probabilities `[n, 3]` of the actions with hands of some buckets `[n]`."""
        row, first = follow(self.walk, self.places, state.history)
        own, place = self.rows[first + bucket].astype(jnp.float32), self.places[row, :-1]
        return jnp.where(place >= 0, own[:, place], 0.0)


def write_state_policy(
    folder: pathlib.Path,
    policy: ReadOut,
    *,
    walk: BettingWalk,
    poker: Poker,
    abstraction: CardAbstraction,
    buckets: BucketTables,
) -> None:
    """Writes a learner's policy into a folder, with three digits of each probability.

    Args:
      folder: exists.
      policy: reads the learner's table.
      walk: of the game's betting graph.
      poker: the game.
      abstraction: of its cards.
      buckets: the abstraction's tables, of which the folder keeps a hash.

    Raises:
      OSError: it cannot be written.
    """
    rows = np.empty((walk.num_states + 1, walk.num_actions), np.float16)
    for begin in range(0, len(rows), _CHUNK):
        states = np.minimum(np.arange(begin, begin + _CHUNK), walk.num_states)
        read = _read_out(walk, policy, jnp.asarray(states, jnp.int32))
        rows[begin : begin + _CHUNK] = np.asarray(read)[: len(rows) - begin]
    write_arrays(folder / POLICY_FILE, rows)
    write_description(folder, poker=poker, abstraction=abstraction, buckets=buckets)


@jax.jit
def _read_out(walk, policy, states):
    return policy.rows(walk, states)


def read_state_policy(folder: pathlib.Path, poker: Poker) -> PolicyByState:
    """The policy by hand in a folder; makes its tables of buckets where they are not in the cache.

    Args:
      folder: as `write_state_policy` leaves it.
      poker: the game, which must be the policy's.

    Raises:
      ValueError: the folder holds no such policy, a damaged one, one of another version, or of
        another game; or the buckets here are not those of the policy.
      OSError: a file cannot be read.
    """
    description = read_description(folder)
    own, abstraction = make(description["game"]), CardAbstraction.parse(description["abstraction"])
    if own != poker:
        raise ValueError(f"the policy in {folder} plays {own}, not {poker}")
    graph = graph_of_rules(poker)
    walk = walk_of_graph(graph, abstraction.num_buckets)
    try:
        with np.load(folder / POLICY_FILE) as arrays:
            rows = arrays["arr_0"]
    except (*DAMAGED_ARRAYS, FileNotFoundError) as error:
        raise ValueError(f"{folder / POLICY_FILE} holds no policy: {error}") from None
    shape = walk.num_states + 1, walk.num_actions
    if rows.shape != shape:
        raise ValueError(
            f"{folder / POLICY_FILE} has an array of shape {rows.shape}; the game {poker} with"
            f" buckets {abstraction} needs {shape}"
        )
    return PolicyByState(
        rows=jnp.asarray(rows),
        places=places_of_actions(graph, _ACTIONS),
        walk=walk,
        buckets=described_buckets(folder, description, abstraction, poker),
    )
