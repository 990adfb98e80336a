"""Best responses to chumps of hold'em: exact, by local best response, and learned by ISMCTS-BR.

Chumps do not look at their cards, so the exact values of a best response and of local best response
can be computed (`solvers.approximate_best_response.exact_chump_responses`). ISMCTS-BR
learns in both seats from games that are played by the rules.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from experiments.best_response.response_learning import Learning, Responder
from experiments.harness.progress import status
from experiments.harness.runs import Run
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make
from solvers.approximate_best_response import (
    holdem_opponents,
    local_best_response,
    response_matches,
)
from solvers.approximate_best_response.exact_chump_responses import (
    ResponsePlan,
    chump_responses,
    chumps,
    local_value,
)
from solvers.approximate_best_response.hand_policies import HandPolicy
from solvers.approximate_best_response.local_best_response import LocalBestResponse
from train.best_response_training import ResponseSettings
from train.rl.environment import Environment

LIMIT, NO_LIMIT = "limit_holdem", "hunl(bets=1/allin)"
EXACT, LEARNED, PLAYED = "exact", "ISMCTS-BR", "LBR, played"
WITHOUT_SEARCH = "ISMCTS-BR is measured with one simulation, so it plays by its network alone"
# The actions that local best response may choose among in a round: fold, call, pot, all-in. Its
# paper lets it choose in all rounds, or only from the turn on and call before.
FCPA, FC, C = (0, 1, 2, 3), (0, 1), (1,)
FCPA_ALL, FCPA_LATE, FC_ALL, FC_LATE = (
    "LBR",
    "LBR from the turn on",
    "LBR without bets",
    "LBR without bets, from the turn on",
)
PLANS = {
    LIMIT: {EXACT: ResponsePlan(), FCPA_ALL: ResponsePlan(rule=local_value)},
    NO_LIMIT: {
        EXACT: ResponsePlan(),
        FCPA_ALL: ResponsePlan(rule=local_value),
        FCPA_LATE: ResponsePlan(rule=local_value, allowed=(C, C, FCPA, FCPA)),
        FC_ALL: ResponsePlan(rule=local_value, allowed=(FC, FC, FC, FC)),
        FC_LATE: ResponsePlan(rule=local_value, allowed=(C, C, FC, FC)),
    },
}


def deviations_of(learning: Learning, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The deviations of a run: those texts, but for `WITHOUT_SEARCH` where responders search."""
    searches = learning.measured_simulations > 1
    return tuple(text for text in texts if not (searches and text == WITHOUT_SEARCH))


@dataclasses.dataclass(frozen=True, kw_only=True)
class HoldemLearning(Learning):
    """How responders learn and search in hold'em."""

    scale: float = 2.0  # of payoffs in searches and networks, in big blinds
    no_limit_scale: float = 100.0  # in no-limit games, unless the opponent always folds
    greedy: float = 0.95  # share of the moves in training that are the likeliest

    def training_settings(self, evaluate: Any, scale: float) -> ResponseSettings:
        """As in enumerable games, but the responder acts by its network's prior."""
        settings = super().training_settings(evaluate, scale)
        return dataclasses.replace(settings, greedy=self.greedy, acts_by="prior")

    def scale_against(self, rules: Poker, chump: str) -> float:
        """The scale of payoffs against a chump, in chips."""
        large = not rules.limit and chump != "always fold"
        return (self.no_limit_scale if large else self.scale) * max(rules.blinds)


