"""Hold'em poker: rules, cards, the hand evaluator, ranges, equities and betting trees.

    >>> from jaxgames import holdem
    >>> board = holdem.parse_cards("Td9d6h Qc")
    >>> ranges = holdem.parse_range("66+, A8s+, AJo+"), holdem.parse_range("QQ-22, AQs-A2s")
    >>> print(f"{holdem.range_equity(board, *ranges):.4f}")  # the first range's share of the pot
    0.6194
    >>> sizes = holdem.BetSizes.parse(bets="50%, 100%, allin", raises="3x")
    >>> betting = holdem.build_betting_tree(pot=200, stack=900, streets=2, sizes=sizes)
    >>> betting.actions[0]
    ('check', 'bet 100', 'bet 200', 'allin')
    >>> game = holdem.hunl(bets=("0.5", "1", "allin"))  # rules with three bets

- Games: `Poker` with any parameters, `limit_holdem`, `hunl`, `nlfh`; `parse_game` reads the
  definitions of the ACPC; `build_small_poker` makes explicit trees of poker with one hole card.
- Cards and ranges: `parse_cards`, `cards_name`, `parse_range`, `without_cards`; classes of hands up
  to the names of suits are numbered by `HandIsomorphism`.
- Strength and equity: `strength` and `category` of hands, `rank_hands` on a board,
  `showdown_equity` of all hands, `range_equity` of a range.
- Betting: `BetSizes`, `sizes_by_street`; a `BettingTree` from sizes (`build_betting_tree`) or of a
  whole game (`betting_of_rules`), `with_bet` added, or a `subtree` of it; action translation of
  unknown bets (`translate`, `translate_bet`).

`solvers.holdem` solves subgames of such trees.
"""

from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.action_translation import translate, translate_bet
from jaxgames.holdem.bet_sizes import BetSizes, sizes_by_street
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_from_sizes import build_betting_tree, subtree, with_bet
from jaxgames.holdem.betting_tree import BettingTree
from jaxgames.holdem.cards import cards_name, parse_cards
from jaxgames.holdem.equity import range_equity, rank_hands, showdown_equity
from jaxgames.holdem.hand_evaluator import category, strength
from jaxgames.holdem.hand_isomorphism import HandIsomorphism
from jaxgames.holdem.named_games import hunl, limit_holdem, nlfh
from jaxgames.holdem.ranges import parse_range, without_cards
from jaxgames.holdem.rules import Poker
from jaxgames.holdem.small_poker import build_small_poker

__all__ = [
    "BetSizes",
    "BettingTree",
    "HandIsomorphism",
    "Poker",
    "betting_of_rules",
    "build_betting_tree",
    "build_small_poker",
    "cards_name",
    "category",
    "hunl",
    "limit_holdem",
    "nlfh",
    "parse_cards",
    "parse_game",
    "parse_range",
    "range_equity",
    "rank_hands",
    "showdown_equity",
    "sizes_by_street",
    "strength",
    "subtree",
    "translate",
    "translate_bet",
    "with_bet",
    "without_cards",
]
