"""Players by name: `stockfish(nodes=1000,skill=5)`, `alphazero(simulations=100)`, `uci:COMMAND`."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import shlex
from collections.abc import Callable

from experiments.engines.gtp_engine import GtpEngine
from experiments.engines.own_agents import Choose, OwnAgent, SharedSearches
from experiments.engines.player import Player
from experiments.engines.program import find
from experiments.engines.referee import Referee
from experiments.engines.thinkers import check_network, check_simulations, uniform_action
from experiments.engines.uci_engine import UciEngine, spin_range
from experiments.perfect_information.trained_players import (
    ALPHAZERO,
    STUDENT,
    Network,
    read_network_file,
)
from jaxgames.adapters import gtp_moves, uci_moves
from jaxgames.registry import call


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What all players of a match share."""

    referee: Referee
    nodes: int = 1000
    """Of the searches of programs `uci:COMMAND`."""
    move_seconds: float = 60.0
    start_seconds: float = 180.0
    errors: pathlib.Path | None = None
    """A folder for what programs print on stderr; None: nowhere."""
    side_by_side: int = 1
    """Games that are played at a time, and positions in which an agent of ours searches at once."""
    searches: dict[str, Choose] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """Of our agents, which all players of the same kind share, by how they were asked for."""


Build = Callable[[str, Settings], Player]


def make_player(spec: str, settings: Settings, *, name: str = "") -> Player:
    """A player by its name.

    Args:
      spec: one of
        `alphazero(simulations=100,network=FILE)`, `student_of_games(...)`, `uniform`: our agents,
        without a network if none is given;
        `stockfish(nodes=1000,skill=20)`, `stockfish(elo=1500)`, `fairy_stockfish(...)`,
        `gnugo(level=10)`: installed programs with fixed effort;
        `uci:COMMAND`, `gtp:COMMAND`: any other program.
      settings: of the match.
      name: of the player in the match; by default the spec.

    Returns:
      The player. Programs start with their first game.

    Raises:
      ValueError: unknown name or parameter, a program that is not installed, or another game.
      OSError: a network cannot be read.
    """
    prefix, colon, command = spec.partition(":")
    if colon and prefix in ("uci", "gtp"):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"player {spec!r}: {error}") from None
        if not words:
            raise ValueError(f"player {spec!r} must be {prefix}:COMMAND")
        command = [find(words[0]), *words[1:]]
        build = _uci(command, None, {}) if prefix == "uci" else _gtp(command)
    else:
        build = call(spec, "player", BUILDERS)
    return build(name or spec, settings)


def alphazero(simulations: int = 100, network: str = "") -> Build:
    """AlphaZero's search."""
    return _own(ALPHAZERO, simulations, network)


def student_of_games(simulations: int = 100, network: str = "") -> Build:
    """Search of Student of Games."""
    return _own(STUDENT, simulations, network)


def uniform() -> Build:
    """Uniformly random moves."""
    return lambda name, settings: OwnAgent(name, settings.referee, uniform_action)


def stockfish(nodes: int = 1000, skill: int | None = None, elo: int | None = None) -> Build:
    """Stockfish, one thread, of a skill up to 20, which it has by default, or of an Elo.

    Weaker than that it errs at random, in other ways in each game.
    """
    command = [find("stockfish", package="stockfish")]
    return _uci(command, nodes, _options(command, skill, elo, least=0), games=("chess",))


def fairy_stockfish(nodes: int = 1000, skill: int | None = None, elo: int | None = None) -> Build:
    """Fairy-Stockfish, in the same way, with skills from -20; also for Gardner chess."""
    command = [find("fairy-stockfish", package="fairy-stockfish")]
    options = _options(command, skill, elo, least=-20)
    return _uci(command, nodes, options, variants={"chess": "chess", "gardner_chess": "gardner"})


def gnugo(level: int = 10) -> Build:
    """GNU Go by area scoring with positional superko; it takes dead stones before it passes."""
    rules = "--mode gtp --chinese-rules --positional-superko --capture-all-dead"
    command = [find("gnugo", package="gnugo"), *rules.split()]
    return _gtp([*command, "--level", str(_checked("level", level, 0, 10))])


BUILDERS: dict[str, Callable[..., Build]] = {
    "alphazero": alphazero,
    "student_of_games": student_of_games,
    "uniform": uniform,
    "stockfish": stockfish,
    "fairy_stockfish": fairy_stockfish,
    "gnugo": gnugo,
}


def _options(command, skill, elo, *, least):
    """What Stockfish is told about its size and strength."""
    size: dict[str, str | int] = {"Threads": 1, "Hash": 16}
    if elo is None:
        return size | {"Skill Level": _checked("skill", 20 if skill is None else skill, least, 20)}
    if skill is not None:
        raise ValueError(f"skill={skill} and elo={elo} exclude each other")
    elo = _checked("elo", elo, *spin_range(command, "UCI_Elo"))
    return size | {"UCI_LimitStrength": "true", "UCI_Elo": elo}


def _own(agent, simulations, network):
    check_simulations(simulations)
    check_network(network)

    def build(name: str, settings: Settings) -> Player:
        game, known = settings.referee.game, f"{agent}({simulations},{network})"
        if known not in settings.searches:
            found = read_network_file(agent, network, game) if network else Network()
            player = found.player(agent, simulations)
            settings.searches[known] = SharedSearches(game, player, batch=settings.side_by_side)
        return OwnAgent(name, settings.referee, settings.searches[known])

    return build


def _uci(command, nodes, options, *, games=uci_moves.GAMES, variants=None):
    def build(name: str, settings: Settings) -> Player:
        game = settings.referee.name
        _check_game(name, game, games)
        variant = {"UCI_Variant": variants[game]} if variants else {}
        return UciEngine(
            name,
            command,
            nodes=settings.nodes if nodes is None else nodes,
            options=variant | options,
            **_common(name, settings),
        )

    return build


def _gtp(command):
    def build(name: str, settings: Settings) -> Player:
        game = settings.referee.game
        _check_game(name, settings.referee.name, gtp_moves.GAMES)
        return GtpEngine(
            name,
            command,
            size=gtp_moves.size(game),
            komi=gtp_moves.komi(game),
            **_common(name, settings),
        )

    return build


_LONGEST_NAME = 100  # of a file, without its end


def _common(name, settings):
    kept = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name)
    if len(kept) > _LONGEST_NAME:
        kept = f"{kept[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return dict(
        move_seconds=settings.move_seconds,
        start_seconds=settings.start_seconds,
        errors=settings.errors and settings.errors / f"{kept}.txt",
    )


def _check_game(name, game, games):
    if game not in games:
        raise ValueError(f"{name} does not play {game}; allowed: {', '.join(games)}")


def _checked(name, value, least, most):
    if not least <= value <= most:
        raise ValueError(f"{name}={value} must be from {least} to {most}")
    return value
