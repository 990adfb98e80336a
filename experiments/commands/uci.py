"""Our agents of chess and Gardner chess as an engine: `jaxgames uci`."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Literal

from experiments.engines.engine_arguments import EngineArguments
from experiments.engines.uci_server import UciServer
from experiments.harness.experiment import Command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(EngineArguments):
    """Let an agent of ours play chess in a graphical interface that speaks UCI.

    The interface starts this command and talks to it. Options are also options of UCI, by the names
    Agent, Network, Simulations and Seed.
    """

    game: Literal["chess", "gardner_chess"] = "chess"
    """What is played; Gardner chess is the variant gardner of Fairy-Stockfish."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command, until `quit` or the end of the input.

    Raises:
      ValueError: a number is out of range.
    """
    server = UciServer(
        arguments.game,
        agent=arguments.agent,
        network=arguments.network,
        simulations=arguments.simulations,
        seed=arguments.seed,
    )
    # A file of its own: Python cannot end while a thread waits in `sys.stdin`.
    lines = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    server.run(line.decode(errors="replace") for line in lines)


COMMAND = Command(Arguments, main)
