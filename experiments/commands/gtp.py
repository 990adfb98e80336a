"""Our agents of Go as an engine: `jaxgames gtp`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from experiments.engines.engine_arguments import EngineArguments
from experiments.engines.gtp_server import GtpServer
from experiments.engines.referee import load
from experiments.harness.experiment import Command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(EngineArguments):
    """Let an agent of ours play Go in a graphical interface that speaks GTP.

    The interface starts this command and talks to it. Games are scored by area, with a
    komi of 7.5. Who repeats an earlier board loses.
    """

    game: Literal["go_9x9", "go_19x19"] = "go_9x9"
    """The board at the beginning; the command boardsize changes it."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command, until `quit` or the end of the input.

    Raises:
      ValueError: a number is out of range, or the network is not for the agent and the game.
      OSError: the network cannot be read.
    """
    server = GtpServer(
        load(arguments.game),
        agent=arguments.agent,
        network=arguments.network,
        simulations=arguments.simulations,
        seed=arguments.seed,
    )
    server.run(line.decode(errors="replace") for line in sys.stdin.buffer)


COMMAND = Command(Arguments, main)
