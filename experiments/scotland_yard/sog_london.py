"""Training Student of Games for Scotland Yard on the map of London (Schmid et al. 2023, Fig. 5).

A network learns by sound self-play; detectives and Mr X are dealt anew in each game. Exploitability
cannot be computed here. In its place the agent, with the searches of training, meets PimBot with a
few simulations as training goes on, in both roles. `sog_pimbot` measures the trained agent.

The paper's network is a multilayer perceptron. The preset `stations`, or `--network stations` with
another one, trains ours instead, whose stations share their weights (`nets.station_network`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import jax
from flax import nnx
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.network_files import NETWORKS, network_file, write_network
from experiments.harness.runs import Run, RunArguments
from experiments.harness.win_shares import WILSON, Share, error_bars
from experiments.scotland_yard.agent_games import (
    ROLES,
    Games,
    play_games,
    room_in_words,
    student_player,
)
from experiments.scotland_yard.trained_students import (
    new_network,
    read_student,
    trained_elsewhere,
)
from experiments.student_of_games.training_run import LOG, READINGS, student
from jaxgames.registry import make
from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs
from jaxgames.scotland_yard.rules import ScotlandYard
from nets import cvpn
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.matches import make_pimbot
from solvers.scotland_yard.pimbot import PimBot
from solvers.search.search_state import GrowingTreeCfr
from train.learner import PAPER_SETTINGS, LearnerSettings
from train.metrics import read_metrics
from train.paper_settings import learner_deviations, paper_settings
from train.student_of_games_training import StudentOfGamesSettings

_TIMED_STEPS = 5
_PAPER_NETWORK = {"width": 512, "depth": 6}  # Table S2
_STATIONS = {"width": 16, "depth": 3}  # the sizes of ours, in all presets
_MAX_PATH = 3  # public states from one decision to the next: Mr X's move, and showing himself


NetworkKind = Literal["mlp", "stations"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements.

    A step of training plays `episodes` moves of self-play and solves `solves` queries at most.
    """

    game: str = "scotland_yard"
    start: str = ""  # folder of a run, with whose last network training begins; empty: random
    start_steps: int = 0  # of training that this network has had
    start_games: tuple[str, ...] = ()  # others that it was trained in before
    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    simulations: int = 32  # of searches in training and when measured
    network: NetworkKind = "mlp"
    late_starts: float = 0.0  # share of the games of training that begin after Mr X showed himself
    width: int = _PAPER_NETWORK["width"]
    depth: int = _PAPER_NETWORK["depth"]
    dtype: str = "bfloat16"  # of the factors in the network
    # room of the searches' trees: children of a node on average, and shares of nodes at which Mr X
    # and detectives act
    children: float = 16.0
    decision_shares: tuple[float, float] = (0.4, 1.0)
    episodes: int
    solves: int
    updates: int  # gradient updates in a step
    learner: LearnerSettings
    opponents: tuple[int, ...] = (10, 100)  # simulations of PimBot when measured
    games: int  # of each role against each opponent when measured
    batch: int  # games side by side when measured
    exploration: float = PimBot.exploration  # C of PimBot
    reduction: float = PimBot.reduction  # r of PimBot
    seed: int = 0


