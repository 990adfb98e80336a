"""Training Student of Games for Scotland Yard on the map of London (Schmid et al. 2023, Fig. 5).

A network learns by sound self-play; detectives and Mr X are dealt anew in each game. Exploitability
cannot be computed here. In its place the agent, with the searches of training, meets PimBot with a
few simulations as training goes on, in both roles. `sog_pimbot` measures the trained agent.

The paper's network is a multilayer perceptron. The preset `stations`, or `--network stations` with
another one, trains ours instead, whose stations share their weights (`nets.station_network`).
Settings, presets and options are in `london_settings`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence

import jax
from flax import nnx
from rich.table import Table

from experiments.harness import devices, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.network_files import NETWORKS, network_file, write_network
from experiments.harness.runs import Run
from experiments.harness.win_shares import WILSON, Counted, error_bars
from experiments.scotland_yard.agent_games import (
    ROLES,
    Games,
    play_games,
    room_in_words,
    student_player,
)
from experiments.scotland_yard.london_settings import (
    PAPER_NETWORK,
    PRESETS,
    Config,
    Options,
    beliefs_of,
    configure,
    first_network,
)
from experiments.scotland_yard.trained_students import trained_elsewhere
from experiments.student_of_games.training_run import LOG, READINGS, lost_queries, student
from jaxgames.registry import make
from nets import cvpn, parameters
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.matches import make_pimbot
from solvers.scotland_yard.pimbot import PimBot
from solvers.search.search_state import GrowingTreeCfr
from train.metrics import read_metrics
from train.paper_settings import PAPER_QUERIES, learner_deviations, paper_settings
from train.student_of_games_training import StudentOfGamesSettings, policy_sizes

_TIMED_STEPS = 5
_MAX_PATH = 3  # public states from one decision to the next: Mr X's move, and showing himself


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured(Counted):
    """Games after some training."""

    step: int
    opponent: int  # simulations of PimBot
    role: str  # of Student of Games


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptNetwork:
    """A network that is in the run's folder."""

    step: int  # of training, after which it was written


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast training went in the end."""

    seconds: float  # of a step of training, the median of some
    games: float  # that ended in a step, the mean of all steps

    @property
    def games_per_hour(self) -> float:
        """Of self-play, with the learner's work."""
        return 3600 * self.games / self.seconds


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of the training."""

    measured: list[Measured]
    pace: Pace
    log: list[
        dict[str, int | float | None]
    ]  # metrics of some steps, as `train.metrics` writes them


def search_settings(config: Config, graph: nnx.GraphDef) -> GrowingTreeCfr:
    """The searches of training."""
    return GrowingTreeCfr(
        cvpn.CvpnEvaluator(graph),
        simulations=config.simulations,
        children=config.children,
        decision_shares=config.decision_shares,
        max_path=_MAX_PATH,
    )


def training_settings(config: Config, graph: nnx.GraphDef) -> StudentOfGamesSettings:
    """The paper's settings for Scotland Yard (Table S2), with the config's sizes and learner."""
    sizes = {name: getattr(config, name) for name in ("episodes", "solves", "updates", "learner")}
    return paper_settings("scotland_yard", search_settings(config, graph), **sizes)


def compute(run: Run) -> Outcome:
    """Trains, keeps networks, and plays with them against PimBot; each match is kept."""
    config = run.config
    beliefs, rules = beliefs_of(config), make(config.game)
    network = first_network(beliefs, config)
    graph, like = nnx.split(network)
    settings = training_settings(config, graph)
    play = compiled_play(rules, devices.local(run.mesh))

    @functools.cache  # not made where all networks are there: its buffer of examples is large
    def trainee():
        return student(beliefs, network, settings, run, seed=config.seed)

    def pace() -> Iterator[Pace]:
        last = config.measured_at[-1]
        trainee().train(last)
        seconds = statistics.median(trainee().timed_steps(_TIMED_STEPS))
        yield Pace(seconds=seconds, games=int(trainee().state.games) / last)

    def train(step: int) -> Iterator[KeptNetwork]:
        trainee().train(step)
        write_network(run, step, trainee().params)
        yield KeptNetwork(step=step)

    def network_after(step: int) -> pathlib.Path:
        if step == config.measured_at[-1]:
            run.kept("pace", Pace, pace)
        run.kept(f"network-{step}", KeptNetwork, functools.partial(train, step))
        return network_file(run.out, step)

    def measure(step: int, opponent: int, role: str) -> Iterator[Measured]:
        player = student_player(
            beliefs, parameters.read_params(network_after(step), like), settings.search
        )
        games = Games(
            title=f"step {step:,}, {role}, PimBot({opponent})",
            number=config.games,
            batch=config.batch,
            key=jax.random.fold_in(jax.random.key(config.seed + 1), ROLES.index(role)),
        )
        pimbot = PimBot(
            simulations=opponent, exploration=config.exploration, reduction=config.reduction
        )
        won = play_games(play, player, make_pimbot(rules, pimbot), role=role, games=games)
        yield Measured(step=step, opponent=opponent, role=role, games=won.games, won=won.wins)

    if run.arguments.games_last:
        for step in config.measured_at:
            network_after(step)
    found = []
    # the agent's programs stay while its role does
    for step, role, opponent in itertools.product(config.measured_at, ROLES, config.opponents):
        name = f"{step}-{opponent}-{role}"
        found += run.kept(name, Measured, functools.partial(measure, step, opponent, role))
    (speed,) = run.kept("pace", Pace, pace)
    return Outcome(found, speed, read_metrics(run.out / LOG) if run.writes else [])


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for each measurement."""
    for each in outcome.measured:
        yield each.row()


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The share of games that were won, by step, role and opponent; and how training went."""
    for each in outcome.measured:
        (low, high), value = each.share.interval, each.share.value
        name = f"step {each.step}, {each.role}:PimBot({each.opponent})"
        yield results.Number(name=name, value=value, unit="share of games", low=low, high=high)
    pace = outcome.pace
    yield results.Number(name="self-play", value=pace.games_per_hour, unit="games/h")
    yield results.Number(name="training", value=pace.seconds, unit="s a step")
    searches = sum(config.episodes + line["solved"] for line in outcome.log)
    if searches:
        full = sum(line["full"] for line in outcome.log) / searches
        yield results.Number(name="full trees", value=full, unit="share of searches")


def losses(
    log: Sequence[Mapping[str, int | float | None]], name: str, *, points: int = 60
) -> tuple[list[float], list[float]]:
    """Means of a loss over parts of training.

    Args:
      log: metrics of steps.
      name: of the loss.
      points: the most parts.

    Returns:
      The mean steps of the parts, and the mean losses; parts without losses are left out.
    """
    known = [(line["step"], line[name]) for line in log if line[name] is not None]
    size = max(1, math.ceil(len(known) / points))
    parts = [known[begin : begin + size] for begin in range(0, len(known), size)]
    steps = [statistics.fmean(step for step, _ in part) for part in parts]
    return steps, [statistics.fmean(loss for _, loss in part) for part in parts]


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Shares of games by steps of training, a line for each role and opponent; and the losses."""
    with plots.figure(path, rows=1, columns=2, size=(9.0, 3.6)) as axes:
        won, lost = axes[0]
        for number, (opponent, role) in enumerate(itertools.product(config.opponents, ROLES)):
            mine = [
                each for each in outcome.measured if (each.opponent, each.role) == (opponent, role)
            ]
            shares = [each.share for each in mine]
            won.errorbar(
                [each.step for each in mine],
                [share.value for share in shares],
                error_bars(shares),
                label=f"as {role}, PimBot({opponent})",
                color=plots.colour(number),
                marker=plots.marker(number),
                capsize=2,
            )
        won.set(xlabel="steps of training", ylabel="share of games won", ylim=(0, 1))
        for number, name in enumerate(("values", "policy")):
            line = losses(outcome.log, name)
            lost.plot(*line, label=f"loss of {name}", color=plots.colour(4 + number))
        lost.set(xlabel="steps of training", ylabel="loss")
        lost.set_yscale("log", nonpositive="mask")  # 0 before there are examples


