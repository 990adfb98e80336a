"""Approximate best responses to AlphaZero agents (Timbers et al. 2020, Section 4.2, Figures 2, 3).

There are two agents: the values of one learn the returns of games, those of the other the values of
searches some moves later (25 in the paper). They play each other, and ISMCTS-BR learns to exploit
each of them, either directly or by a curriculum in which the agent has more and more simulations.
The response searches with the agent's policy head in place of the agent's search; its winnings are
measured against the agent with its search. In Connect Four, what a perfect player wins stands
beside.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree
from rich.table import Table

from experiments.best_response.alphazero_presets import (
    PRESETS,
    Config,
    Options,
    configure,
    shared_sizes,
)
from experiments.best_response.alphazero_responses import (
    AGENTS,
    HEAD_TO_HEAD,
    PERFECT,
    PERFECT_WAYS,
    RANDOM,
    WAYS,
    AlphaZeroLaboratory,
    Rated,
    Response,
)
from experiments.harness import elo, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import say
from experiments.harness.runs import Run
from experiments.perfect_information.connect_four_positions import solver_module
from experiments.perfect_information.student import CHOSEN_RATE
from experiments.student_of_games.training_run import LOG
from nets import parameters

# Shares of games won in Go, against 800 simulations: text of Section 4.2. The rules are those of
# AlphaZero and the agents those of Schmid et al. 2021, so the board is the full one.
PAPER = {
    ("returns", HEAD_TO_HEAD): 0.2325,
    ("returns", "direct"): 0.2,
    ("TD", "direct"): 0.4,
    ("returns", "curriculum"): 0.9,
    ("TD", "curriculum"): 0.9,
}
_WINDOW = (
    "TD learns from searches {} moves later instead of 25; windows were shortened after a run with"
    " 25, to the paper's share of a game"
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is trained and measured."""

    responses: list[Response]
    players: list[Rated]
    networks: dict[str, PyTree]  # the parameters of the agents after training

    @property
    def ratings(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Elo of the players, and its standard errors."""
        return elo.ratings(np.array([player.points for player in self.players]))


def compute(run: Run) -> Outcome:
    """Trains the agents, lets them play, then trains and measures responses to them."""
    laboratory, has_perfect = AlphaZeroLaboratory(run), _has_perfect_player(run.config)
    agents = {name: laboratory.agent(name) for name in AGENTS}
    players = run.kept("ladder", Rated, lambda: laboratory.ladder(agents))
    last = {name: params[run.config.measured_at[-1]] for name, params in agents.items()}
    responses = run.kept("head to head", Response, lambda: [laboratory.head_to_head(last)])
    for name in AGENTS if has_perfect else ():
        games = functools.partial(laboratory.perfect, name, last[name])
        responses += run.kept(f"{PERFECT} {name}", Response, games)
    for name, way in itertools.product(AGENTS, WAYS):
        responses += laboratory.responses(name, way, last[name])
    return Outcome(responses, players, last)


def _has_perfect_player(config: Config) -> bool:
    """Whether there is a perfect player where one is asked for; if not, a line says why."""
    if not config.perfect_duels:
        return False
    try:
        solver_module()
    except ValueError as error:
        say(f"no games of a {PERFECT}: {error}")
        return False
    return True


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Elo of the agents by training and by simulations, and what the responses win."""
    with plots.figure(path, rows=1, columns=3, size=(9.4, 3.0)) as axes:
        _draw_agents(axes, config, outcome)
        _draw_responses(axes[0, 2], config, outcome.responses)
        axes[0, 0].set_title(f"AlphaZero, {config.game.removeprefix('pgx:')}")


def _draw_agents(axes: Any, config: Config, outcome: Outcome) -> None:
    """Elo of the agents in the first two panels."""
    most, last = config.curriculum[-1], config.measured_at[-1]
    strengths, _ = outcome.ratings
    for number, agent in enumerate(AGENTS):
        style = dict(color=_COLOURS[number], marker="os"[number], markersize=4, label=agent)
        rated = [
            (player, strength)
            for player, strength in zip(outcome.players, strengths, strict=True)
            if player.agent == agent
        ]
        line = [(player.step, elo) for player, elo in rated if player.simulations == most]
        axes[0, 0].plot(*zip(*line, strict=True), **style)
        line = [(player.simulations, elo) for player, elo in rated if player.step == last]
        axes[0, 1].plot(*zip(*line, strict=True), **style)
    axes[0, 0].set(xlabel="training steps", ylabel=f"Elo with {most} simulations")
    axes[0, 1].set(xlabel="simulations", ylabel="Elo when trained", xscale="log")


def _draw_responses(place: Any, config: Config, responses: Sequence[Response]) -> None:
    """The shares of games that the responses win by training, beside the paper's and, as dotted
    lines, those of a perfect player."""
    for (number, agent), way in itertools.product(enumerate(AGENTS), WAYS):
        line = [
            response for response in responses if (response.agent, response.way) == (agent, way)
        ]
        place.plot(
            [response.step for response in line],
            [response.won for response in line],
            color=_COLOURS[number],
            linestyle="-" if way == "direct" else "--",
            marker="os"[number],
            markersize=4,
            label=f"{agent}, {way}",
        )
        place.plot(
            [config.responses_at[-1] * (1.04 + 0.03 * number)],
            [PAPER[agent, way]],
            markeredgecolor=_COLOURS[number],
            **plots.HOLLOW,
        )
    for response in responses:
        if response.way == PERFECT:
            number = AGENTS.index(response.agent)
            dots = (3 * number, (2, 4))  # two lines at the same height are seen in turns
            style = dict(color=_COLOURS[number], linestyle=dots)
            place.axhline(response.won, label=f"{response.agent}, {PERFECT}", **style)
    place.plot([], [], markeredgecolor="black", label="Go (paper)", **plots.HOLLOW)
    place.set(xlabel="training steps of the response", ylabel="games won", ylim=(0, 1))
    place.set_title("ISMCTS-BR")


_COLOURS = tuple(plots.COLOURS.values())


def measure(config: Config) -> str:
    """What the numbers measure."""
    perfect = (
        "; so is what a perfect player gains, who takes a move with the best score of the solver"
        " bitbully, one of several at random"
    )
    return (
        f"games that a learned response wins against the agent with {config.curriculum[-1]}"
        " simulations, half of them as the first player; what it gains is a lower bound on"
        f" exploitability (NashConv / 2){perfect if config.perfect_duels else ''}; Elo of the"
        " agents, 0 for one that plays at random; published: Go on the full board"
    )


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting, in words."""
    texts = [
        f"agents draw their first {config.sampled_moves} moves by visits, so that games differ",
        "the response's network also learns what positions are worth in which the agent acts",
        f"a response's searches have {config.training_simulations} simulations in training and"
        f" {config.response_simulations} when it is measured, and the stages of the curriculum"
        " share its training evenly (the paper says neither how many its responses have, nor how"
        " long its stages are)",
    ]
    if config != PRESETS["paper"]:
        most, window = config.curriculum[-1], config.td_steps
        texts = [
            f"{config.game} instead of Go on the full board (19x19), with small networks and"
            " little training",
            *([f"{most} simulations instead of 800"] * (most != 800)),
            *([_WINDOW.format(window)] * (window != 25)),
            *texts,
        ]
    else:
        texts.insert(0, "Go on a board of 9x9 instead of 19x19")
    return texts + [CHOSEN_RATE] * (config.torso != "mlp")


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every measurement of a response."""
    return map(dataclasses.asdict, outcome.responses)


def write_more(run: Run, outcome: Outcome) -> None:
    """Writes the agents' Elo and networks."""
    lines = []
    for player, strength, error in zip(outcome.players, *outcome.ratings, strict=True):
        columns = dict(agent=player.agent, step=player.step, simulations=player.simulations)
        lines.append(columns | dict(elo=f"{strength:.1f}", error=f"{error:.1f}"))
    results.write_csv(run.out / "elo.csv", lines)
    for name, params in outcome.networks.items():
        results.write_file(run.out / f"network_{name}.npz", parameters.to_bytes(params))


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """What the responses win in the end, and the agents' Elo, with ranges of 95 %."""
    last = [response for response in outcome.responses if response.step == config.responses_at[-1]]
    for way in (HEAD_TO_HEAD, *PERFECT_WAYS):
        last += [response for response in outcome.responses if response.way == way]
    for response in last:
        yield _of_games(
            f"{response.way}:{response.agent}",
            response,
            payoffs=(1, 0, 0),
            unit="share of games won",
            paper=PAPER.get((response.agent, response.way)),
        )
    for response in last:
        name = f"{response.way}:gained from {response.agent}"
        yield _of_games(name, response, payoffs=(1, 0, -1), unit="payoff")
    for player, strength, error in zip(outcome.players, *outcome.ratings, strict=True):
        if player.agent != RANDOM:
            name = f"{player.step} steps, {player.simulations} simulations:{player.agent}"
            ends = dict(low=float(strength - 2 * error), high=float(strength + 2 * error))
            yield results.Number(name=name, value=float(strength), unit="Elo", **ends)


def _of_games(name, response, *, payoffs, **more) -> results.Number:
    """The mean of what won, drawn and lost games count, with its range."""
    shares = np.array([response.won, response.drawn, 1 - response.won - response.drawn])
    counted = np.array(payoffs)
    mean = float(shares @ counted)
    error = 2 * (max(shares @ counted**2 - mean**2, 0) / response.games) ** 0.5
    # Where nearly all games count the same, two standard errors say too little of the others; and
    # they may reach beyond what a game can count.
    least, most = float(min(payoffs)), float(max(payoffs))
    low, high = results.unseen_range(mean, response.games, least=least, most=most)
    low = max(min(low, mean - float(error)), least)
    high = min(max(high, mean + float(error)), most)
    return results.Number(name=name, value=mean, low=low, high=high, **more)


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """All numbers with their ranges."""
    lines = [
        (
            number.name.replace(":", ", "),
            number.unit,
            f"{number.value:.3g}",
            f"{number.low:.3g} to {number.high:.3g}",
        )
        for number in numbers(config, outcome)
    ]
    headings = ("", "unit", "value", "range")
    yield text_table("abr_alphazero: " + measure(config), headings, lines, labels=2)


COMMAND = Experiment(
    name="abr_alphazero",
    shown="what the responses win as they learn",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute or two",
        "cpu": "half an hour on two cores, in Connect Four",
        "connect_four": "800 simulations, 5x64 network; with --agent and --td_agent two to three"
        " hours on two cores with units for bfloat16, 13 on others (estimates)",
        "connect_four_large": "the same with more games, for an accelerator",
        "paper": "9x9 Go, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=shared_sizes,
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=(
        f"{results.TWO_STANDARD_ERRORS}; where all games ended alike, what an exact test of them"
        " does not refuse at 5 %"
    ),
    measure=measure,
    deviations=deviations,
    more_files=("elo.csv", *(f"network_{name}.npz" for name in AGENTS), LOG),
    write_more=write_more,
)
