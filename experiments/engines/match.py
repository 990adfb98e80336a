"""A match of two players over pairs of games with the same opening and swapped colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from experiments.engines.game import GameRecord, play_game
from experiments.engines.player import Player
from experiments.engines.referee import Referee
from experiments.harness import elo, results
from jaxgames.checks import at_least

RESAMPLES = 10_000
_TRIES = 1_000  # to draw an opening that is new
ERROR_BARS = (
    "95 %, by the bootstrap over pairs of games; not narrower than what pairs unlike all N that"
    " were played may make of the share, if they are a part 1 - 0.05^(1/N) of all, the most that an"
    " exact test does not refuse at 5 %"
)


def draw_openings(referee: Referee, *, pairs: int, length: int, seed: int) -> list[tuple[str, ...]]:
    """Openings of random legal moves, which lead to different positions.

    Args:
      referee: of the game.
      pairs: how many.
      length: moves of each; 0: every game begins at the start.
      seed: of the moves; the first openings do not depend on how many are drawn.

    Raises:
      ValueError: `length` is negative, or there are too few openings of this length.
    """
    at_least(0, opening_moves=length)
    found: dict[bytes, tuple[str, ...]] = {}  # by position
    generator, tries = np.random.default_rng(seed), 0
    while length and len(found) < pairs:
        if tries == _TRIES:
            raise ValueError(
                f"opening_moves={length} must be another number: there are too few different"
                f" openings that do not end the game for pairs={pairs}"
            )
        before, drawn = len(found), _draw_opening(referee, length, generator)
        if drawn is not None:
            found.setdefault(*drawn)
        tries = tries + 1 if len(found) == before else 0
    return [*found.values()] if length else [()] * pairs


def _draw_opening(referee, length, generator):
    """What players see of the position after an opening, and its moves; None: the game was over
    before."""
    position, moves = referee.start, []
    for _ in range(length):
        legal = referee.moves(position)
        moves.append([*legal][generator.integers(len(legal))])
        position = referee.after(position, legal[moves[-1]])
        if referee.is_over(position):
            return None
    return np.asarray(referee.game.encode(position)).tobytes(), tuple(moves)


def play_pair(
    referee: Referee,
    players: Sequence[Player],
    *,
    opening: Sequence[str],
    seed: int,
) -> list[GameRecord]:
    """Plays two games from one opening: each player begins one, the first player the first.

    Args:
      referee: of the game.
      players: the two.
      opening: moves that are given.
      seed: of the players; that of the second game is the next one.
    """
    return [
        play_game(referee, seated, opening=opening, seed=seed + number)
        for number, seated in enumerate((players, players[::-1]))
    ]


def points(pairs: Sequence[Sequence[GameRecord]]) -> Float[np.ndarray, "N 2"]:
    """What the first player got in the games of each pair: 1 for a win, 1/2 for a draw."""
    return np.array([[(1 + a.payoff) / 2, (1 - b.payoff) / 2] for a, b in pairs])


def numbers(names: Sequence[str], pairs: Sequence[Sequence[GameRecord]]) -> list[results.Number]:
    """The result of a match for its first player.

    Args:
      names: of the players.
      pairs: the games of each pair.

    Returns:
      Wins, draws and losses; the share of the points and the difference in Elo, with intervals;
      for each player, the games that it lost because something went wrong with it, and those in
      which its rules were others than pgx's.
    """
    games = [game for pair in pairs for game in pair]
    each = points(pairs)
    found = [
        results.Number(name=name, value=float(np.sum(each == value)), unit="games")
        for name, value in (("wins", 1.0), ("draws", 0.5), ("losses", 0.0))
    ]
    share, low, high = share_interval(each.mean(axis=1))
    found.append(
        results.Number(name="share of points", value=share, low=low, high=high, unit="points/game")
    )
    if 0 < share < 1:
        # a bootstrap sample may have no loss at all: a bound of a share is kept from 0 and 1
        unseen_low, unseen_high = results.unseen_range(share, len(pairs))
        least = min(1 / (4 * len(games)), unseen_low, 1 - unseen_high)
        low, high = (elo.difference(min(max(x, least), 1 - least)) for x in (low, high))
        found.append(
            results.Number(
                name="Elo difference",
                value=elo.difference(share),
                low=low,
                high=high,
                unit="Elo",
            )
        )
    else:
        word, bound = ("at least", low) if share == 1 else ("at most", high)
        found.append(
            results.Number(name=f"Elo difference, {word}", value=elo.difference(bound), unit="Elo")
        )
    return [*found, *failures(names, pairs)]


def failures(names: Sequence[str], pairs: Sequence[Sequence[GameRecord]]) -> list[results.Number]:
    """For each player, the games that it lost because something went wrong with it, and those in
    which its rules were others than pgx's.

    Args:
      names: of the players.
      pairs: the games of each pair.
    """
    games = [game for pair in pairs for game in pair]
    found = []
    for name in names:
        faults = sum(game.fault == name for game in games)
        disagreements = sum(
            (game.first_disagrees and game.first == name)
            or (game.second_disagrees and game.second == name)
            for game in games
        )
        for what, count in (("faults of", faults), ("disagreements with", disagreements)):
            found.append(results.Number(name=f"{what} {name}", value=float(count), unit="games"))
    return found


def share_interval(shares: Float[np.ndarray, " N"]) -> tuple[float, float, float]:
    """The mean share of the points of N pairs, and the ends of its interval of 95 % confidence.

    By the bootstrap (Efron 1979), which knows no pairs but those that were played and says nothing
    where all are alike; so the interval is widened to hold `results.unseen_range`. Where one player
    has won all pairs this is the exact test: a share p of won pairs is kept if p^N is at least 5 %.
    """
    mean, count = float(shares.mean()), len(shares)
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    ends = (results.LEVEL / 2, 1 - results.LEVEL / 2)
    low, high = np.quantile(shares[drawn].mean(axis=1), ends)
    unseen_low, unseen_high = results.unseen_range(mean, count)
    return mean, min(float(low), unseen_low), max(float(high), unseen_high)


def elo_text(found: Sequence[results.Number]) -> str:
    """The difference in Elo for people, such as `+120 (+70 to +180)` or `>= 400`."""
    number = next(number for number in found if number.name.startswith("Elo difference"))
    if number.low is None:
        sign = ">=" if number.name.endswith("at least") else "<="
        return f"{sign} {number.value:.0f}"
    return f"{number.value:+.0f} ({number.low:+.0f} to {number.high:+.0f})"


def pair_seed(seed: int, *numbers: int) -> int:
    """The seed of the players in the first game of a pair, which numbers tell from others."""
    return int(np.random.default_rng((seed, *numbers)).integers(2**30))
