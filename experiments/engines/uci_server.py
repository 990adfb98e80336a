"""Our agents as a program that speaks UCI (Meyer-Kahlen and Huber 2000).

Commands are read while a search goes on; between its pieces, `stop`, `quit` and `isready` are
obeyed, and other lines wait for its end. What cannot be done is answered by
`info string error: ...`, and nothing changes. Each `go` gets one `bestmove`, whatever is wrong.
"""

from __future__ import annotations

import collections
import functools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from experiments.engines.player import move_seed
from experiments.engines.referee import Referee, load
from experiments.engines.thinkers import (
    MOST_SIMULATIONS,
    THINKERS,
    Thinker,
    Thought,
    check_network,
    check_simulations,
    make_thinker,
)
from jaxgames.adapters import uci_moves
from jaxgames.adapters.pgx_beliefs import PgxPosition
from jaxgames.registry import unknown

EMPTY = "<empty>"  # UCI's word for a text without letters
MOST_SEED = 2**31 - 1
_MOST_LIMIT = 2**31 - 1  # of `go`; more makes no difference
_SHARE_OF_CLOCK = 1 / 30  # of the time that is left, for one move
_FOREIGN = ("depth", "mate")  # limits that these searches do not have
_LIMITS = ("nodes", "movetime", "wtime", "btime", "winc", "binc", "movestogo", *_FOREIGN)
_FLAGS = ("infinite", "ponder")
_MOVES = "searchmoves"  # before moves, up to the next word of these
_WORDS_OF_GO = (*_LIMITS, *_FLAGS, _MOVES)
_ENDS = ("stop", "ponderhit", "quit")  # commands that end a search
_NO_MOVE = "(none)"


