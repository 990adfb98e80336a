"""The contract of belief-level games: what search needs of a game too large to enumerate.

A *public state* is what everybody knows. In it each player p is in one of at most N_p information
states, its *rows* (padded to N_p), and has an own reach for each of them: the product of the
player's own action probabilities on the way there. A game tells how rows of a public state lead to
rows of its public children. `down` carries reaches to a child; `up`, its transpose, carries
counterfactual values back. Several rows may lead to one (merged information states: in Scotland
Yard, how Mr X came to his station no longer matters).

Chance is in the *weight* `W[n0, n1]` of a pair of rows: chance's probability, from the root on, of
the world states that the pair stands for.

All games here have two players and are zero-sum. What both players have is a pair of arrays, whose
sizes may differ: reaches and values `([N0], [N1])`, policies `([A0, N0], [A1, N1])`. Of a pair of
policies only the one of who acts counts.
"""

from __future__ import annotations

import abc

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxgames.arrays import at
from jaxgames.game_tree import GameTree

PublicState = PyTree  # a game's own record of arrays
Rows = tuple[Bool[Array, " N0"], Bool[Array, " N1"]]
Reach = tuple[Float[Array, " N0"], Float[Array, " N1"]]
Values = tuple[Float[Array, " N0"], Float[Array, " N1"]]
Policy = tuple[Float[Array, "A0 N0"], Float[Array, "A1 N1"]]


