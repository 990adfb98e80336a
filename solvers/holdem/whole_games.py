"""Whole games of poker for two as hold'em trees, with any deck and betting.

    >>> import jaxgames
    >>> from solvers.holdem import whole_game_tree
    >>> cards = "hole=1,ranks=3,suits=2,board=0/1"
    >>> bets = "blinds=1/1,first=0/0,raise_sizes=2/4,max_raises=2/2"
    >>> tree = whole_game_tree(jaxgames.make(f"poker({cards},{bets})"))  # as Leduc poker
    >>> tree.total_weight  # 6 times 5 pairs of cards
    30.0

Every hand has the weight 1 instead of its probability, so payoffs are divided by
`tree.total_weight`, the number of pairs of hands, to be in chips.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jaxgames.holdem.bet_sizes import BetSizes, BetSizesByStreet
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_tree import MAX_NODES, BettingTree
from jaxgames.holdem.rules import Poker
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree


def whole_game_tree(
    game: Poker,
    *,
    sizes: BetSizes | BetSizesByStreet | None = None,
    betting: BettingTree | None = None,
    dtype: str = "float32",
    showdowns: str | None = None,
    isomorphism: bool = True,
    storage: str = "full",
    max_nodes: int = MAX_NODES,
    max_bytes: int | None = None,
) -> HoldemTree:
    """Builds the tree of a whole game for two players.

    Args:
      game: the rules; cards are numbered as in `jaxgames.holdem.cards`.
      sizes: bet sizes for a no-limit game, as in `betting_of_rules`.
      betting: another betting tree from the first street on, such as a subtree of the game's, in
        place of the one of the rules and sizes.
      dtype: of payoffs, and so of every solver.
      showdowns: "ranks" or "products", as in `holdem_tree`.
      isomorphism: whether boards that are the same under a symmetry of suits are merged.
      storage: of the solver's state, as in `build_holdem_tree`.
      max_nodes: the largest number of betting nodes that is allowed.
      max_bytes: the memory that solving may take; None: the memory of the device.

    Returns:
      The tree; both ranges have the weight 1 for every hand.

    Raises:
      ValueError: players hold more than two cards, cards are dealt to the board before the first
        bet, or `betting_of_rules` or `build_holdem_tree` refuse the game.
      TreeTooLargeError: as `build_holdem_tree`.
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
        showdowns=showdowns,
        storage=storage,
        max_bytes=max_bytes,
    )
    return dataclasses.replace(tree, sequence_form=tree.sequence_form.replace(game=str(game)))