_LEARNER = dataclasses.replace(
    PAPER_SETTINGS["scotland_yard"],
    optimizer="adam",
    learning_rate=1e-3,
    decay_rate=0.05,
    decay_steps=4_800,
    batch_size=256,
    capacity=50_000,
    max_uses=60,
)
# A step makes up to 32 searches, in about a second on two cores. A measurement has at most 64 games
# with 24 searches as Mr X and 64 with 120 as detectives.
_CPU = Config(
    measured_at=(0, 60, 240, 720, 1_440, 2_400),
    width=256,
    depth=3,
    episodes=24,
    solves=8,
    updates=2,
    learner=_LEARNER,
    games=32,
    batch=32,
)
PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=glasses,rounds=3)",
        measured_at=(0, 6),
        simulations=4,
        width=16,
        depth=1,
        children=4.0,
        episodes=4,
        solves=4,
        updates=1,
        learner=dataclasses.replace(_LEARNER, batch_size=8, capacity=256, decay_steps=6),
        opponents=(10,),
        games=4,
        batch=2,
    ),
    "cpu": _CPU,
    "stations": dataclasses.replace(_CPU, network="stations", late_starts=0.5, **_STATIONS),
    "gpu": Config(
        measured_at=(0, 50, 150, 500),
        episodes=768,
        solves=256,
        updates=16,
        learner=dataclasses.replace(
            _LEARNER, batch_size=1024, capacity=100_000, max_uses=20, decay_steps=8_000
        ),
        games=32,
        batch=32,
    ),
    # 17 million steps of 1,024 searches, of which an H200 makes 1,383 a second (`benchmark
    # accelerator`), are 146 days; the first 10,000 steps are two hours.
    "paper": Config(
        measured_at=(
            *(0, 10_000, 30_000, 100_000, 300_000),
            *(1_000_000, 1_700_000, 3_000_000, 8_000_000, 17_000_000),
        ),
        episodes=768,
        solves=256,
        updates=4,
        learner=PAPER_SETTINGS["scotland_yard"],
        games=1_000,
        batch=200,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    game: str | None = None
    """A game of Scotland Yard; by default the preset's. A run on a smaller map is the first part of
    a curriculum: --start takes its network to London, if it is one of stations and the game has as
    many detectives and rounds."""
    network: NetworkKind | None = None
    """The paper's multilayer perceptron, or ours, in which all stations of the map share their
    weights; by default the preset's."""
    late_starts: float | None = None
    """Share of the games of training that begin in the middle, at random stations, right after Mr X
    has shown himself; by default the preset's. The paper has none."""
    steps: int = 0
    """Steps of training; 0: as many as the preset has. Measurements come after the same shares of
    the training as in the preset, and the learning rate falls as far."""
    games_last: bool = False
    """Play the games of all measurements after the training: for machines that are lent for a
    while. The networks are kept on the way, and the games are the same."""
    start: pathlib.Path | None = None
    """Folder of another run, with whose last network training begins in place of a random one; it
    must be of the same kind and sizes, and of a game with as many detectives and rounds."""
    seed: int = 0
    """Seed of the initial network, of training and of the games."""


def configure(config: Config, options: Options) -> Config:
    """The preset with the options.

    Raises:
      ValueError: an unknown game or one of another kind, deals of different weights, a negative
        number of steps, late starts that the game does not have, or another network to start with.
      OSError: the network to start with cannot be read.
    """
    if options.steps < 0:
        raise ValueError(f"steps={options.steps} must be at least 1, or 0 for the preset's")
    longer = (options.steps or config.measured_at[-1]) / config.measured_at[-1]
    steps = dict.fromkeys(round(step * longer) for step in config.measured_at)
    decay_steps = math.ceil(config.learner.decay_steps * longer)
    if options.game is not None:
        if not isinstance(game := make(options.game), ScotlandYard):
            raise ValueError(f"game={game} must be a game of Scotland Yard")
        if game != make(config.game):
            config = dataclasses.replace(config, game=str(game))
    if options.network not in (None, config.network):
        sizes = _STATIONS if options.network == "stations" else _PAPER_NETWORK
        config = dataclasses.replace(config, network=options.network, **sizes)
    if options.late_starts is not None:
        config = dataclasses.replace(config, late_starts=options.late_starts)
    config = dataclasses.replace(
        config,
        learner=dataclasses.replace(config.learner, decay_steps=decay_steps),
        measured_at=(*steps,),
        seed=options.seed,
    )
    beliefs = _beliefs(config)  # refuses late starts
    jax.eval_shape(beliefs.random_root, jax.random.key(0))  # refuses deals
    if options.start is None:
        return config
    try:
        start = read_student(options.start)
    except ValueError as error:
        raise ValueError(f"start: {error}") from error
    steps = start.steps[-1] + start.config.get("start_steps", 0)
    others = [] if start.rules == make(config.game) else [start.config["game"]]
    config = dataclasses.replace(
        config,
        start=str(options.start),
        start_steps=steps,
        start_games=(*start.start_games, *others),
    )
    _first_network(beliefs, config)  # refuses others
    return config


def _first_network(beliefs, config):
    """The network with which training begins."""
    network = new_network(beliefs, dataclasses.asdict(config), seed=config.seed)
    if not config.start:
        return network
    folder = pathlib.Path(config.start)
    graph, params = nnx.split(network)
    path = network_file(folder, read_student(folder).steps[-1])
    return nnx.merge(graph, cvpn.read_params(path, params))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Games after some training."""

    step: int
    opponent: int  # simulations of PimBot
    role: str  # of Student of Games
    games: int
    won: int

    @property
    def share(self) -> Share:
        """The games that were won."""
        return Share(wins=self.won, games=self.games)


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
    beliefs, rules = _beliefs(config), make(config.game)
    network = _first_network(beliefs, config)
    graph, like = nnx.split(network)
    settings = training_settings(config, graph)
    play = compiled_play(rules, run.mesh)

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
            beliefs, cvpn.read_params(network_after(step), like), settings.search
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


def _beliefs(config):
    """The game, in which detectives are dealt anew for each game of self-play."""
    rules = make(config.game)
    starts = rules.detective_starts[: rules.detectives]
    return scotland_yard_beliefs(rules, detective_starts=starts, late_starts=config.late_starts)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for each measurement."""
    for each in outcome.measured:
        low, high = each.share.interval
        yield dataclasses.asdict(each) | {"low": low, "high": high}


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
        lost.set(xlabel="steps of training", ylabel="loss", yscale="log")


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
        for width, depth in ((config.width, config.depth), _PAPER_NETWORK.values())
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
        "gpu": (
            "half an hour on one GPU (an estimate), in larger batches; with --games_last its"
            " folder, without checkpoint/training, may go elsewhere, where --resume plays the games"
        ),
        "paper": (
            "as long as the paper's training: months on one H200, by the measured speed of searches"
            " alone, and 25 minutes are about 2,000 of its 17 million steps"
        ),
    },
    batches=lambda config: {
        "episodes": config.episodes,
        "solves": config.solves,
        "batch_size": config.learner.batch_size,
        "capacity": config.learner.capacity,
        "queue_capacity": StudentOfGamesSettings.queue_capacity,
        "batch": config.batch,
    },
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