class BeliefGame(abc.ABC):
    """A game at the level of public states and beliefs.

    Subclasses are records (`jaxgames.core.record`): their arrays are leaves, so that a game is an
    argument of jitted functions. All methods are pure functions of one unbatched public state.
    Sizes are static: N_p rows and A_p actions of player p, at most K public children, F features.

    In rows that do not exist (`rows` is False) reaches and values are 0. `check_belief_game` tests
    an implementation.
    """

    # Static fields of every subclass, declared with `flax.struct.field(pytree_node=False)`.
    name: str
    num_rows: tuple[int, int]  # N0 and N1
    num_actions: tuple[int, int]  # A0 and A1
    num_children: int  # K
    max_depth: int  # public states on the longest path below the root

    @property
    def most_legal(self) -> int:
        """The most children that any state of a game has, as far as is known; search trees have
        room for them. At most K."""
        return self.num_children

    @abc.abstractmethod
    def root(self) -> PublicState:
        """The first public state after what chance deals in secret at the start."""

    def random_root(self, key: Key[Array, ""]) -> PublicState:
        """The root of a new game, where chance deals openly before it; else always `root()`.

        Args:
          key: consumed.
        """
        return self.root()

    @abc.abstractmethod
    def actor(self, state: PublicState) -> Int[Array, ""]:
        """0, 1, CHANCE or TERMINAL."""

    @abc.abstractmethod
    def rows(self, state: PublicState) -> Rows:
        """Which rows of each player stand for an information state."""

    @abc.abstractmethod
    def legal(self, state: PublicState) -> tuple[Bool[Array, "A0 N0"], Bool[Array, "A1 N1"]]:
        """Legal actions in the rows of the actor; all False for a player who does not act."""

    @abc.abstractmethod
    def children(self, state: PublicState) -> PublicState:
        """All public children, stacked on a leading axis K."""

    def child(self, state: PublicState, number: Int[Array, ""] | int) -> PublicState:
        """One public child; games override this where it is cheaper than making all of them."""
        return at(self.children(state), number)

    @abc.abstractmethod
    def child_mask(self, state: PublicState) -> Bool[Array, " K"]:
        """Which of the K children exist; none do below a terminal."""

    @abc.abstractmethod
    def down(
        self,
        state: PublicState,
        child: Int[Array, ""] | int,
        reach: Reach,
        policy: Policy,
    ) -> Reach:
        """Own reaches of both players in a child, from those in `state`.

        Args:
          state: a public state that is not terminal.
          child: number of the child; in a child that does not exist all reaches are 0.
          reach: own reaches of both players in `state`.
          policy: action probabilities, of which only the actor's count.

        Returns:
          Reaches. They are linear in `reach`, and the actor's are linear in its policy.
        """

    @abc.abstractmethod
    def up(
        self, state: PublicState, values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]]
    ) -> tuple[Policy, Values]:
        """Counterfactual values in `state` from those in its children: the transpose of `down`.

        Args:
          state: a public state that is not terminal.
          values: of both players in the children, 0 in children and rows that do not exist.

        Returns:
          Both players' values `([A0, N0], [A1, N1])` of their actions (unspecified for who does not
          act), and their values as if they did not act (unspecified for the actor).
        """

    @abc.abstractmethod
    def follow(
        self, state: PublicState, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        """The pair of rows that a pair of rows becomes in each child.

        Args:
          state: a public state that is not terminal.
          pair: a row of either player.
          action: what the actor plays; irrelevant at chance states.

        Returns:
          Rows `[K, 2]`, -1 in children that are impossible for this pair and action.
        """

    @abc.abstractmethod
    def weight(self, state: PublicState, pair: Int[Array, "2"]) -> Float[Array, ""]:
        """The weight W of a pair of rows; 0 if chance makes it impossible."""

    @abc.abstractmethod
    def compatible(
        self, state: PublicState, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        """For each row of `player`, 0 or 1, the sum of W times reach over the opponent's rows."""

    @abc.abstractmethod
    def terminal_values(
        self, state: PublicState, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        """Counterfactual values of `player`, 0 or 1, at a terminal; unspecified elsewhere."""

    @abc.abstractmethod
    def encode(self, state: PublicState) -> Float[Array, " F"]:
        """Features of the public state for networks."""

    # What searches need to know of a game to lay out their trees. The defaults suit any game; with
    # more, searches are faster.

    # Whether rows keep their numbers in all children where player 0 acts, where player 1 acts, and
    # where chance moves; and the action that leads to each child of a decision where they do.
    straight: tuple[bool, bool, bool] = (False, False, False)
    action_of_child: tuple[int, ...] = ()
    # Bounds on the public states of the game that are no terminals, and that are.
    most_states: tuple[int | None, int | None] = (None, None)
    terminal_kinds: int = 1  # terminals are valued kind by kind

    @property
    def has_perfect_information(self) -> bool:
        """Whether there is one row of each player, no chance, and child k is where action k
        leads."""
        sizes = self.num_rows == (1, 1) and self.num_actions == (self.num_children,) * 2
        numbers = self.action_of_child == (*range(self.num_children),)
        return sizes and numbers and all(self.straight[:2])

    def terminal_kind(self, state: PublicState) -> Int[Array, ""]:
        """The kind of a terminal; unspecified at other states."""
        return jax.numpy.int32(0)

    def terminal_page(
        self,
        kind: Int[Array, ""],
        states: PublicState,
        reach: tuple[Float[Array, "C N0"], Float[Array, "C N1"]],
    ) -> tuple[Float[Array, "C N0"], Float[Array, "C N1"]]:
        """Counterfactual values of both players at C terminals of one kind."""
        values = [
            jax.vmap(self.terminal_values, (0, None, 0))(states, p, reach[1 - p]) for p in range(2)
        ]
        return values[0], values[1]

    # The same for callers who know which actions are legal, which children exist, and which rows
    # these have, as searches do. Other entries are unspecified. `actor` is who acts in the state,
    # 0, 1 or CHANCE, and is known when programs are compiled.

    def known_down(
        self, actor: int, state: PublicState, reach: Reach, policy: Policy
    ) -> tuple[Float[Array, "K N0"], Float[Array, "K N1"]]:
        """`down` into all children; `policy` is 0 at illegal actions."""
        child = jax.numpy.arange(self.num_children, dtype=jax.numpy.int32)
        return jax.vmap(lambda k: self.down(state, k, reach, policy))(child)

    def known_up(
        self,
        actor: int,
        state: PublicState,
        values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """What counts of `up`: the actor's values of its actions, and the values of who does not
        act."""
        actions, seen = self.up(state, values)
        return tuple(actions[p] if p == actor else seen[p] for p in range(2))

    def known_follow(
        self, actor: int, state: PublicState, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        """`follow`; rows that a child does not have need not be -1."""
        return self.follow(state, pair, action)

    @property
    def merges_rows(self) -> bool:
        """Whether several information states may become one row, so that tables are made of this
        game and not of its histories."""
        return False

    @property
    def seen_by_mover(self) -> bool:
        """Whether features are what the player to move sees, who is the last of them, 0 or 1."""
        return False

    @property
    def move_planes(self) -> int:
        """Kinds of moves from a square of the board, if an action is a square (column by column,
        each from the mover's side on) and a kind; else 0."""
        return 0

    @property
    def board(self) -> tuple[int, ...] | None:
        """The shape of the board that the features begin with, or None if there is none."""
        return None

    def history_places(
        self, tree: GameTree, table: BeliefGame
    ) -> tuple[Int[np.ndarray, " H"], Int[np.ndarray, "H 2"]]:
        """Where histories are in this game's tables; for games that merge information states.

        Args:
          tree: the H histories of the rules behind this game.
          table: `tabulate` of this game.

        Returns:
          The public state's number `[H]` and both players' rows `[H, 2]`, -1 before the root.

        Raises:
          NotImplementedError: the game does not implement it.
        """
        raise NotImplementedError(
            f"{self.name} merges information states and does not implement history_places"
        )
