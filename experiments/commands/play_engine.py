"""Games of chess, Gardner chess and Go in the terminal, against any player of `engine_match`."""

from __future__ import annotations

import functools

import jax
from jaxtyping import Array, Key

from experiments.commands.play_terminal import play_games, say
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
      game: a name of `experiments.engines.referee.GAMES`.
      games: how many; None: any number.
      seat: the person's, 0 begins; None: both in turn.
      seed: of everything random; None: a new one.

    Raises:
      ValueError: there is no such player, or it does not play this game.
      OSError: its network cannot be read.
    """
    referee = load(game)
    player = make_player(spec, Settings(referee=referee))
    play_game = functools.partial(_play_game, referee, player)
    try:
        play_games(game, play_game, games=games, seat=seat, seed=seed)
    finally:
        player.close()


def _play_game(referee: Referee, player: Player, key: Key[Array, ""], person: int) -> float:
    """Plays a game with the person, whose payoff is returned."""
    player.begin(int(jax.random.randint(key, (), 0, 2**30)))
    position, moves = referee.start, []
    while not referee.is_over(position):
        legal = referee.moves(position)
        if referee.seat(position) == person:
            move = _ask(legal)
        else:
            with status(f"{player.name} thinks"):
                move = player.choose(Turn(moves=tuple(moves), position=position))
            if isinstance(move, Loss) or move not in legal:
                why = move.reason if isinstance(move, Loss) else f"plays {move}, which is illegal"
                say(f"{player.name} {why}\nYou win +1", style="bold")
                return 1.0
            say(f"{player.name}: {move}")
        moves.append(move)
        position = referee.after(position, legal[move])
    won = referee.payoff(position) * (1 if person == 0 else -1)
    say(f"{referee.ending(position)}\nYou win {won:+g}", style="bold")
    return won


def _ask(legal: dict[str, int]) -> str:
    """A legal move of the person; an EOFError if they leave."""
    words = {word.lower(): word for word in legal}
    while True:
        text = input("your move (? lists them, q leaves): ").strip().lower()
        if text == "q":
            raise EOFError
        if text in words:
            return words[text]
        say(" ".join(legal) if text == "?" else f"{text!r} is no legal move")
