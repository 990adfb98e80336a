"""Approximate best responses to AlphaZero agents (Timbers et al. 2020, Section 4.2, Figures 2, 3).

There are two agents: the values of one learn the returns of games, those of the other the values of
searches 25 moves later. They play each other, and ISMCTS-BR learns to exploit each of them, either
directly or by a curriculum in which the agent has more and more simulations. The response searches
with the agent's policy head in place of the agent's search; its winnings are measured against the
agent with its search.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree
from rich.table import Table

from experiments.best_response.alphazero_responses import (
    AGENTS,
    HEAD_TO_HEAD,
    RANDOM,
    WAYS,
    AlphaZeroLaboratory,
    Config,
    Rated,
    Response,
    shared_sizes,
)
from experiments.harness import elo, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import LOG
from nets import cvpn

# Shares of games won in Go, against 800 simulations: text of Section 4.2. The rules are those of
# AlphaZero and the agents those of Schmid et al. 2021, so the board is the full one.
PAPER = {
    ("returns", HEAD_TO_HEAD): 0.2325,
    ("returns", "direct"): 0.2,
    ("TD", "direct"): 0.4,
    ("returns", "curriculum"): 0.9,
    ("TD", "curriculum"): 0.9,
}
PRESETS = {
    "smoke": Config(
        game="pgx:tic_tac_toe",
        measured_at=(0, 2),
        responses_at=(0, 2),
        curriculum=(1, 2),
        duels=4,
        training_simulations=2,
        response_simulations=2,
        td_steps=3,
        width=8,
        depth=1,
        games=4,
        updates=1,
        batch_size=8,
        capacity=100,
    ),
    "cpu": Config(
        measured_at=(0, 60, 180),
        responses_at=(0, 20, 40, 60),
        curriculum=(1, 10, 50),
        duels=96,
        response_simulations=50,
        width=64,
        capacity=20_000,
    ),
    "paper": Config(
        game="pgx:go_9x9",
        measured_at=(0, 1000, 3000, 10_000),
        responses_at=(0, 350, 700, 1400, 2100, 2800, 3500),
        curriculum=(1, 10, 50, 100, 200, 400, 800),
        duels=1024,
        training_simulations=200,
        response_simulations=800,
        torso="convolutional",
        width=128,
        depth=10,
        games=512,
        updates=100,
        learning_rate=1e-3,
        batch_size=2048,
        capacity=2_000_000,
        explored_moves=30,
        sampled_moves=30,
    ),
}


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
    laboratory = AlphaZeroLaboratory(run)
    agents = {name: laboratory.agent(name) for name in AGENTS}
    players = run.kept("ladder", Rated, lambda: laboratory.ladder(agents))
    last = {name: params[run.config.measured_at[-1]] for name, params in agents.items()}
    responses = run.kept("head to head", Response, lambda: [laboratory.head_to_head(last)])
    for name, way in itertools.product(AGENTS, WAYS):
        responses += laboratory.responses(name, way, last[name])
    return Outcome(responses, players, last)


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
    """The shares of games that the responses win by training, beside the paper's."""
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
    place.plot([], [], markeredgecolor="black", label="Go (paper)", **plots.HOLLOW)
    place.set(xlabel="training steps of the response", ylabel="games won", ylim=(0, 1))
    place.set_title("ISMCTS-BR")


_COLOURS = tuple(plots.COLOURS.values())


def measure(config: Config) -> str:
    """What the numbers measure."""
    return (
        f"games that a learned response wins against the agent with {config.curriculum[-1]}"
        " simulations, half of them as the first player; what it gains is a lower bound on"
        " exploitability (NashConv / 2); Elo of the agents, 0 for one that plays at"
        " random; published: Go on the full board"
    )


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting, in words."""
    texts = [
        f"agents draw their first {config.sampled_moves} moves by visits, so that games differ",
        "the response's network also learns what positions are worth in which the agent acts",
    ]
    if config != PRESETS["paper"]:
        texts = [
            f"{config.game} instead of Go on the full board (19x19), with small networks and"
            " little training",
            f"{config.curriculum[-1]} simulations instead of 800",
            *texts,
        ]
    else:
        texts.insert(0, "Go on a board of 9x9 instead of 19x19")
    return texts


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
        results.write_file(run.out / f"network_{name}.npz", cvpn.to_bytes(params))


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """What the responses win in the end, and the agents' Elo, with two standard errors."""
    last = [response for response in outcome.responses if response.step == config.responses_at[-1]]
    last += [response for response in outcome.responses if response.way == HEAD_TO_HEAD]
    for response in last:
        name = f"{response.way}:{response.agent}"
        error = 2 * (response.won * (1 - response.won) / response.games) ** 0.5
        paper = PAPER[response.agent, response.way]
        yield _with_range(name, response.won, error, unit="share of games won", paper=paper)
    for response in last:
        gain, square = 2 * response.won + response.drawn - 1, 1 - response.drawn
        error = 2 * ((square - gain**2) / response.games) ** 0.5
        yield _with_range(
            f"{response.way}:gained from {response.agent}", gain, error, unit="payoff"
        )
    for player, strength, error in zip(outcome.players, *outcome.ratings, strict=True):
        if player.agent != RANDOM:
            column = f"{player.step} steps, {player.simulations} simulations"
            yield _with_range(f"{column}:{player.agent}", strength, 2 * error, unit="Elo")


def _with_range(name, value, error, **more) -> results.Number:
    """A number in the range of an error to either side."""
    value, error = float(value), float(error)
    return results.Number(name=name, value=value, low=value - error, high=value + error, **more)


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
        "smoke": "a minute, in tic-tac-toe",
        "cpu": "half an hour on two cores, in Connect Four",
        "paper": "9x9 Go, for an accelerator",
    },
    batches=shared_sizes,
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.TWO_STANDARD_ERRORS,
    measure=measure,
    deviations=deviations,
    more_files=("elo.csv", *(f"network_{name}.npz" for name in AGENTS), LOG),
    write_more=write_more,
)
