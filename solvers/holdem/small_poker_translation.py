"""A policy of an abstraction, played in the whole game by action translation (Ganzfried and
Sandholm 2013, "Action translation in extensive-form games with large action spaces").

While it plays, the player tracks where the hand would be in the abstraction, its *abstract node*. A
bet of the opponent is translated to one of the sizes that the abstraction has there; both are
measured as shares of the pot. The player's own abstract bet becomes the nearest legal bet in the
real game, as a share of the real pot, and all-in remains all-in.

The paper does not say what to do when the real game and the abstraction get out of step. Here

- a bet that was translated to a check, or to a call that ends the street, is called;
- a bet below all-in that was translated to all-in is called, and so are all later bets;
- a raise for which nobody has the chips becomes a call, and so does a fold where there is nothing
  to call.
"""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Array, Float

from jaxgames.core import CHANCE
from jaxgames.holdem.action_translation import translate
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN
from jaxgames.holdem.small_poker import SmallPoker


def translated(
    real: SmallPoker,
    abstract: SmallPoker,
    policy: Float[Array | np.ndarray, "D A"],
    *,
    player: int,
    mapping: str = "pseudo_harmonic",
) -> Float[np.ndarray, "_ _"]:
    """A player's policy in the real game, by translation from its policy in the abstraction.

    Args:
      real: the game that is played.
      abstract: a game with the same cards, blinds and stacks, and other bets.
      policy: the player's probabilities in the abstraction.
      player: 0 or 1.
      mapping: how bets are translated (see `jaxgames.holdem.action_translation.translate`).

    Returns:
      Probabilities `[D', A']` in the real game; uniform where the player's own reach is 0.

    Raises:
      ValueError: there is no such mapping, or the games differ in cards.
    """
    if not np.array_equal(real.deals, abstract.deals):
        raise ValueError(
            "abstract.deals differ from real.deals; allowed: the same ranks, suits and weights"
        )
    translation = _Translation(real, abstract, np.asarray(policy, float), player, mapping)
    translation.visit(0, {0: np.ones((real.num_ranks, 1))})
    return translation.rows