# These settings come from trials against the chump that always raises, where responders folded too
# much before the flop: while a responder plays the later rounds badly, folding is right, and then
# it does not learn the later rounds. It learns to play them against the easier chumps first. Much
# noise and a large constant of PUCB make searches try calls.
EASIER = ("always call", "call or raise")
LEARNING = HoldemLearning(
    measured_at=(0, 1000, 2000),
    simulations=16,
    measured_simulations=1,
    exploration=3.0,
    noise=0.3,
    episodes=512,
    updates=16,
    width=128,
    learning_rate=2e-3,
    decay=0.05,
    batch_size=1024,
    capacity=2**17,
    max_uses=100,
    games=50_000,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """What a responder wins, in thousandths of a big blind per hand."""

    game: str
    chump: str
    responder: str
    step: int = 0  # of training
    seats: list[float]
    error: float = 0.0  # standard error of the mean over seats; 0: exact
    gain: float | None = None  # variance of as many hands in single seats, over duplicate deals'

    @property
    def value(self) -> float:
        """What the responder wins on average over both seats."""
        return float(np.mean(self.seats))


def exact_cells(game: str, name: str) -> Iterator[Cell]:
    """What an exact best response to a chump wins, and local best response, by exact values.

    Args:
      game: the name of a two-player hold'em game.
      name: of the chump, a key of `chumps`.

    Raises:
      KeyError: the game has no such chump.
      ValueError: the game is not hold'em of two players.
    """
    rules, plans = make(game), PLANS.get(game, PLANS[LIMIT])
    with status(f"responses to {name} in {game}"):
        responses = chump_responses(rules, chumps(rules)[name], tuple(plans.values()))
    for responder, response in zip(plans, responses, strict=True):
        seats = [milli(rules) * value for value in response.values]
        yield Cell(game=game, chump=name, responder=responder, seats=seats)


def milli(game: Poker) -> float:
    """How many thousandths of a big blind a chip is."""
    return 1000 / max(game.blinds)


def played_cells(game: str, name: str, *, deals: int, seed: int) -> Iterator[Cell]:
    """What local best response wins in hands that are played, each deal in both seats."""
    rules = make(game)
    policy = functools.partial(holdem_opponents.by_chump, rules, chumps(rules)[name])
    key = jax.random.key(seed)
    with status(f"local best response to {name} in {game}"):
        won = local_best_response.duplicate_deals(
            LocalBestResponse(rules), policy, key, num_deals=deals
        )
    yield played_cell(game, name, np.asarray(won, np.float64))


def played_cell(game: str, name: str, chips: Float[np.ndarray, "D 2"]) -> Cell:
    """What local best response wins, from its chips in both games of each deal."""
    won = milli(make(game)) * chips
    both = won.mean(axis=1)
    return Cell(
        game=game,
        chump=name,
        responder=PLAYED,
        seats=won.mean(axis=0).tolist(),
        error=float(both.std(ddof=1) / len(both) ** 0.5),
        gain=float(won.var(axis=0).sum() / 4 / both.var()),
    )


def learned_cells(
    run: Run,
    game: str,
    lessons: Mapping[str, Sequence[int]],
    learning: HoldemLearning,
    policies: Mapping[str, HandPolicy] = types.MappingProxyType({}),
) -> Iterator[Cell]:
    """What ISMCTS-BR wins as it learns against one opponent after another.

    Against each of them training continues with the network that was trained against the last one.

    Args:
      run: where training keeps checkpoints and metrics.
      game: the name of a hold'em game.
      lessons: by opponent, the steps of training after which the responder is measured. Opponents
        are chumps or keys of `policies`.
      learning: the settings; `measured_at` is not used.
      policies: of opponents that look at their cards, by name.

    Raises:
      FloatingPointError: a number in training is not finite.
    """
    rules = make(game)
    poker = holdem_opponents.StrengthPoker(**rules.parameters())
    longest = max(lessons.values(), key=lambda steps: steps[-1])
    # The learning rate falls as in the longest lesson in all of them.
    learning = dataclasses.replace(learning, measured_at=tuple(longest))
    responders = [_new_responder(run, learning, poker, seat) for seat in range(2)]
    label = re.sub(r"[^\w.]+", "_", game)
    for name, steps in lessons.items():
        for seat, responder in enumerate(responders):
            responder.face(
                _game(poker, name, seat, policies),
                name=f"{label}-{name}-{seat}",
                scale=learning.scale_against(poker, name),
            )

        def measured(step, name=name) -> Cell:
            won = [_winnings(responder, poker, step) for responder in responders]
            errors = [rows.std(ddof=1) / len(rows) ** 0.5 for rows in won]
            return Cell(
                game=game,
                chump=name,
                responder=LEARNED,
                step=step,
                seats=[float(rows.mean()) for rows in won],
                error=float(np.linalg.norm(errors) / 2),
            )

        for step in steps:  # kept one by one: training does not go back to a step
            piece = f"{label}-{name}-{step}"
            yield from run.kept(piece, Cell, lambda step=step, measured=measured: [measured(step)])
        for responder in responders:
            responder.train(steps[-1])  # the next lesson goes on from there


def _new_responder(run, learning, poker, seat) -> Responder:
    """A responder in a seat of hold'em that has not learned anything yet."""
    game = _game(poker, EASIER[0], seat, {}).game
    return Responder(run, learning, Environment(game=game, features=None, legal=None), seat=seat)


def _game(poker, name, seat, policies):
    """The game against an opponent, for the responder in a seat."""
    if name in policies:
        return holdem_opponents.build_hand_game(poker, policies[name], responder=seat)
    return holdem_opponents.build_chump_game(poker, chumps(poker)[name], responder=seat)


def _winnings(responder: Responder, poker: Poker, step: int) -> np.ndarray:
    """What a responder wins in every game after `step` steps of training, in mbb."""
    responder.train(step)
    learning = responder.learning
    with status(f"{learning.games:,} games after {step} steps"):
        won = response_matches.play(
            responder.response,
            responder.params,
            jax.random.fold_in(jax.random.key(learning.seed), 10 + responder.seat),
            settings=responder.search,
            num_games=learning.games,
        )
    return milli(poker) * won