def tables(config: Config, outcome: Outcome) -> Iterator[Table | str]:
    """Games won by steps of training."""
    columns = [*itertools.product(config.opponents, ROLES)]
    lines = [
        (
            f"{step:,}",
            *(
                f"{each.won} of {each.games}"
                for column in columns
                for each in outcome.measured
                if (each.step, each.opponent, each.role) == (step, *column)
            ),
        )
        for step in config.measured_at
    ]
    headings = ("step", *(f"as {role}, PimBot({opponent})" for opponent, role in columns))
    title = f"sog_london: games won by SoG({config.simulations},1)"
    yield text_table(title, headings, lines, labels=0)
    yield f"Self-play made {outcome.pace.games_per_hour:,.0f} games an hour in the end."


def deviations(config: Config) -> list[str]:
    """What differs from the paper."""
    learner = "; ".join(learner_deviations("scotland_yard", config.learner))
    network, paper = (
        f"{depth} layers of {width} units"
        for width, depth in ((config.width, config.depth), PAPER_NETWORK.values())
    )
    return [
        f"{config.measured_at[-1]:,} steps of {config.episodes} moves and {config.solves} queries"
        " at most; the paper: up to 17 million steps",
        *[
            f"training begins with the last network of {config.start}, which has had"
            f" {config.start_steps:,} steps of training"
            f"{trained_elsewhere(config.start_games)}; its optimizer and its examples begin anew"
        ]
        * bool(config.start),
        f"searches of training have {config.simulations} simulations; the paper does not say how"
        " many it trains with",
        *lost_queries(config, *PAPER_QUERIES["scotland_yard"]),
        *[f"the network has {network}; the paper: {paper}"]
        * (network != paper and config.network == "mlp"),
        *[
            f"the network is ours, and has the map built in: for each station {network} that share"
            f" their weights; the paper: {paper} for the whole board. It was added, and its sizes"
            " were chosen, because the paper's fits examples of a short training and says little of"
            " new ones. That layers see neighbouring stations, and detectives' moves the way to Mr"
            " X, was added because the trained network without it said little of detectives' moves"
            " in examples that had been held out"
        ]
        * (config.network == "stations"),
        *[
            f"{config.late_starts:.0%} of the games of training begin at random stations, right"
            " after Mr X has shown himself, with cards drawn at random; in the paper none do"
        ]
        * (config.late_starts > 0),
        *[f"factors of products are rounded to {config.dtype}"] * (config.dtype != "float32"),
        *[f"the learner: {learner}"] * bool(learner),
        f"PUCT's constant is not published; here it is {GrowingTreeCfr.exploration:g}, beside"
        " values in payoffs of the game",
        READINGS,
        "the paper leaves the numbers of tickets open: they are those of the printed game; the"
        " network also sees how many moves of a double card are still owed",
        room_in_words(config.children, config.decision_shares),
    ]


