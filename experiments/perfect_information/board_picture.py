"""The command `board_picture`: plays a game of chess, Go or another board game, and draws it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Annotated

import jax
import numpy as np
import tyro

from experiments.commands.play_terminal import say
from experiments.engines import match
from experiments.engines.game import GameRecord, play_game
from experiments.engines.named_players import Settings, make_player
from experiments.engines.referee import Referee, load
from experiments.harness import results
from experiments.harness.experiment import Command
from experiments.harness.progress import status
from jaxgames.adapters import uci_moves
from jaxgames.adapters.pgx import lenient
from jaxgames.adapters.pgx_beliefs import PgxPosition
from jaxgames.checks import at_least

PICTURE, MOVES = "game.svg", "game.txt"
_FONT = 0.3  # of a square's side: captions fit above the boards


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Play a game of chess, Go, Connect Four, Hex or Othello between two players, and draw it.

    Players are those of engine_match: in chess, Gardner chess and Go also installed programs, in
    the other games ours only. Writes game.svg (boards as pgx draws them, with the last position)
    and game.txt (all moves, and how the game ended) into --out.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """chess, gardner_chess, go_9x9, go_19x19, connect_four, hex or othello."""
    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")]
    """The player who begins, such as alphazero(simulations=100,network=FILE) or uniform."""
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")]
    """The opponent, in the same way."""
    pictures: int = 6
    """How many positions are drawn, evenly along the game; 1: only the last one."""
    opening_moves: int = 0
    """Moves at the start that are drawn at random."""
    nodes: int = 1000
    """Nodes of each search of a player uci:COMMAND."""
    seed: int = 0
    """Of the opening and of the players."""
    out: pathlib.Path = pathlib.Path("out/board_picture")
    """Folder for the picture, which is made if it does not exist."""
    overwrite: bool = False
    """Replace an earlier picture in --out."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command, which leaves no record.

    Raises:
      ValueError: an unknown game or player, a program that is not installed, a number that is out
        of range, or the folder holds an earlier picture.
      OSError: the picture cannot be written.
    """
    at_least(1, pictures=arguments.pictures)
    referee = load(arguments.game)
    settings = Settings(referee=referee, nodes=arguments.nodes)
    players = [make_player(spec, settings) for spec in (arguments.a, arguments.b)]
    (opening,) = match.draw_openings(
        referee, pairs=1, length=arguments.opening_moves, seed=arguments.seed
    )
    _prepare(arguments.out, overwrite=arguments.overwrite)
    try:
        with status("playing"):
            game = play_game(referee, players, opening=opening, seed=arguments.seed)
    finally:
        for player in players:
            player.close()
    text = game_text(referee, game, seed=arguments.seed)
    with status("drawing"):
        picture = draw(referee, game, pictures=arguments.pictures)
    results.write_file(arguments.out / PICTURE, picture)
    results.write_file(arguments.out / MOVES, text)
    say(text)
    say(f"wrote {PICTURE} and {MOVES} into {arguments.out}")


def _prepare(out: pathlib.Path, *, overwrite: bool) -> None:
    """Makes the folder; an earlier picture there is replaced when the new one is finished."""
    earlier = [name for name in (PICTURE, MOVES) if (out / name).exists()]
    if earlier and not overwrite:
        raise ValueError(
            f"{out} holds an earlier picture ({earlier[0]}): add --overwrite to replace it"
        )
    out.mkdir(parents=True, exist_ok=True)


def game_text(referee: Referee, game: GameRecord, *, seed: int) -> str:
    """Who played, all moves with their numbers, and how the game ended."""
    colours = _colours(referee)
    heading = f"{referee.name}, seed {seed}: " + " against ".join(
        f"{name} ({colour})"
        for name, colour in zip((game.first, game.second), colours, strict=True)
    )
    moves = game.moves.split()
    lines = [
        f"{1 + number // 2:3}. {' '.join(moves[number : number + 2])}"
        for number in range(0, len(moves), 2)
    ]
    if game.opening:
        lines.insert(0, f"the first {game.opening} moves were drawn at random")
    winner = colours[0 if game.payoff > 0 else 1]
    result = f"{winner} wins" if game.payoff else "draw"
    return "\n".join([heading, *lines, f"{result}: {game.reason}", ""])


def draw(referee: Referee, game: GameRecord, *, pictures: int) -> str:
    """A game as SVG: positions in rows, below the number of moves before them and the last move.

    Args:
      referee: of the game.
      game: that was played.
      pictures: how many positions, evenly along the game, with the last one; fewer if the game has
        fewer moves.

    Returns:
      The text of the file.
    """
    from pgx._src.visualizer import Visualizer  # makes arrays when imported

    moves = game.moves.split()
    numbers = sorted({round(len(moves) * k / pictures) for k in range(1, pictures + 1)})
    along = _positions(referee, moves)
    chosen = [along[number].pgx for number in numbers]
    with lenient():
        visualizer = Visualizer(color_theme="light", scale=1.0)
        drawing = visualizer.get_dwg(jax.tree.map(lambda *each: np.stack(each), *chosen))
    config = visualizer.config
    side = config["GRID_SIZE"]
    width, height = (1 + config["BOARD_WIDTH"]) * side, (1 + config["BOARD_HEIGHT"]) * side
    columns = round(drawing["width"] / width)
    for place, number in enumerate(numbers):
        row, column = divmod(place, columns)
        caption = f"move {number}: {moves[number - 1]}" if number else "start"
        at = (column * width + _FONT * side / 2, row * height + _FONT * side)
        words = {"font_size": f"{_FONT * side:g}px", "font_family": "Sans-serif", "fill": "black"}
        drawing.add(drawing.text(caption, insert=at, **words))
    colours = _colours(referee)
    title = f"{referee.name}: {game.first} ({colours[0]}) against {game.second} ({colours[1]})"
    drawing.set_desc(title=title)
    return drawing.tostring() + "\n"


def _positions(referee: Referee, moves: Sequence[str]) -> list[PgxPosition]:
    """The positions of a game, from the start on."""
    positions = [referee.start]
    for move in moves:
        positions.append(referee.played([move], positions[-1]))
    return positions


def _colours(referee: Referee) -> tuple[str, str]:
    """In which pgx draws who begins, and the other player."""
    return ("white", "black") if referee.name in uci_moves.GAMES else ("black", "white")


COMMAND = Command(Arguments, main)
