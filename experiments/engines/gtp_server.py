"""Our agents as a program that speaks GTP, the Go text protocol (version 2, Farnebäck 2002).

The rules are pgx's: area scoring with komi 7.5, players alternate, and who repeats an earlier board
loses. What these rules do not have is refused in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from experiments.engines import thinkers
from experiments.engines.gtp_engine import COLOURS
from experiments.engines.player import move_seed
from experiments.engines.referee import Referee, load
from jaxgames.adapters import gtp_moves

_SEATS = {"black": 0, "b": 0, "white": 1, "w": 1}


class _Refusal(Exception):
    """Why a command is refused."""


class GtpServer:
    """A conversation with a controller.

    Args:
      referee: of Go; another board size loads the rules of that size.
      agent: a key of `THINKERS`.
      network: the path of its network; empty: none. With one, the board has its size.
      simulations: of a search.
      seed: of everything random.
      write: sends an answer.

    Raises:
      ValueError: an option is not possible.
      OSError: the network cannot be read.
    """

    def __init__(
        self,
        referee: Referee,
        *,
        agent: str,
        network: str = "",
        simulations: int = 800,
        seed: int = 0,
        write: Callable[[str], None] = lambda text: print(text, end="", flush=True),
    ):
        thinkers.check_simulations(simulations)
        self._agent, self._network = agent, network
        self._simulations, self._seed, self._write = simulations, seed, write
        self._commands = {
            name.removeprefix("_do_"): getattr(self, name)
            for name in dir(type(self))
            if name.startswith("_do_")
        }
        self._sit_down(referee)

    def _sit_down(self, referee):
        """Takes another board, with no stones on it."""
        self._thinker = thinkers.make_thinker(self._agent, referee.game, self._network)
        self._referee, self._size = referee, gtp_moves.size(referee.game)
        self._do_clear_board([])

    def run(self, lines: Iterable[str]) -> None:
        """Answers all lines, until `quit` or the end."""
        for line in lines:
            text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", line.partition("#")[0])
            words = text.split()
            number = words.pop(0) if words and words[0].isdigit() else ""
            if not words:
                continue
            name, arguments = words[0], words[1:]
            try:
                if name not in self._commands:
                    raise _Refusal("unknown command")
                answer = self._commands[name](arguments)
                self._write(f"={number} {answer}".rstrip() + "\n\n")
            except _Refusal as error:
                self._write(f"?{number} {error}\n\n")
            if name == "quit":
                return

    def _do_protocol_version(self, words):
        return "2"

    def _do_name(self, words):
        return f"jaxgames {self._agent}"

    def _do_version(self, words):
        return f"simulations={self._simulations}"

    def _do_known_command(self, words):
        return "true" if words and words[0] in self._commands else "false"

    def _do_list_commands(self, words):
        return "\n".join(self._commands)

    def _do_quit(self, words):
        return ""

    def _do_boardsize(self, words):
        sizes = [int(name.partition("x")[2]) for name in gtp_moves.GAMES]
        size = _number(words, int)
        if size not in sizes:
            raise _Refusal(f"unacceptable size: it must be {' or '.join(map(str, sizes))}")
        if size != self._size and self._network:
            raise _Refusal(f"unacceptable size: the network is for {self._size}")
        if size != self._size:
            self._sit_down(load(gtp_moves.GAMES[sizes.index(size)]))
        return self._do_clear_board([])

    def _do_clear_board(self, words):
        self._positions = [self._referee.start]
        return ""

    def _do_komi(self, words):
        komi, asked = gtp_moves.komi(self._referee.game), _number(words, float)
        if asked != komi:
            raise _Refusal(f"komi {asked:g} is not possible: it is {komi:g} here")
        return ""

    def _do_set_random_seed(self, words):
        self._seed = _number(words, int)
        return ""

    def _do_play(self, words):
        if len(words) != 2:
            raise _Refusal("syntax error: a colour and a vertex are needed")
        self._check_turn(words[0])
        legal = self._referee.moves(self._positions[-1])
        move = gtp_moves.PASS if words[1].lower() == gtp_moves.PASS else words[1].upper()
        if move not in legal:
            raise _Refusal("illegal move")
        self._play(legal[move])
        return ""

    def _do_genmove(self, words):
        action = self._chosen(words)
        self._play(action)
        return gtp_moves.vertex(action, self._size)

    def _do_reg_genmove(self, words):
        return gtp_moves.vertex(self._chosen(words), self._size)

    def _do_undo(self, words):
        if len(self._positions) == 1:
            raise _Refusal("cannot undo")
        self._positions.pop()
        return ""

    def _do_final_score(self, words):
        return self._referee.final_score(self._positions[-1])

    def _do_showboard(self, words):
        *rows, letters = self._referee.picture(self._positions[-1]).splitlines()
        return "\n".join(["", letters, *rows, letters])

    def _chosen(self, words: Sequence[str]) -> int:
        """The action of the agent."""
        if len(words) != 1:
            raise _Refusal("syntax error: a colour is needed")
        self._check_turn(words[0])
        thoughts = self._thinker.think(
            self._positions[-1],
            simulations=self._simulations,
            seed=move_seed(self._seed, len(self._positions) - 1),
        )
        return thinkers.best(thoughts).action

    def _check_turn(self, colour):
        if colour.lower() not in _SEATS:
            raise _Refusal(f"syntax error: {colour!r} is no colour")
        if self._referee.is_over(self._positions[-1]):
            raise _Refusal(f"the game is over: {self._referee.ending(self._positions[-1])}")
        seat = self._referee.seat(self._positions[-1])
        if _SEATS[colour.lower()] != seat:
            raise _Refusal(f"it is the turn of {COLOURS[seat]}: players alternate here")

    def _play(self, action):
        self._positions.append(self._referee.after(self._positions[-1], action))


def _number(words, kind):
    """The only argument of a command, as a number."""
    try:
        (text,) = words
        return kind(text)
    except ValueError:
        raise _Refusal("syntax error: a number is needed") from None
