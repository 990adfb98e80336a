"""Blueprints as policies by hand, which other agents and responders play against."""

from __future__ import annotations

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, record
from jaxgames.holdem.betting_tree import NO_NODE, BettingTree
from jaxgames.holdem.card_abstraction import BucketTables, buckets_of_deal, buckets_of_hands
from jaxgames.holdem.ranges import ordered_hand_number
from jaxgames.holdem.rules import CALL, FOLD, Poker, PokerState
from solvers.blueprint.blueprint import Blueprint, read_blueprint
from solvers.blueprint.bucket_game import BucketGame, Tables

_NUMBERS = {"fold": FOLD, "call": CALL, "raise": CALL + 1}  # of the rules' actions


@record
class BlueprintByHand:
    """What a blueprint does with every hand: a function of the public state, and a pytree.

    Compiled functions take it as an argument. Each of the X decisions of the betting tree has a row
    for each bucket of its street, R rows in all.
    """

    rows: Array  # [R, A] probabilities of the rules' actions
    first_row: Array  # [X] int32 of each decision
    after: Array  # [X, A + 1] int32 the next decision; the last column is the decision itself
    buckets: BucketTables

    def __call__(self, state: PokerState) -> Float[Array, "N A"]:
        """The probabilities of the actions at a state where a player acts.

        Rows of hands that share a card with the board are unspecified.
        """
        return self.on_board(state.board)(state)

    def on_board(self, board: Int[Array, " n"]) -> BlueprintOnBoard:
        """The same for states of one board, whose cards may all be given before they are dealt."""
        return BlueprintOnBoard(policy=self, bucket=buckets_of_deal(self.buckets, board))

    def of_hand(self, state: PokerState, hand: Int[Array, "2"]) -> Float[Array, " A"]:
        """The probabilities of the actions with one hand."""
        number = ordered_hand_number(jnp.min(hand), jnp.max(hand))
        bucket = buckets_of_hands(self.buckets, state.board, number[None])[state.round, 0]
        return self.rows[self.first_row[self.decision(state)] + bucket]

    def decision(self, state: PokerState) -> Int[Array, ""]:
        """The node of the betting tree that a state's actions lead to."""

        def act(node, action):
            return self.after[node, action], None  # no action is -1: the last column

        # not unrolled: XLA would fuse the steps, and compile each several times for the next one
        return jax.lax.scan(act, jnp.int32(0), state.history)[0]


@record
class BlueprintOnBoard:
    """A blueprint's policy by hand on one board."""

    policy: BlueprintByHand
    bucket: Array  # [S, 1326] int32 by street

    def __call__(self, state: PokerState) -> Float[Array, "N A"]:
        """The probabilities of the actions at a state of the board."""
        first = self.policy.first_row[self.policy.decision(state)]
        return self.policy.rows[first + self.bucket[state.round]]


def hand_policy(blueprint: Blueprint, poker: Poker) -> BlueprintByHand:
    """What a blueprint does with every hand, as a function of the public state; pure JAX.

    Args:
      blueprint: of the game.
      poker: the game, with bets of fixed sizes.

    Returns:
      Maps a state at which a player acts to the probabilities `[1326, A]` of the game's actions
      with each of the hands of `jaxgames.holdem.ranges`; rows of hands that share a card with the
      board are unspecified.

    Raises:
      ValueError: the game's bets have no fixed sizes.
    """
    if not poker.limit:
        raise ValueError(f"game {poker} must have bets of fixed sizes (limit=true)")
    rows, first_row = _rows(blueprint.game, blueprint.policy, poker.num_actions)
    return BlueprintByHand(
        rows=jnp.asarray(rows),
        first_row=jnp.asarray(first_row, jnp.int32),
        after=jnp.asarray(_decisions_after(blueprint.game.rounds.tree, poker), jnp.int32),
        buckets=blueprint.buckets,
    )


def read_hand_policy(folder: pathlib.Path, poker: Poker) -> BlueprintByHand:
    """The policy by hand of the blueprint in a folder.

    Args:
      folder: as `write_blueprint` leaves it.
      poker: the game, which must be the blueprint's.

    Raises:
      ValueError: the folder holds no blueprint, or one of another game.
      OSError: a file cannot be read.
    """
    blueprint, own = read_blueprint(folder)
    if own != poker:
        raise ValueError(f"the blueprint in {folder} plays {own}, not {poker}")
    return hand_policy(blueprint, poker)


def _rows(
    game: BucketGame, policy: Tables, num_actions: int
) -> tuple[Float[np.ndarray, "R A"], Int[np.ndarray, " X"]]:
    """The tables' probabilities decision by decision, and where each decision's rows begin."""
    tree, blocks = game.rounds.tree, []
    first, count = np.zeros(len(tree.actor), np.int64), 0
    for street, buckets in enumerate(game.num_buckets):
        for family, table in zip(game.rounds.streets[street], policy[street], strict=True):
            # [N, C, B, E] -> [M, B, C] of the M rounds
            of_rounds = np.moveaxis(np.asarray(table), 1, -1).swapaxes(1, 2)
            of_rounds = of_rounds.reshape(-1, *of_rounds.shape[2:])[: family.entries]
            for nodes, column in zip(family.nodes, family.template.first_column, strict=True):
                names = tree.actions[nodes[0]]  # those of all decisions at this place of a round
                block = np.zeros((*of_rounds.shape[:2], num_actions), np.float32)
                actions = [_NUMBERS[name] for name in names]
                block[..., actions] = of_rounds[..., column : column + len(names)]
                blocks.append(block.reshape(-1, num_actions))
                first[nodes] = count + buckets * np.arange(len(nodes))
                count += len(blocks[-1])
    return np.concatenate(blocks), first


def _decisions_after(tree: BettingTree, poker: Poker) -> Int[np.ndarray, "X A1"]:
    """The next decision after each action of the rules, NO_NODE where there is none; and after no
    action the same one."""
    after = np.full((len(tree.actor), poker.num_actions + 1), NO_NODE)
    after[:, -1] = np.arange(len(tree.actor))
    for node in np.flatnonzero(tree.actor >= 0):
        for name, child in zip(tree.actions[node], tree.child[node], strict=False):
            while tree.actor[child] == CHANCE:
                child = tree.child[child, 0]
            if tree.actor[child] >= 0:
                after[node, _NUMBERS[name]] = child
    return after
