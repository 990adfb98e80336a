"""The belief-level contract: what search needs of a game too large to enumerate.

A *public state* is what everybody knows. Each of the two players is in one of up to N information
states there (rows, padded), and has an own reach for each of them. The contract says how rows of a
public state and rows of its public children belong together, as linear maps downwards (reach) and
their transposes upwards (counterfactual values), and what terminals are worth. Several rows may
lead to one (merged information states: Scotland Yard forgets how Mr X came to his station).

Chance is in the *weight* `W[n0, n1]` of a pair of rows: chance's probability of the world states
that the pair stands for, from the root on. Two players, zero-sum.
"""

from __future__ import annotations

import abc

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

PublicState = PyTree  # a game's own record of arrays
Player = Int[Array, ""] | int  # 0 or 1


class BeliefGame(abc.ABC):
    """A game at the level of public states and beliefs.

    Subclasses are records (`jaxgames.core.record`): their arrays are leaves, so a game is an
    argument of jitted functions. All methods are pure functions of one unbatched public state.
    Sizes are static: N rows, A actions, K public children at most, F features.

    Rows that are not there (`rows` False) have reach 0 and value 0 wherever they are asked for.
    """

    # Static fields of every subclass, with `flax.struct.field(pytree_node=False)`.
    name: str
    num_rows: int  # N
    num_actions: int  # A
    num_children: int  # K
    max_depth: int  # public states on the longest path below the root

    @abc.abstractmethod
    def root(self) -> PublicState:
        """The first public state at which somebody acts: chance has dealt already."""

    @abc.abstractmethod
    def actor(self, state: PublicState) -> Int[Array, ""]:
        """0, 1, CHANCE or TERMINAL."""

    @abc.abstractmethod
    def rows(self, state: PublicState) -> Bool[Array, "2 N"]:
        """Which rows of either player stand for an information state."""

    @abc.abstractmethod
    def legal(self, state: PublicState) -> Bool[Array, "N A"]:
        """Legal actions in the rows of the actor; all False if nobody acts."""

    @abc.abstractmethod
    def children(self, state: PublicState) -> PublicState:
        """The public children, on a leading axis K."""

    @abc.abstractmethod
    def child_mask(self, state: PublicState) -> Bool[Array, " K"]:
        """Which of the children are there; none below a terminal."""

    @abc.abstractmethod
    def act_down(self, state: PublicState, reach: Float[Array, "N A"]) -> Float[Array, "K N"]:
        """The actor's reach in the children, from its reach of each row and action."""

    @abc.abstractmethod
    def act_up(self, state: PublicState, values: Float[Array, "K N"]) -> Float[Array, "N A"]:
        """The actor's values of each row and action, from those in the children."""

    @abc.abstractmethod
    def see_down(
        self, state: PublicState, player: Player, reach: Float[Array, " N"]
    ) -> Float[Array, "K N"]:
        """The same for a `player` who does not act here."""

    @abc.abstractmethod
    def see_up(
        self, state: PublicState, player: Player, values: Float[Array, "K N"]
    ) -> Float[Array, " N"]:
        """The same for a `player` who does not act here."""

    def down(
        self,
        state: PublicState,
        child: Int[Array, ""] | int,
        reach: Float[Array, "2 N"],
        policy: Float[Array, "A N"],
    ) -> Float[Array, "2 N"]:
        """Both players' own reaches in one child, the actor playing `policy`.

        `act_down` and `see_down` together. This and `up` are all that sweeps of a tree call:
        a game overrides them where one pass is cheaper.
        """
        actor = self.actor(state)
        acted = self.act_down(state, reach[jnp.maximum(actor, 0)][:, None] * policy.T)[child]
        seen = [self.see_down(state, p, reach[p])[child] for p in (0, 1)]
        both = [jnp.where(actor == p, acted, seen[p]) for p in (0, 1)]
        return jnp.where(self.child_mask(state)[child], jnp.stack(both), 0)

    def up(
        self, state: PublicState, values: Float[Array, "2 K N"]
    ) -> tuple[Float[Array, "A N"], Float[Array, "2 N"]]:
        """From both players' values in the children: the actor's for its actions, and what they
        are for either player if it is not the actor (for the actor, unspecified).

        Rows and children that are not there have value 0.
        """
        actions = self.act_up(state, jnp.where(self.actor(state) == 1, values[1], values[0]))
        return actions.T, jnp.stack([self.see_up(state, p, values[p]) for p in (0, 1)])

    @abc.abstractmethod
    def follow(
        self, state: PublicState, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        """The rows that a pair of rows becomes in each child if the actor plays `action`.

        -1 where that child is impossible. At chance states the action does not matter.
        """

    @abc.abstractmethod
    def weight(self, state: PublicState, pair: Int[Array, "2"]) -> Float[Array, ""]:
        """W of a pair of rows."""

    @abc.abstractmethod
    def compatible(
        self, state: PublicState, player: Player, opponent_reach: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """Sum over the opponent's rows of reach times W, for each row of `player`."""

    @abc.abstractmethod
    def terminal_values(
        self, state: PublicState, player: Player, opponent_reach: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """Counterfactual values of `player` at a terminal; unspecified elsewhere."""

    @abc.abstractmethod
    def encode(self, state: PublicState) -> Float[Array, " F"]:
        """Features of the public state for networks."""