class UciServer:
    """A conversation with a graphical interface.

    Args:
      game: chess or gardner_chess; its rules are loaded when they are needed.
      agent: a key of `THINKERS`.
      network: the path of its network; empty: none.
      simulations: the most of a search, unless `go nodes` asks for another number.
      seed: of everything random.
      write: sends a line.

    Raises:
      ValueError: a number is out of range.
    """

    def __init__(
        self,
        game: str,
        *,
        agent: str,
        network: str = "",
        simulations: int = 800,
        seed: int = 0,
        write: Callable[[str], None] = lambda line: print(line, flush=True),
    ):
        self._game, self._write = game, write
        self._options: dict[str, str | int] = {"Agent": agent, "Network": network}
        self._options |= {"Simulations": simulations, "Seed": seed}
        check_simulations(simulations)
        _number("seed", str(seed), 0, MOST_SEED)
        self._thinkers: dict[tuple, Thinker] = {}
        self._warm: set[tuple] = set()  # options with which a search was compiled
        self._start, self._moves = ("startpos",), ()
        self._lines: queue.Queue[str | None] = queue.Queue()
        # read during a search, to be obeyed after it
        self._waiting: collections.deque[str | None] = collections.deque()

    @functools.cached_property
    def _referee(self) -> Referee:
        return load(self._game)

    @functools.cached_property
    def _position(self) -> PgxPosition:
        """The position that is searched, at the beginning the first."""
        return self._referee.start

    @property
    def _thinker(self) -> Thinker:
        """The agent of the options."""
        chosen = self._options["Agent"], self._options["Network"]
        if chosen not in self._thinkers:
            self._thinkers = {chosen: make_thinker(chosen[0], self._referee.game, chosen[1])}
        return self._thinkers[chosen]

    def run(self, lines: Iterable[str]) -> None:
        """Answers all lines, until `quit` or the end."""
        reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        reader.start()
        while (line := self._next()) is not None:
            if _command(line) == "quit":
                return
            try:
                self._obey(line.split())
            except (ValueError, OSError) as error:
                self._refuse(error)

    def _read(self, lines):
        try:
            for line in lines:
                self._lines.put(line)
                if _command(line) == "quit":
                    break
        finally:
            self._lines.put(None)

    def _next(self) -> str | None:
        return self._waiting.popleft() if self._waiting else self._lines.get()

    def _refuse(self, error: Exception | str) -> None:
        self._write(f"info string error: {' '.join(str(error).split())}")

    def _obey(self, words: list[str]) -> None:
        commands = {
            "uci": self._uci,
            "isready": self._is_ready,
            "setoption": self._set_option,
            "position": self._set_position,
            "go": self._go,
        }
        name = words[0] if words else ""
        if name in commands:
            commands[name](words[1:])
        elif words and name not in ("ucinewgame", "stop", "ponderhit", "debug", "register"):
            raise ValueError(f"unknown command {name!r}")

    def _uci(self, words):
        options = self._options
        self._write(f"id name jaxgames {self._game}")
        self._write("id author the authors of jaxgames")
        agents = " ".join(f"var {name}" for name in THINKERS)
        self._write(f"option name Agent type combo default {options['Agent']} {agents}")
        self._write(f"option name Network type string default {options['Network'] or EMPTY}")
        for name, least, most in (("Simulations", 1, MOST_SIMULATIONS), ("Seed", 0, MOST_SEED)):
            spin = f"type spin default {options[name]} min {least} max {most}"
            self._write(f"option name {name} {spin}")
        if self._game == "gardner_chess":
            self._write("option name UCI_Variant type combo default gardner var gardner")
        self._write("uciok")

    def _is_ready(self, words):
        """Compiles what a search needs, so that the first move takes no longer than others."""
        try:
            if self._key() not in self._warm:
                start, count = self._referee.start, int(self._options["Simulations"])
                first = next(iter(self._thinker.think(start, simulations=count, seed=0)))
                self._referee.after(start, first.action)
                self._warm.add(self._key())
        finally:
            self._write("readyok")

    def _key(self):
        return tuple(self._options[name] for name in ("Agent", "Network", "Simulations"))

    def _set_option(self, words):
        if words[:1] != ["name"] or "value" not in words:
            raise ValueError(f"setoption {' '.join(words)!r} must be name ... value ...")
        at = words.index("value")
        name, value = " ".join(words[1:at]), " ".join(words[at + 1 :])
        names = {known.lower(): known for known in self._options}
        if name.lower() == "uci_variant" and self._game == "gardner_chess":
            if value != "gardner":
                raise ValueError(f"UCI_Variant={value!r} must be gardner")
            return
        if name.lower() not in names:
            raise ValueError(f"unknown option {name!r}; known: {', '.join(self._options)}")
        name = names[name.lower()]
        if name == "Simulations":
            self._options[name] = _number(name, value, 1, MOST_SIMULATIONS)
        elif name == "Seed":
            self._options[name] = _number(name, value, 0, MOST_SEED)
        elif name == "Agent":
            if value not in THINKERS:
                raise ValueError(unknown("agent", value, THINKERS))
            self._options[name] = value
        else:
            network = "" if value == EMPTY else value
            check_network(network)
            self._options[name] = network

    def _set_position(self, words):
        at = words.index("moves") if "moves" in words else len(words)
        start, moves = tuple(words[:at]), tuple(words[at + 1 :])
        known = self._moves if start == self._start else None
        if known is not None and moves[: len(known)] == known:
            position, rest = self._position, moves[len(known) :]
        elif start == ("startpos",):
            position, rest = self._referee.start, moves
        elif start[:1] == ("fen",):
            position, rest = uci_moves.from_fen(self._referee.game, " ".join(start[1:])), moves
        else:
            raise ValueError(f"position {' '.join(words)!r} must be startpos or fen ...")
        self._position = self._played(rest, position)
        self._start, self._moves = start, moves

    def _played(self, moves, position):
        """The position after some moves, or that in which pgx ends the game before the last of
        them, as its rules of draws are not those of all programs."""
        for move in moves:
            if self._referee.is_over(position):
                self._refuse(f"the game is over before {move}: {self._referee.ending(position)}")
                break
            position = self._referee.played([move], position)
        return position

    def _go(self, words):
        try:
            best = self._best(words)
        except (ValueError, OSError) as error:  # such as a network that cannot be read
            self._refuse(error)
            best = _NO_MOVE
        self._write(f"bestmove {best}")

    def _best(self, words: list[str]) -> str:
        """Searches; the move that was found."""
        limits, moves, faults = _limits(words)
        for fault in faults:
            self._refuse(fault)
        endless = "infinite" in limits or "ponder" in limits
        if not self._referee.moves(self._position):
            self._write("info string the game is over")
            if endless:
                self._told_to_stop(endless=True, wait=True)
            return _NO_MOVE
        position, simulations = self._among(moves), self._simulations(limits)
        seconds = search_seconds(limits, white=self._referee.seat(self._position) == 0)
        begin, last, informed = time.monotonic(), None, 0
        for thought in self._thinker.think(
            position,
            simulations=simulations,
            seed=move_seed(int(self._options["Seed"]), len(self._moves)),
        ):
            last, elapsed = thought, time.monotonic() - begin
            if thought.simulations >= 2 * informed:
                self._inform(thought, elapsed)
                informed = thought.simulations
            if self._told_to_stop(endless=endless) or time.monotonic() - begin >= seconds:
                break
        else:
            if endless:  # the answer waits for `stop`
                self._told_to_stop(endless=True, wait=True)
        if last.simulations != informed:
            self._inform(last, elapsed)
        return self._words(last)[0]

    def _among(self, moves: Sequence[str]) -> PgxPosition:
        """The position, in which other moves than these are illegal; all are allowed if none is."""
        legal = self._referee.moves(self._position)
        if illegal := [move for move in moves if move not in legal]:
            self._refuse(f"{_MOVES}: illegal are {' '.join(illegal)}")
        actions = [legal[move] for move in moves if move in legal]
        if not actions:
            return self._position
        mask = np.zeros(np.shape(self._position.pgx.legal_action_mask), bool)
        mask[actions] = True
        return self._position.replace(pgx=self._position.pgx.replace(legal_action_mask=mask))

    def _simulations(self, limits: Mapping[str, int]) -> int:
        """The most simulations of a search, told where something else was asked for."""
        asked = limits.get("nodes", int(self._options["Simulations"]))
        simulations = max(1, min(asked, MOST_SIMULATIONS))
        whys = [f"{name} is not supported" for name in _FOREIGN if name in limits]
        if simulations != asked:
            whys.append(f"nodes must be from 1 to {MOST_SIMULATIONS}")
        for why in whys:
            self._write(f"info string {why}: simulations of this search: {simulations}")
        return simulations

    def _told_to_stop(self, *, endless: bool, wait: bool = False) -> bool:
        """Reads the lines that have come, up to one that ends the search.

        `isready` is answered at once. All others wait for the end of the search, in their order;
        one that ends this search then ends those too that were asked for before it. The end of the
        input ends a search that is endless.
        """

        def ends(line):
            return endless if line is None else _command(line) in _ENDS

        told = any(map(ends, self._waiting))
        while not told and (wait or not self._lines.empty()):
            line = self._lines.get()
            if line is not None and _command(line) == "isready":
                self._write("readyok")
            else:
                self._waiting.append(line)
                told = ends(line)
        return told

    def _inform(self, thought: Thought, seconds: float) -> None:
        speed = round(thought.simulations / max(seconds, 1e-3))
        line = self._words(thought)
        self._write(
            f"info depth {len(line)} time {round(1000 * seconds)}"
            f" nodes {thought.simulations} nps {speed}"
            f" score cp {centipawns(thought.value)} pv {' '.join(line)}"
        )

    def _words(self, thought: Thought) -> list[str]:
        """The moves of a thought's line."""
        position: PgxPosition = self._position
        words: list[str] = []
        for action in thought.line:
            moves = {number: move for move, number in self._referee.moves(position).items()}
            if action not in moves:
                break
            words.append(moves[action])
            position = self._referee.after(position, action)
        return words


