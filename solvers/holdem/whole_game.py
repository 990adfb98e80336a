"""Whole games of poker as hold'em trees: from the first bet on, whatever the deck and the betting.

    >>> from jaxgames import make
    >>> from solvers import evaluation
    >>> from solvers.holdem.whole_game import game_tree
    >>> from solvers.sequence_form import uniform, unpack
    >>> cards, bets = "hole=1,board=0/1,ranks=3,suits=2", "raise_sizes=2/4,max_raises=2/2"
    >>> game = make(f"poker(first=0/0,{cards},{bets})")
    >>> tree = game_tree(game)
    >>> policy = unpack(tree.public, uniform(tree.public))
    >>> values = evaluation.expected_value(tree.public, policy) / tree.total
    >>> values.shape
    (2,)

Hands have weights of 1, not probabilities: what comes of them is divided by `tree.total`, the
number of pairs of hands, to be in chips.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jaxgames.holdem.bet_sizes import Sizes, SizesByStreet
from jaxgames.holdem.betting import MAX_NODES, BettingTree, betting_of_rules
from jaxgames.holdem.rules import Poker
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree


def game_tree(
    game: Poker,
    *,
    sizes: Sizes | SizesByStreet | None = None,
    betting: BettingTree | None = None,
    dtype: str = "float32",
    form: str | None = None,
    isomorphism: bool = True,
    max_nodes: int = MAX_NODES,
) -> HoldemTree:
    """The tree of a whole game for two; cards are those of `jaxgames.holdem.cards`.

    `sizes` of bets are for no-limit games, as in `betting_of_rules`. Other `betting` from the first
    street on may be given instead, such as a part of that (see `betting.subtree`).

    Raises:
      ValueError: there are more than two hole cards, board cards before the first bet, or what
        `betting_of_rules` refuses.
    """
    if game.hole > 2:
        raise ValueError(f"hole={game.hole} of {game} must be 1 or 2 cards")
    if game.board[0]:
        raise ValueError(f"board={game.board} of {game} must begin with 0: a round without a board")
    if betting is None:
        betting = betting_of_rules(game, sizes=sizes, max_nodes=max_nodes)
    deck = tuple(4 * rank + suit for rank in range(game.ranks) for suit in range(game.suits))
    hands = np.array(list(itertools.combinations(deck, game.hole)))
    tree = build_holdem_tree(
        (),
        hands,
        (np.ones(len(hands)), np.ones(len(hands))),
        betting,
        deals=game.board[1:],
        deck=deck,
        dtype=dtype,
        isomorphism=isomorphism,
        form=form,
    )
    return dataclasses.replace(tree, public=tree.public.replace(game=str(game)))