class _Translation:
    """One walk through the real betting tree, which writes the policy `rows`.

    At a real node, the abstract node is random, since translation is. It is given as a dictionary
    `reaches` from abstract nodes to the player's own reach [R, C] of the real node together with
    that abstract node, by card and board.
    """

    def __init__(self, real, abstract, policy, player, mapping):
        self.real, self.abstract, self.policy = real, abstract, policy
        self.player, self.mapping = player, mapping
        legal = real.tree.legal_actions(player)
        self.rows = legal / legal.sum(axis=1, keepdims=True)

    def visit(self, node, reaches):
        """Writes the policy at a real node and everywhere below."""
        betting = self.real.betting
        actor, children = betting.actor[node], _children(betting, node)
        if actor in (FOLD, SHOWDOWN):
            return
        if actor == CHANCE:
            self.visit(children[0], _summed(map(self._dealt, reaches.items())))
        elif actor == self.player:
            self._act(node, children, reaches)
        else:
            for child in children:
                pairs = (self._translations(node, child, *pair) for pair in reaches.items())
                self.visit(child, _summed(pair for each in pairs for pair in each))

    def _dealt(self, pair):
        """The abstract node, and the reach by card and board, when the board is dealt."""
        abstract_node, reach = pair
        betting, ranks = self.abstract.betting, self.real.num_ranks
        if betting.actor[abstract_node] == CHANCE:  # otherwise all-in
            abstract_node = int(betting.child[abstract_node, 0])
        return abstract_node, np.broadcast_to(reach, (ranks, ranks))

    def _translations(self, node, child, abstract_node, reach):
        """Abstract nodes to which the opponent's action from `node` to `child` is translated."""
        real, abstract = self.real.betting, self.abstract.betting
        if not self._in_step(node, abstract_node):
            return [(abstract_node, reach)]
        opponent, level = 1 - self.player, _level(real, node)
        abstract_level = _level(abstract, abstract_node)
        if real.actor[child] == FOLD:
            return []
        pot, share = real.pot + 2 * level, {}
        options = [n for n in _children(abstract, abstract_node) if abstract.actor[n] != FOLD]
        for option in options:
            to = abstract.paid[option, opponent]
            allin = to == self.real.stack
            bet = (to - abstract_level) / (abstract.pot + 2 * abstract_level)
            share[option] = (self.real.stack - level) / pot if allin else bet
        largest = share[options[-1]]
        options = [n for n in options if share[n] < largest or n == options[-1]]
        bet = (real.paid[child, opponent] - level) / pot
        probabilities = _probabilities(tuple(share[n] for n in options), float(bet), self.mapping)
        pairs = zip(options, probabilities, strict=True)
        return [(option, weight * reach) for option, weight in pairs if weight > 0]

    def _act(self, node, children, reaches):
        """Writes the player's own policy at a real node, and visits what follows."""
        betting = self.abstract.betting
        (shape,) = {reach.shape for reach in reaches.values()}
        pairs = [[] for _ in children]
        for abstract_node, reach in reaches.items():
            if not self._in_step(node, abstract_node):
                pairs[self._call(children)].append((abstract_node, reach))
                continue
            numbers = self.abstract.states[abstract_node][:, : shape[1]]
            policy = np.where((numbers >= 0)[..., None], self.policy[numbers], 0)
            for action, after in enumerate(_children(betting, abstract_node)):
                place = self._real_action(node, children, abstract_node, after)
                pairs[place].append((after, reach * policy[..., action]))
        following = list(map(_summed, pairs))
        reach = np.stack([sum(each.values(), np.zeros(shape)) for each in following], axis=2)
        total = reach.sum(axis=2)
        numbers = self.real.states[node][:, : shape[1]]
        reached = (numbers >= 0) & (total > 0)
        self.rows[numbers[reached]] = 0
        self.rows[numbers[reached], : len(children)] = reach[reached] / total[reached][:, None]
        for child, each in zip(children, following, strict=True):
            if each:
                self.visit(child, each)

    def _in_step(self, node, abstract_node):
        """Whether street and actor are the same in the real game and in the abstraction."""
        real, abstract = self.real.betting, self.abstract.betting
        same = real.street[node] == abstract.street[abstract_node]
        return same and real.actor[node] == abstract.actor[abstract_node]

    def _call(self, children):
        """The place of check or call among the children of a real node."""
        return int(self.real.betting.actor[children[0]] == FOLD)

    def _real_action(self, node, children, abstract_node, after):
        """The place, among the children of a real node, of the abstract action to `after`."""
        real, abstract = self.real.betting, self.abstract.betting
        if abstract.actor[after] == FOLD:
            return 0
        to, abstract_level = abstract.paid[after, self.player], _level(abstract, abstract_node)
        level, paid = _level(real, node), real.paid[children, self.player]
        raises = np.flatnonzero(paid > level)
        if to <= abstract_level or not len(raises):
            return self._call(children)
        share = (to - abstract_level) / (abstract.pot + 2 * abstract_level)
        target = level + share * (real.pot + 2 * level)
        if to == self.real.stack:
            target = to
        return int(raises[np.argmin(abs(paid[raises] - target))])


def _children(betting, node):
    return betting.child[node, : len(betting.actions[node])].tolist()


def _level(betting, node):
    """How much the player who has put in most has put in."""
    return betting.paid[node].max()


def _summed(pairs):
    """A dictionary from pairs; values of equal keys are added up."""
    sums: dict[int, np.ndarray] = {}
    for key, value in pairs:
        sums[key] = sums[key] + value if key in sums else value
    return sums


@functools.cache
def _probabilities(known, bet, mapping):
    """The probability with which a bet is translated to each of the known ones."""
    return tuple(np.asarray(translate(np.array(known), bet, mapping=mapping)).tolist())