def centipawns(value: float) -> int:
    """A value from -1 to 1 in hundredths of a pawn, by the formula of Leela Chess Zero."""
    return round(90 * math.tan(1.5637541897 * max(-1.0, min(value, 1.0))))


def _command(line: str) -> str:
    """The first word of a line."""
    return (line.split() or [""])[0]


def _limits(words: Sequence[str]) -> tuple[dict[str, int], list[str], list[str]]:
    """What `go` asks for.

    Returns:
      The limits, in which flags are 1; the moves of `searchmoves`; what is wrong, in words.
    """
    rest = collections.deque(words)
    limits: dict[str, int] = {}
    moves: list[str] = []
    faults: list[str] = []
    while rest:
        name = rest.popleft()
        if name in _FLAGS:
            limits[name] = 1
        elif name == _MOVES:
            while rest and rest[0] not in _WORDS_OF_GO:
                moves.append(rest.popleft())
        elif name in _LIMITS:
            text = rest.popleft() if rest and rest[0] not in _WORDS_OF_GO else ""
            try:
                limits[name] = max(-_MOST_LIMIT, min(int(text), _MOST_LIMIT))
            except ValueError:
                faults.append(f"{name}={text} must be a whole number")
        else:
            faults.append(f"go: {name!r} is not among {', '.join(_WORDS_OF_GO)}")
    return limits, moves, faults


def search_seconds(limits: Mapping[str, int], *, white: bool) -> float:
    """How long a search may take. `movestogo` is a hint that is not needed.

    With a clock it is a share of what is left and half of the increment, but never more than half
    of what is left.

    Args:
      limits: of `go`, in milliseconds.
      white: whether white is to move.
    """
    if "infinite" in limits or "ponder" in limits:
        return math.inf
    if "movetime" in limits:
        return limits["movetime"] / 1000
    left, more = ("wtime", "winc") if white else ("btime", "binc")
    if left not in limits:
        return math.inf
    share = limits[left] * _SHARE_OF_CLOCK + limits.get(more, 0) / 2
    return max(min(share, limits[left] / 2), 0) / 1000


def _number(name: str, text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise ValueError(f"{name}={text} must be a whole number from {least} to {most}")
    return number
