"""A game in which the players differ in their numbers of information states and of actions.

Player 0 is dealt a high or a low card and bids 1, 2 or 3; player 1, who sees the bid only, folds or
calls; after a call player 0 may double the stakes. So a public state has two rows and up to three
actions of player 0, one row and up to two actions of player 1.
"""

import functools

from jaxgames.adapters.gambit import GambitGame, parse_efg

NUM_ROWS, NUM_ACTIONS = (2, 1), (3, 2)


@functools.cache
def uneven_game() -> GambitGame:
    lines = ['EFG 2 R "" { "A" "B" }', 'c "" 1 "" { "high" 2/5 "low" 3/5 } 0']

    def end(payoff):
        lines.append(f't "" {len(lines)} "" {{ {payoff} {-payoff} }}')

    for card, sign in enumerate((1, -1)):
        lines.append(f'p "" 1 {card + 1} "" {{ "1" "2" "3" }} 0')
        for bid in (1, 2, 3):
            lines.append(f'p "" 2 {bid} "" {{ "fold" "call" }} 0')
            end(1)
            lines.append(f'p "" 1 {10 * bid + card} "" {{ "show" "double" }} 0')
            end(sign * bid)
            end(2 * sign * bid)
    return parse_efg("\n".join(lines), name="uneven")