COMMAND = Experiment(
    name="sog_london",
    shown="games won against PimBot by training steps",
    options=Options,
    configure=configure,
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "two hours on two cores, an estimate: the paper's network, smaller",
        "stations": (
            "an hour and a half on two cores: a network of ours, in which all stations share their"
            " weights, and half of the games of training begin after Mr X has shown himself"
        ),
        "curriculum": (
            "two hours on one core of a loaded machine: the network of `stations`, trained for a"
            " fifth as long, to compare a random start with that of a smaller map (--start)"
        ),
        "gpu": (
            "half an hour on one GPU (an estimate), in larger batches; with --games_last its"
            " folder, without checkpoint/training, may go elsewhere, where --resume plays the games"
        ),
        "paper": (
            "as long as the paper's training: months on one H200, by the measured speed of searches"
            " alone, and 25 minutes are about 2,000 of its 17 million steps"
        ),
    },
    batches=lambda config: (
        {
            "episodes": config.episodes,
            "solves": config.solves,
            "batch_size": config.learner.batch_size,
            "capacity": config.learner.capacity,
            "queue_capacity": StudentOfGamesSettings.queue_capacity,
            "batch": config.batch,
        }
        | policy_sizes(config.learner)
    ),
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=WILSON,
    measure=lambda config: (
        f"share of games in {config.game} that SoG({config.simulations},1) wins against PimBot with"
        " so many simulations; it searches at its own decisions; games of self-play per hour by the"
        f" median of {_TIMED_STEPS} steps in the end of training"
    ),
    deviations=deviations,
    more_files=(LOG, NETWORKS),
)
