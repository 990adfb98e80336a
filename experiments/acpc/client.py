"""Plays an agent at a dealer of the ACPC protocol."""

from __future__ import annotations

import socket
from typing import NamedTuple

import numpy as np

from experiments.acpc.agents import Agent
from experiments.acpc.connection import Connection
from jaxgames.core import TERMINAL
from jaxgames.holdem import acpc_protocol
from jaxgames.holdem.rules import Poker


class Played(NamedTuple):
    """What a client has played."""

    hands: int
    chips: float
    """Won in all hands."""


def play(agent: Agent, game: Poker, *, host: str, port: int) -> Played:
    """Plays until the dealer closes the connection.

    Args:
      agent: who acts.
      game: the rules, which must be the dealer's.
      host: where the dealer listens.
      port: where the dealer listens.

    Returns:
      The number of hands, and the chips that were won.

    Raises:
      ValueError: the dealer sends what is no state of the game, or the agent's action is not legal.
      OSError: there is no dealer, or it closes the connection before a hand is over.
    """
    acpc_protocol.check_expressible(game)
    acpc_protocol.warm_up(game)
    connection = Connection(socket.create_connection((host, port)))
    try:
        connection.send(acpc_protocol.VERSION)
        return _play(agent, game, connection)
    finally:
        connection.close()


def _play(agent, game, connection):
    hands, chips, over = 0, 0.0, True
    while True:
        try:
            line = connection.receive(seconds=None)
        except ConnectionError:
            if not over:
                raise ConnectionError("the dealer has ended the match within a hand") from None
            return Played(hands, chips)
        if not line or acpc_protocol.is_comment(line):
            continue
        seen = acpc_protocol.parse_state(game, line)
        state = acpc_protocol.poker_state(game, seen)
        over = int(state.actor) == TERMINAL
        if over:
            hands, chips = hands + 1, chips + float(state.returns[seen.seat])
        elif int(state.actor) == seen.seat:
            action = agent(seen)
            if action not in np.flatnonzero(state.legal):
                raise ValueError(f"{line}: the agent's action {action} is not legal")
            connection.send(acpc_protocol.format_answer(game, seen, action))
