"""One game of two players, which ends whatever they do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments.engines.player import Loss, Player, Turn
from experiments.engines.program import short
from experiments.engines.referee import Referee


@dataclasses.dataclass(frozen=True, kw_only=True)
class GameRecord:
    """A game that was played to its end."""

    first: str
    """The name of the player who began: white in chess, black in Go."""
    second: str
    opening: int
    """How many of the moves were given."""
    moves: str
    """In the words of UCI or GTP, separated by spaces."""
    payoff: float
    """What the first player won: 1, 0 or -1."""
    reason: str
    fault: str | None = None
    """The player who lost because something went wrong with it; None: nothing did."""
    first_disagrees: bool = False
    """Whether the first player's rules were others than pgx's in this game; `reason` says where."""
    second_disagrees: bool = False


def play_game(
    referee: Referee, players: Sequence[Player], *, opening: Sequence[str], seed: int
) -> GameRecord:
    """Plays a game. A player who gives no legal move loses it, and so does one who refuses a move.
    An illegal move is a disagreement about the rules; what is no move at all is a fault.

    Args:
      referee: of the game.
      players: who begins, and the other.
      opening: moves that are given.
      seed: of the players.
    """
    moves, position = [*opening], referee.played(opening, referee.start)

    def record(payoff, reason, *, fault=None, disagree=(False, False)):
        return GameRecord(
            first=players[0].name,
            second=players[1].name,
            opening=len(opening),
            moves=" ".join(moves),
            payoff=payoff,
            reason=reason,
            fault=fault,
            first_disagrees=disagree[0],
            second_disagrees=disagree[1],
        )

    for player in players:
        player.begin(seed)
    while not referee.is_over(position):
        seat = referee.seat(position)
        player, legal = players[seat], referee.moves(position)
        move = player.choose(Turn(moves=tuple(moves), position=position))
        if not isinstance(move, Loss) and move not in legal:
            move = _loss_by(move, is_move=referee.is_move(move))
        if isinstance(move, Loss):
            payoff = -1.0 if seat == 0 else 1.0
            return record(
                payoff,
                f"{player.name} {move.reason}",
                fault=player.name if move.fault else None,
                disagree=[move.disagrees and number == seat for number in range(2)],
            )
        moves.append(move)
        position = referee.after(position, legal[move])
    end, score = Turn(moves=tuple(moves), position=position), referee.final_score(position)
    objections = [player.object_to(end, score) for player in players]
    reasons = [
        f"{player.name} {objection}"
        for player, objection in zip(players, objections, strict=True)
        if objection
    ]
    return record(
        referee.payoff(position),
        "; ".join([referee.ending(position), *reasons]),
        disagree=[objection is not None for objection in objections],
    )


def _loss_by(text: str, *, is_move: bool) -> Loss:
    """The loss of a player whose answer is no legal move."""
    if is_move:
        reason = f"played {short(text)}, which is illegal"
        return Loss(reason=reason, fault=False, disagrees=True)
    return Loss(reason=f"answered {short(text)}, which is no move")
