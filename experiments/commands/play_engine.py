"""Chess, Go and other board games in the terminal, against any player of `engine_match`."""

from __future__ import annotations

import functools

import jax
from jaxtyping import Array, Key

from experiments.commands.play_terminal import play_games, say
from experiments.engines.game import play_game
from experiments.engines.named_players import Settings, make_player
from experiments.engines.player import Loss, Player, Turn
from experiments.engines.referee import Referee, load
from experiments.harness.progress import status


def play_person(
    spec: str, game: str, *, games: int | None, seat: int | None, seed: int | None
) -> None:
    """Plays with the person at the terminal, until they leave or the input ends.

    Args:
      spec: of the opponent; see `make_player`.
      game: a name of `experiments.engines.referee.BOARD_GAMES`.
      games: how many; None: any number.
      seat: the person's, 0 begins; None: both in turn.
      seed: of everything random; None: a new one.

    Raises:
      ValueError: there is no such player, or it does not play this game.
      OSError: its network cannot be read.
    """
    referee = load(game)
    player = make_player(spec, Settings(referee=referee))
    try:
        play_games(
            game, functools.partial(_play_game, referee, player), games=games, seat=seat, seed=seed
        )
    finally:
        player.close()


def _play_game(referee: Referee, player: Player, key: Key[Array, ""], person: int) -> float:
    """Plays a game with the person, whose payoff is returned."""
    players: list[Player] = [_Person(referee), _Shown(player)]
    seated = players if person == 0 else players[::-1]
    seed = int(jax.random.randint(key, (), 0, 2**30))
    record = play_game(referee, seated, opening=(), seed=seed)
    won = record.payoff * (1 if person == 0 else -1)
    say(referee.picture(referee.played(record.moves.split(), referee.start)))
    say(f"{record.reason}\nYou win {won:+g}", style="bold")
    return won


class _Person:
    """The person as a player; an EOFError if they leave."""

    name = "you"

    def __init__(self, referee: Referee):
        self._referee = referee

    def begin(self, seed: int) -> None:
        pass

    def choose(self, turn: Turn) -> str | Loss:
        legal = self._referee.moves(turn.position)
        words = {word.lower(): word for word in legal}
        say(self._referee.picture(turn.position))
        while True:
            text = input("your move (? lists them, q leaves): ").strip().lower()
            if text == "q":
                raise EOFError
            if text in words:
                return words[text]
            say(" ".join(legal) if text == "?" else f"{text!r} is no legal move")

    def object_to(self, end: Turn, score: str | None) -> str | None:
        return None

    def close(self) -> None:
        pass


class _Shown:
    """A player whose moves are shown to the person."""

    def __init__(self, player: Player):
        self.name, self._player = player.name, player

    def begin(self, seed: int) -> None:
        self._player.begin(seed)

    def choose(self, turn: Turn) -> str | Loss:
        with status(f"{self.name} thinks"):
            move = self._player.choose(turn)
        if not isinstance(move, Loss):
            say(f"{self.name}: {move}")
        return move

    def object_to(self, end: Turn, score: str | None) -> str | None:
        return self._player.object_to(end, score)

    def close(self) -> None:
        self._player.close()
