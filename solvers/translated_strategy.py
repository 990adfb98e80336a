"""A strategy of an abstraction, played in the whole game by action translation (Ganzfried and
Sandholm 2013).

The player keeps in mind where the hand would be in the abstraction. What the opponent bets is taken
for one of the sizes known there, all as shares of the pot that they are bet into; what the player
bets there becomes the nearest legal bet of the same share of the real pot, and all-in is all-in.
The paper does not say what becomes of hands that are somewhere else than in mind. Here

- a bet taken for a check or a call that ends the street in the abstraction is called;
- a bet taken for all-in that was less is called, and so is all that comes later;
- a raise for which nobody has the chips is a call, and so is a fold that nobody asks for.
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
    """A player's policy in the `real` game, `[D', A']`, of its `policy` in the `abstract` one.

    Both have the same cards, blinds and stacks. Uniform where the player never comes by itself.

    Raises:
      ValueError: there is no such mapping, or the games differ in cards.
    """
    if not np.array_equal(real.deals, abstract.deals):
        raise ValueError(f"the games differ in deals: {real.deals} and {abstract.deals}")
    walk = _Walk(real, abstract, np.asarray(policy, float), player, mapping)
    walk.visit(0, {0: np.ones((real.num_ranks, 1))})
    return walk.rows


class _Walk:
    """Goes through the real betting tree; where the hand is in mind is a random node.

    `minds` are the own reach [R, C] of the real node together with each node in mind, by card and
    board.
    """

    def __init__(self, real, abstract, policy, player, mapping):
        self.real, self.abstract, self.policy = real, abstract, policy
        self.player, self.mapping = player, mapping
        legal = real.tree.legal_actions(player)
        self.rows = legal / legal.sum(axis=1, keepdims=True)

    def visit(self, node, minds):
        betting = self.real.betting
        actor, children = betting.actor[node], _children(betting, node)
        if actor in (FOLD, SHOWDOWN):
            return
        if actor == CHANCE:
            self.visit(children[0], _collected(map(self._dealt, minds.items())))
        elif actor == self.player:
            self._act(node, children, minds)
        else:
            for child in children:
                taken = (self._taken_for(node, child, *mind) for mind in minds.items())
                self.visit(child, _collected(pair for pairs in taken for pair in pairs))

    def _dealt(self, mind):
        there, reach = mind
        betting, ranks = self.abstract.betting, self.real.num_ranks
        if betting.actor[there] == CHANCE:  # else all-in
            there = int(betting.child[there, 0])
        return there, np.broadcast_to(reach, (ranks, ranks))

    def _taken_for(self, node, child, there, reach):
        """Where an action of the opponent leads to in mind."""
        real, abstract = self.real.betting, self.abstract.betting
        if not self._same_street(node, there):
            return [(there, reach)]
        opponent, stakes, level = 1 - self.player, abstract.paid[there].max(), _level(real, node)
        known = [n for n in _children(abstract, there) if abstract.actor[n] != FOLD]
        if real.actor[child] == FOLD:
            return []
        pot, share = real.pot + 2 * level, {}
        for place in known:
            to = abstract.paid[place, opponent]
            allin = to == self.real.stack
            bet = (to - stakes) / (abstract.pot + 2 * stakes)
            share[place] = (self.real.stack - level) / pot if allin else bet
        most = share[known[-1]]
        known = [place for place in known if share[place] < most or place == known[-1]]
        bet = (real.paid[child, opponent] - level) / pot
        chances = _chances(tuple(share[place] for place in known), float(bet), self.mapping)
        return [(n, chance * reach) for n, chance in zip(known, chances, strict=True) if chance > 0]

    def _act(self, node, children, minds):
        betting = self.abstract.betting
        (shape,) = {reach.shape for reach in minds.values()}
        pairs = [[] for _ in children]
        for there, reach in minds.items():
            if not self._same_street(node, there):
                pairs[self._call(children)].append((there, reach))
                continue
            numbers = self.abstract.states[there][:, : shape[1]]
            chances = np.where((numbers >= 0)[..., None], self.policy[numbers], 0)
            for action, after in enumerate(_children(betting, there)):
                place = self._becomes(node, children, there, after)
                pairs[place].append((after, reach * chances[..., action]))
        after = list(map(_collected, pairs))
        reach = np.stack([sum(minds.values(), np.zeros(shape)) for minds in after], axis=2)
        total = reach.sum(axis=2)
        numbers = self.real.states[node][:, : shape[1]]
        reached = (numbers >= 0) & (total > 0)
        self.rows[numbers[reached]] = 0
        self.rows[numbers[reached], : len(children)] = reach[reached] / total[reached][:, None]
        for child, minds in zip(children, after, strict=True):
            if minds:
                self.visit(child, minds)

    def _same_street(self, node, there):
        """Whether the one who acts in reality also acts in mind."""
        real, abstract = self.real.betting, self.abstract.betting
        same = real.street[node] == abstract.street[there]
        return same and real.actor[node] == abstract.actor[there]

    def _call(self, children):
        return int(self.real.betting.actor[children[0]] == FOLD)

    def _becomes(self, node, children, there, after):
        """The place among `children` of an action in mind, which leads to `after`."""
        real, abstract = self.real.betting, self.abstract.betting
        if abstract.actor[after] == FOLD:
            return 0
        to, stakes = abstract.paid[after, self.player], abstract.paid[there].max()
        level, paid = _level(real, node), real.paid[children, self.player]
        raises = np.flatnonzero(paid > level)
        if to <= stakes or not len(raises):
            return self._call(children)
        share = (to - stakes) / (abstract.pot + 2 * stakes)
        wanted = level + share * (real.pot + 2 * level)
        if to == self.real.stack:
            wanted = to
        return int(raises[np.argmin(abs(paid[raises] - wanted))])


def _children(betting, node):
    return betting.child[node, : len(betting.actions[node])].tolist()


def _level(betting, node):
    return betting.paid[node].max()


def _collected(pairs):
    """Sums by key."""
    found: dict[int, np.ndarray] = {}
    for key, reach in pairs:
        found[key] = found[key] + reach if key in found else reach
    return found


@functools.cache
def _chances(known, bet, mapping):
    return tuple(np.asarray(translate(np.array(known), bet, mapping=mapping)).tolist())
