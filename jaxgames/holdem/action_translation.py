"""Action translation: what a bet that a strategy does not know is taken for (Ganzfried and Sandholm
2013, "Action translation in extensive-form games with large action spaces").

Bets are fractions of the pot. Between two known sizes A < B a bet x is taken for A with probability
f(x), which falls from 1 at A to 0 at B, else for B; beyond the known ones, for the nearest.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.betting import NO_NODE, BettingTree
from jaxgames.registry import unknown


def pseudo_harmonic(a, b, x):
    """Randomised pseudo-harmonic: what leaves a caller indifferent in a simple game."""
    return (b - x) * (1 + a) / ((b - a) * (1 + x))


def deterministic_pseudo_harmonic(a, b, x):
    """To the likelier of the two, which changes at (A + B + 2AB) / (A + B + 2)."""
    return x <= (a + b + 2 * a * b) / (a + b + 2)


def arithmetic(a, b, x):
    """In proportion to the distance from the other."""
    return (b - x) / (b - a)


def deterministic_arithmetic(a, b, x):
    """To the nearer one."""
    return x <= (a + b) / 2


def geometric_1(a, b, x):
    """By ratios (Gilpin, Sandholm, Sorensen 2008)."""
    return a * (b - x) / (a * (b - x) + x * (x - a))


def geometric_2(a, b, x):
    """By ratios (Schnizlein, Bowling, Szafron 2009)."""
    return a * (b + x) * (b - x) / ((b - a) * (x * x + a * b))


def deterministic_geometric(a, b, x):
    """To the one with the smaller ratio, which changes at sqrt(AB)."""
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
    """With what probability a bet is taken for each of the known ones, which rise.

    All are fractions of the pot; 0, a check, may be among the known.

    Raises:
      ValueError: unknown mapping, or known bets that are not positive (or 0) and rising.
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
    share = jnp.where(x == sizes[lower], 1, share)[..., None]  # also of a check, whatever is known
    return jax.nn.one_hot(lower, n) * share + jax.nn.one_hot(lower + 1, n) * (1 - share)


def translate_bet(
    tree: BettingTree, node: int, to: int, *, mapping: str = "pseudo_harmonic"
) -> Float[np.ndarray, " A"]:
    """With what probability a bet at a decision of a betting tree is taken for each action there.

    `to` is what the player has paid then, counted as in `paid`. To check or to call is a bet of 0;
    nothing is taken for a fold.

    Raises:
      ValueError: as `translate`, or the node is no decision.
    """
    if tree.actor[node] < 0:
        raise ValueError(f"node={node} is no decision of the betting tree")
    player, stakes = tree.actor[node], tree.paid[node].max()
    paid = tree.paid[tree.child[node, : len(tree.actions[node])], player]
    known = paid >= stakes  # all but folds
    pot = tree.pot + 2 * stakes
    found = np.zeros(len(paid))
    found[known] = translate((paid[known] - stakes) / pot, (to - stakes) / pot, mapping=mapping)
    return found


def counterparts(
    tree: BettingTree, known: BettingTree, node: int, *, root: int = 0
) -> Int[np.ndarray, " X"]:
    """For each node of `tree`, from `root` on, the one of `known` that it is taken for if `root` is
    taken for `node`; `NO_NODE` elsewhere.

    Actions are taken for those of the same kind (see `action_matrix`). Where play goes on that in
    the known tree has come to its end, or to a deal, it is taken for that until it comes there too.
    """
    found = np.full(len(tree.actor), NO_NODE)
    found[root] = node
    for here in range(root, len(found)):
        there = found[here]
        if there == NO_NODE:
            continue
        children = tree.child[here][tree.child[here] != NO_NODE]
        if tree.actor[here] == known.actor[there] >= 0:
            taken = action_matrix(tree, here, known, int(there)).argmax(axis=1)
            found[children] = known.child[there][taken]
        elif tree.actor[here] == known.actor[there] == CHANCE:
            found[children] = known.child[there, 0]
        else:
            found[children] = there
    return found


def action_matrix(
    tree: BettingTree, node: int, other: BettingTree, counterpart: int
) -> Float[np.ndarray, "A B"]:
    """1 where an action at a decision of one tree is taken for one at a decision of the other.

    A fold is taken for a fold, all-in for all-in, another bet for the nearest other bet in
    fractions of the pot. What the other tree lacks is taken for its largest bet, or for a call.
    """
    options = _moves(other, counterpart)
    found = np.zeros((len(tree.actions[node]), len(options)))
    for action, (kind, fraction) in enumerate(_moves(tree, node)):
        kinds = [kind for kind, _ in options]
        if kind == "bet" and kind in kinds:
            distance = [abs(f - fraction) if k == "bet" else np.inf for k, f in options]
            taken = int(np.argmin(distance))
        elif kind in kinds:
            taken = kinds.index(kind)
        else:
            bets = [place for place, k in enumerate(kinds) if k in ("bet", "allin")]
            taken = bets[-1] if bets and kind in ("bet", "allin") else kinds.index("call")
        found[action, taken] = 1
    return found


def _moves(tree, node):
    """Kind of each action at a decision, and what it puts in beyond a call, as fraction of the
    pot after calling."""
    player, stakes = tree.actor[node], tree.paid[node].max()
    found = []
    for name, child in zip(tree.actions[node], tree.child[node], strict=False):
        more = (tree.paid[child, player] - stakes) / (tree.pot + 2 * stakes)
        kind = {"check": "call"}.get(name, name)
        found.append((kind if kind in ("fold", "call", "allin") else "bet", more))
    return found
