"""The part of a hold'em tree that follows a node of its first street, as a tree of its own."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.holdem.betting_from_sizes import subtree
from jaxgames.holdem.betting_tree import descendants
from solvers.holdem.subgame_spec import ranges_of_all_hands
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree
from solvers.sequence_form import Policy

# A policy of a part of a tree, which may have fewer decisions and another number of actions.
PartPolicy = tuple[Float[Array | np.ndarray, "_ B"], ...]
# By player: decisions of the whole tree, and the corresponding decisions of the part.
DecisionPairs = tuple[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]], ...]


@dataclasses.dataclass(frozen=True)
class SubgamePart:
    """The part of a tree that follows a node of its first street."""

    whole: HoldemTree
    tree: HoldemTree
    node: int  # of the whole tree's betting

    def embed(self, policy: PartPolicy, whole: Policy) -> Policy:
        """Policies of the whole tree that are `policy` in this part, and `whole` elsewhere."""
        return embed_policy(self._decisions, policy, whole)

    @functools.cached_property
    def _decisions(self) -> DecisionPairs:
        nodes = descendants(self.whole.betting, self.node)
        return tuple(_same_decisions(self.whole, self.tree, nodes, player) for player in range(2))


def subgame_part(tree: HoldemTree, node: int, *, storage: str = "full") -> SubgamePart:
    """Builds the part of a tree that follows a decision or a deal of its first street.

    Args:
      tree: the whole tree.
      node: of its betting tree.
      storage: of the solver's state, as in `build_holdem_tree`.

    Returns:
      The part, which has the hands, ranges and boards of the whole tree.

    Raises:
      ValueError: the node is not on the first street, or the hand is over there.
      TreeTooLargeError: as `build_holdem_tree`.
    """
    if tree.betting.street[node] != 0:
        raise ValueError(f"node={node} must be of the first street")
    part = build_holdem_tree(
        tree.board,
        tree.all_hands,
        ranges_of_all_hands(tree.all_hands, tree.hands, tree.ranges),
        subtree(tree.betting, node),
        deals=tree.deals,
        deck=tree.deck,
        dtype=tree.sequence_form.dtype.name,
        isomorphism=tree.isomorphism,
        showdowns=tree.showdowns,
        storage=storage,
    )
    return SubgamePart(whole=tree, tree=part, node=node)


def embed_policy(decisions: DecisionPairs, policy: PartPolicy, whole: Policy) -> Policy:
    """Replaces rows of policies.

    Args:
      decisions: the rows of `whole` to replace, and the rows of `policy` to replace them by.
      policy: the policies to embed.
      whole: the policies elsewhere.
    """
    embedded = []
    for (into, of), inner, outer in zip(decisions, policy, whole, strict=True):
        width = min(inner.shape[1], outer.shape[1])
        rows = jnp.zeros((len(of), outer.shape[1]), outer.dtype)
        rows = rows.at[:, :width].set(jnp.asarray(inner, outer.dtype)[of, :width])
        embedded.append(jnp.asarray(outer).at[into].set(rows))
    return tuple(embedded)


def _same_decisions(whole, part, nodes, player):
    """A player's decisions in the whole tree, and the same decisions in the part; `nodes` are the
    part's betting nodes in the whole tree."""
    outer, inner, hands = whole.layouts[player], part.layouts[player], len(part.hands[player])
    into, of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for node, whole_node in enumerate(nodes.tolist()):
        if part.betting.actor[node] != player:
            continue
        street = whole.streets[whole.betting.street[whole_node]]
        rows = np.arange(len(street.boards) * hands)
        into.append(outer.first_decision[whole_node] * hands + rows)
        of.append(inner.first_decision[node] * hands + rows)
    return np.concatenate(into), np.concatenate(of)
