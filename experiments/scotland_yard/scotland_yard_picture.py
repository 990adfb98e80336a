"""The command `scotland_yard_picture`: plays a game of Scotland Yard, and draws it."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated

import jax
import tyro

from experiments.commands.play_terminal import say
from experiments.harness import results
from experiments.harness.experiment import Command
from experiments.harness.progress import status
from experiments.scotland_yard import pictures
from experiments.scotland_yard.recorded_games import Moment, record_game
from experiments.scotland_yard.trained_students import trained_player
from jaxgames.registry import make, unknown
from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.scotland_yard.matches import MatchAgent, UniformAgent, make_pimbot
from solvers.scotland_yard.pimbot import PimBot

STRIP, ANIMATION, MOVES = "game.png", "game.gif", "game.txt"
_UNIFORM, _PIMBOT = "uniform", "pimbot"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Play a game of Scotland Yard between two agents, and draw it.

    Writes game.png (a picture of each turn), game.gif (the same as an animation) and game.txt (the
    moves) into --out. Stations are the darker, the more probable it is that Mr X is there, for who
    sees what the detectives see and knows Mr X's policy.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")] = "scotland_yard"
    """Such as scotland_yard (London) or 'scotland_yard(map=district)'."""
    mr_x: Annotated[str, tyro.conf.arg(metavar="AGENT")] = "pimbot:100"
    """Who plays Mr X: uniform, pimbot:SIMULATIONS, or FOLDER:SIMULATIONS of a run of sog_london."""
    detectives: Annotated[str, tyro.conf.arg(metavar="AGENT")] = "pimbot:100"
    """Who plays the detectives, in the same way."""
    seed: int = 0
    """Of the deal and of the agents."""
    hide_mr_x: bool = False
    """Draw Mr X only where he shows himself, not at his true station in every picture."""
    out: pathlib.Path = pathlib.Path("out/scotland_yard")
    """Folder for the pictures, which is made if it does not exist."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command, which leaves no record.

    Raises:
      ValueError: the game is another one, there is no such agent, or it plays another game.
      OSError: the pictures cannot be written.
    """
    game = make(arguments.game)
    if not isinstance(game, ScotlandYard):
        raise ValueError(f"game={arguments.game} must be a scotland_yard")
    agents = [named_agent(name, game) for name in (arguments.mr_x, arguments.detectives)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    with status("playing"):
        moments = record_game(game, jax.random.key(arguments.seed), *agents)
    open_cards = not arguments.hide_mr_x
    with status("drawing"):
        pictures.write_strip(arguments.out / STRIP, game, moments, open_cards=open_cards)
        pictures.write_animation(arguments.out / ANIMATION, game, moments, open_cards=open_cards)
    heading = f"{game}, seed {arguments.seed}: {arguments.mr_x} against {arguments.detectives}"
    text = "\n".join([heading, *moves_text(game, moments), ""])
    results.write_file(arguments.out / MOVES, text)
    say(text)
    say(f"wrote {STRIP}, {ANIMATION} and {MOVES} into {arguments.out}")


def named_agent(name: str, game: ScotlandYard) -> MatchAgent:
    """An agent by its name on the command line.

    Args:
      name: uniform, pimbot:SIMULATIONS, or FOLDER:SIMULATIONS of a run of `sog_london`.
      game: that it plays.

    Raises:
      ValueError: there is no such agent, or it was trained in another game.
    """
    if name == _UNIFORM:
        return UniformAgent()
    who, colon, number = name.rpartition(":")
    folder = pathlib.Path(who)
    if not colon or (who != _PIMBOT and not folder.is_dir()):
        known = [_UNIFORM, f"{_PIMBOT}:SIMULATIONS", "FOLDER:SIMULATIONS"]
        raise ValueError(unknown("agent", name, known))
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"agent {name} must end with a number of simulations, at least 1")
    if who == _PIMBOT:
        return make_pimbot(game, PimBot(simulations=int(number)))
    return trained_player(folder, game, int(number))


def moves_text(game: ScotlandYard, moments: list[Moment]) -> list[str]:
    """A line for each turn: all moves, and at how many stations Mr X may be after them."""
    lines = []
    for turn in pictures.turns(moments):
        moves = [
            f"{f'detective {moment.player}' if moment.player else 'Mr X'} {moment.move}"
            for moment in turn.moments
            if moment.move
        ]
        state, share = turn.end.state, turn.end.probability
        if not moves:
            stations = [game.layout.numbers[station] for station in state.board.detectives]
            moves = ["detectives at " + " ".join(map(str, stations))]
        number = game.layout.numbers[int(state.mr_x)]
        where = (
            f"Mr X at {number}, one of {(share > 0).sum()} possible stations"
            f" ({share[state.mr_x]:.1%})"
        )
        lines.append(f"{pictures.title(game, turn)}\n  {', '.join(moves)}\n  {where}")
    return lines


COMMAND = Command(Arguments, main)
