"""Action translation: replaces a bet that a strategy does not know by bets that it knows (Ganzfried
and Sandholm 2013, "Action translation in extensive-form games with large action spaces").

Bets are fractions of the pot. A bet x between two neighbouring known sizes A < B is translated to A
with probability f(x), which falls from 1 at A to 0 at B, and to B otherwise. A bet below the
smallest or above the largest known size is translated to that size.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_tree import NO_NODE, BettingTree
from jaxgames.registry import unknown

Bets = Float[Array, "*n"]  # in fractions of the pot: known sizes A < B, and bets x between them


def pseudo_harmonic(a: Bets, b: Bets, x: Bets) -> Float[Array, "*n"]:
    """f(x) of the randomised pseudo-harmonic mapping, which makes a caller indifferent in the
    clairvoyance game."""
    return (b - x) * (1 + a) / ((b - a) * (1 + x))


def deterministic_pseudo_harmonic(a: Bets, b: Bets, x: Bets) -> Bool[Array, "*n"]:
    """1 where `pseudo_harmonic` is at least 1/2: up to x = (A + B + 2AB) / (A + B + 2)."""
    return x <= (a + b + 2 * a * b) / (a + b + 2)


def arithmetic(a: Bets, b: Bets, x: Bets) -> Float[Array, "*n"]:
    """f(x) falls linearly in x."""
    return (b - x) / (b - a)


def deterministic_arithmetic(a: Bets, b: Bets, x: Bets) -> Bool[Array, "*n"]:
    """1 where A is at least as near to x as B."""
    return x <= (a + b) / 2


def geometric_1(a: Bets, b: Bets, x: Bets) -> Float[Array, "*n"]:
    """f(x) by the ratios A / x and x / B (Gilpin, Sandholm, Sorensen 2008)."""
    return a * (b - x) / (a * (b - x) + x * (x - a))


def geometric_2(a: Bets, b: Bets, x: Bets) -> Float[Array, "*n"]:
    """f(x) by the ratios A / x and x / B (Schnizlein, Bowling, Szafron 2009)."""
    return a * (b + x) * (b - x) / ((b - a) * (x * x + a * b))


def deterministic_geometric(a: Bets, b: Bets, x: Bets) -> Bool[Array, "*n"]:
    """1 where x / A is at most B / x: up to x = sqrt(AB)."""
    return x * x <= a * b


MAPPINGS = {
    mapping.__name__: mapping
    for mapping in (
        pseudo_harmonic,
        deterministic_pseudo_harmonic,
        arithmetic,
        deterministic_arithmetic,
        geometric_1,
        geometric_2,
        deterministic_geometric,
    )
}


def translate(
    known: Float[np.ndarray, " n"],
    bet: float | Float[Array | np.ndarray, "..."],
    *,
    mapping: str = "pseudo_harmonic",
) -> Float[Array, "... n"]:
    """Translates bets to known sizes.

    Args:
      known: the known sizes `[n]`, rising, in fractions of the pot; the first may be 0, a check.
      bet: the bets `[...]`, in fractions of the pot.
      mapping: a name in `MAPPINGS`.

    Returns:
      For each bet the probability of each known size, `[..., n]`.

    Raises:
      ValueError: the mapping is unknown, or known sizes are negative or do not rise.
    """
    if mapping not in MAPPINGS:
        raise ValueError(unknown("mapping", mapping, MAPPINGS))
    if len(known) == 0 or known[0] < 0 or (np.diff(known) <= 0).any():
        raise ValueError(f"known={known} must be bets of at least 0 that rise")
    x = jnp.clip(jnp.asarray(bet, float), known[0], known[-1])
    if len(known) == 1:
        return jnp.ones((*x.shape, 1))
    sizes, n = jnp.asarray(known, float), len(known)
    lower = jnp.clip(jnp.searchsorted(sizes, x, side="right") - 1, 0, n - 2)
    share = MAPPINGS[mapping](sizes[lower], sizes[lower + 1], x).astype(float)
    # f(A) = 1 for every mapping; the geometric ones compute 0 / 0 at A = 0
    share = jnp.where(x == sizes[lower], 1, share)[..., None]
    return jax.nn.one_hot(lower, n) * share + jax.nn.one_hot(lower + 1, n) * (1 - share)


def translate_bet(
    tree: BettingTree, node: int, to: int, *, mapping: str = "pseudo_harmonic"
) -> Float[np.ndarray, " A"]:
    """Translates a bet to the actions of a decision of a betting tree.

    A check or a call counts as a bet of 0. No bet is translated to a fold.

    Args:
      tree: the betting tree that is known.
      node: the decision at which the bet is made.
      to: chips that the player has paid after the bet, counted as in `tree.paid`.
      mapping: a name in `MAPPINGS`.

    Returns:
      The probability of each action of the node, `[A]`.

    Raises:
      ValueError: the node is no decision, or as `translate`.
    """
    if tree.actor[node] < 0:
        raise ValueError(f"node={node} is no decision of the betting tree")
    player, stakes = tree.actor[node], tree.paid[node].max()
    paid = tree.paid[tree.child[node, : len(tree.actions[node])], player]
    known = paid >= stakes  # all actions except folds
    pot = tree.pot + 2 * stakes
    probabilities = np.zeros(len(paid))
    probabilities[known] = translate(
        (paid[known] - stakes) / pot, (to - stakes) / pot, mapping=mapping
    )
    return probabilities


def counterparts(
    tree: BettingTree, known: BettingTree, node: int, *, root: int = 0
) -> Int[np.ndarray, " X"]:
    """Maps the nodes of a betting tree to nodes of a known one, action by action.

    Actions correspond as in `action_matrix`. Where the known tree has reached an end, or a deal,
    before this one, all nodes up to the next end or deal of this tree have that node as their
    counterpart.

    Args:
      tree: the betting tree to translate, with X nodes.
      known: the betting tree with known strategies.
      node: the counterpart of `root`, a node of `known`.
      root: the node of `tree` to begin at.

    Returns:
      For each node of `tree` from `root` on its counterpart; `NO_NODE` elsewhere. `[X]`
    """
    counterpart = np.full(len(tree.actor), NO_NODE)
    counterpart[root] = node
    for current in range(root, len(counterpart)):
        other = counterpart[current]
        if other == NO_NODE:
            continue
        children = tree.child[current][tree.child[current] != NO_NODE]
        if tree.actor[current] == known.actor[other] >= 0:
            action = action_matrix(tree, current, known, int(other)).argmax(axis=1)
            counterpart[children] = known.child[other][action]
        elif tree.actor[current] == known.actor[other] == CHANCE:
            counterpart[children] = known.child[other, 0]
        else:
            counterpart[children] = other
    return counterpart


def action_matrix(
    tree: BettingTree, node: int, other: BettingTree, counterpart: int
) -> Float[np.ndarray, "A B"]:
    """Which action at a decision of another tree each action at a decision corresponds to.

    A fold corresponds to a fold, all-in to all-in, and any other bet to the bet that is nearest in
    fractions of the pot. If the other decision has no action of the kind, a bet or all-in
    corresponds to its largest bet, and everything else to a call.

    Returns:
      1 at the corresponding action in each row, else 0. `[A, B]`
    """
    options = _moves(other, counterpart)
    matrix = np.zeros((len(tree.actions[node]), len(options)))
    kinds = [kind for kind, _ in options]
    for action, (kind, fraction) in enumerate(_moves(tree, node)):
        if kind == "bet" and kind in kinds:
            distance = [abs(f - fraction) if k == "bet" else np.inf for k, f in options]
            column = int(np.argmin(distance))
        elif kind in kinds:
            column = kinds.index(kind)
        else:
            bets = [place for place, k in enumerate(kinds) if k in ("bet", "allin")]
            column = bets[-1] if bets and kind in ("bet", "allin") else kinds.index("call")
        matrix[action, column] = 1
    return matrix


def _moves(tree, node):
    """For each action of a decision its kind ("fold", "call", "bet" or "allin"), and the chips that
    it adds to a call as a fraction of the pot after that call."""
    player, stakes = tree.actor[node], tree.paid[node].max()
    moves = []
    for name, child in zip(tree.actions[node], tree.child[node], strict=False):
        more = (tree.paid[child, player] - stakes) / (tree.pot + 2 * stakes)
        kind = {"check": "call"}.get(name, name)
        moves.append((kind if kind in ("fold", "call", "allin") else "bet", more))
    return moves
