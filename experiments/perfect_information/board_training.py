"""Learning board games of pgx, measured by duels along the training.

`alphazero_board_games` and `sog_board_games` share this. In these games no perfect player tells the
truth. So the network plays, with searches, against the networks that it was before: without
training, after a tenth of it, and at the measurement before. It also plays against uniformly random
moves, at which its Elo begins.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import jax
from jaxtyping import PyTree
from rich.table import Table

from experiments.harness import devices, ladder_ratings, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.ladder_ratings import Rating
from experiments.harness.network_files import NETWORKS, network_file, write_network
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run, RunArguments
from experiments.perfect_information import board_duels
from experiments.perfect_information.board_duels import UNIFORM, Duel
from experiments.perfect_information.student import Speed, Student, speed
from experiments.student_of_games.training_run import LOG
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs.contract import BeliefGame
from nets import parameters
from solvers.perfect_information import matches
from solvers.perfect_information.alphazero_search import AlphaZeroAgent
from train.learner import LearnerSettings

Game = Literal["gardner_chess", "chess", "go_9x9", "go_19x19", "hex", "othello"]
GAMES: tuple[str, ...] = get_args(Game)
_TIMED_STEPS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements."""

    game: str = GAMES[0]
    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    simulations: int = 32  # of both players' searches when measured
    games: int  # of each duel, in pairs with the same opening
    batch: int  # games side by side in a duel
    opening_moves: int = 4  # at random, at the start of the games of a duel
    training_simulations: int = 32
    torso: str = "alphazero"
    width: int = 64
    depth: int = 5
    dtype: str = "bfloat16"  # of the factors in the network
    episodes: int  # games side by side in training
    updates: int  # gradient updates in a step
    learner: LearnerSettings
    seed: int = 0

    def __post_init__(self):
        if self.batch < 2 or self.batch % 2:
            raise ValueError(f"batch={self.batch} must be even and at least 2")
        if self.games < 1 or self.games % self.batch:
            raise ValueError(f"games={self.games} must be a multiple of batch={self.batch}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    game: Game = "gardner_chess"
    """What is learned; sizes of the training are the game's."""
    seed: int = 0
    """Seed of the initial network, of training and of the duels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reached:
    """A measured step of training."""

    step: int
    games: int  # that have ended in training


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The training and its duels."""

    reached: list[Reached]
    duels: list[Duel]
    speed: Speed

    def games(self, step: int) -> int:
        """The games that have ended in training before a measured step."""
        return next(each.games for each in self.reached if each.step == step)

    @functools.cached_property
    def ratings(self) -> dict[int, Rating]:
        """Elo of the networks by the step of training."""
        return board_duels.ratings([each.step for each in self.reached], self.duels)

    @property
    def games_per_hour(self) -> float:
        """Of training, at the speed of its end."""
        last = self.reached[-1]
        return last.games / last.step / self.speed.seconds * 3600


def training_experiment(
    name: str,
    new_student: Callable[[BeliefGame, Run], Student],
    *,
    presets: Mapping[str, Mapping[str, Config]],
    label: Callable[[int], str],
    shared: Callable[[Any], Mapping[str, int]],
    options: type[Options] = Options,
    change: Callable[[Any, Any], Config] = lambda config, options: config,
    **fields: Any,
) -> Experiment:
    """The experiment that trains one kind of agent.

    Args:
      name: of the experiment.
      new_student: the agent in training of a game and a run.
      presets: the configs by preset and game.
      label: the name of the agent with this many simulations.
      shared: the sizes that devices share in training.
      options: the options beside the preset.
      change: the config with what further options change.
      fields: further fields of the record.
    """

    def configure(config: Config, options: Any) -> Config:
        config = change(presets[options.preset][options.game], options)
        return dataclasses.replace(config, seed=options.seed)

    def batches(config: Config) -> dict[str, int]:
        """Of all games: the devices are chosen before the options are read."""
        games = next(games for games in presets.values() if games[GAMES[0]] == config)
        sizes = {game: {"batch": each.batch, **shared(each)} for game, each in games.items()}
        return {f"{name} in {game}": x[name] for game, x in sizes.items() for name in x if x[name]}

    return Experiment(
        name=name,
        shown="results of duels and Elo against training steps",
        options=options,
        configure=configure,
        presets={preset: configs[GAMES[0]] for preset, configs in presets.items()},
        batches=batches,
        compute=functools.partial(compute, new_student),
        rows=rows,
        draw=functools.partial(draw, label),
        numbers=numbers,
        tables=functools.partial(tables, name, label),
        error_bars=board_duels.ERROR_BARS,
        measure=functools.partial(measure, label),
        more_files=(LOG, NETWORKS),
        **fields,
    )


def compute(new_student: Callable[[BeliefGame, Run], Student], run: Run) -> Outcome:
    """Trains, keeps the networks, and lets them play on the way."""
    config, game = run.config, pgx_beliefs(run.config.game)
    student = new_student(game, run)
    networks = _Networks(run, student)
    play = _Games(run, game, student)
    reached, found = [], []
    for step in config.measured_at:
        reached += run.kept(f"step-{step}", Reached, functools.partial(networks.reach, step))
        for opponent in board_duels.opponents(config.measured_at, step):
            duel = functools.partial(play.duel, networks, step, opponent)
            whom = "uniform" if opponent == board_duels.UNIFORM else opponent
            found += run.kept(f"duel-{step}-{whom}", Duel, duel)
    timed = functools.partial(speed, student.trainee, _TIMED_STEPS)
    (pace,) = run.kept("speed", Speed, timed)
    return Outcome(reached, found, pace)


class _Networks:
    """The parameters after the measured steps, as their files have them: a resumed run, which has
    nothing else, plays the same games."""

    def __init__(self, run: Run, student: Student):
        self._run, self._student = run, student
        self._params: dict[int, PyTree] = {}

    def reach(self, step: int) -> Iterator[Reached]:
        """Trains up to a step, and keeps the network."""
        trainee = self._student.trainee
        trainee.train(step)
        write_network(self._run, step, jax.device_get(trainee.params))
        yield Reached(step=step, games=self._student.games)

    def after(self, step: int) -> PyTree:
        """The parameters after a measured step that was reached."""
        if step not in self._params:
            path = network_file(self._run.out, step)
            self._params[step] = parameters.read_params(path, self._student.trainee.params)
        return self._params[step]


class _Games:
    """The games of duels."""

    def __init__(self, run: Run, game: BeliefGame, student: Student):
        config = run.config
        self._config, self._game, self._agent = config, game, student.agent
        self._mesh = devices.local(run.mesh)
        self._openings = matches.draw_openings(
            game, number=config.games // 2, length=config.opening_moves, seed=config.seed
        )

    def duel(self, networks: _Networks, step: int, opponent: int) -> Iterator[Duel]:
        """The games of the network of a step against an opponent."""
        config, payoffs = self._config, []
        agents = [
            AlphaZeroAgent()  # draws uniformly
            if number == UNIFORM
            else self._agent(networks.after(number), config.simulations)
            for number in (step, opponent)
        ]
        players = [matches.chooser(self._game, agent, self._mesh) for agent in agents]
        key = jax.random.fold_in(jax.random.key(config.seed + 1), step)
        keys = jax.random.split(jax.random.fold_in(key, 1 + opponent), len(self._openings))
        with progress(f"step {step:,}, duel", config.games) as report:
            count = counter(report)
            for begin in range(0, len(self._openings), config.batch // 2):
                pairs = slice(begin, begin + config.batch // 2)
                won = matches.play_pairs(
                    self._game,
                    keys[pairs],
                    players,
                    self._openings[pairs],
                    batch=config.batch,
                    devices=1 if self._mesh is None else self._mesh.size,
                )
                payoffs += won.ravel().tolist()
                count(won.size)
        yield Duel(step=step, opponent=opponent, payoffs=payoffs)


def opponent_name(config: Config, opponent: int) -> str:
    """An opponent in words."""
    if opponent == UNIFORM:
        return "uniformly random moves"
    if opponent == config.measured_at[0]:
        return "the untrained network"
    return f"the network after {opponent:,} steps"


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for each duel."""
    for duel in outcome.duels:
        low, high = duel.interval
        rating = outcome.ratings[duel.step]
        yield {
            "step": duel.step,
            "games_of_training": outcome.games(duel.step),
            "opponent": opponent_name(config, duel.opponent),
            "wins": duel.count(1.0),
            "draws": duel.count(0.0),
            "losses": duel.count(-1.0),
            "share": duel.share,
            "low": low,
            "high": high,
            "elo_bound": rating.bound,
            "elo": rating.value,
            "elo_low": rating.low,
            "elo_high": rating.high,
        }


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """What the trained network wins, all Elo, and the speed of training."""
    for duel in outcome.duels:
        if duel.step == config.measured_at[-1]:
            low, high = duel.interval
            yield results.Number(
                name=f"against {opponent_name(config, duel.opponent)}",
                value=duel.share,
                low=low,
                high=high,
                unit="points/game",
            )
    elo = [outcome.ratings[step].number(f"Elo after {step:,} steps") for step in config.measured_at]
    yield from (number for number in elo if number is not None)
    games = float(outcome.reached[-1].games)
    yield results.Number(name="games of training", value=games, unit="games")
    yield results.Number(name="steps/s", value=1 / outcome.speed.seconds, unit="steps/s")
    yield results.Number(name="games/h", value=outcome.games_per_hour, unit="games/h")


def draw(label, path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Shares of points and Elo by steps of training."""
    with plots.figure(path, rows=1, columns=2, size=(8.4, 3.2)) as axes:
        first, second = axes[0]
        last = board_duels.opponents(config.measured_at, config.measured_at[-1])
        for number, opponent in enumerate(last):
            mine = [duel for duel in outcome.duels if duel.opponent == opponent]
            ends = [(duel.share, *duel.interval) for duel in mine]
            first.errorbar(
                [duel.step for duel in mine],
                [share for share, _, _ in ends],
                ([s - low for s, low, _ in ends], [high - s for s, _, high in ends]),
                label=f"against {opponent_name(config, opponent)}",
                color=plots.colour(number),
                marker=plots.marker(number),
                capsize=2,
            )
        first.set(xlabel="steps of training", ylabel="points/game", ylim=(0, 1.05))
        first.set_title(f"{label(config.simulations)}, {config.game}")
        rated = {step: outcome.ratings[step] for step in config.measured_at}
        ladder_ratings.draw(second, rated, len(last), "Elo")
        second.set(xlabel="steps of training", ylabel="Elo, 0 for uniformly random moves")


def tables(name: str, label, config: Config, outcome: Outcome) -> Iterator[Table]:
    """Wins, draws and losses by training."""
    lines = [
        (
            opponent_name(config, duel.opponent),
            f"{duel.step:,}",
            f"{outcome.games(duel.step):,}",
            str(outcome.ratings[duel.step]),
            f"{duel.count(1.0)} / {duel.count(0.0)} / {duel.count(-1.0)}",
        )
        for duel in outcome.duels
    ]
    title = f"{name}: duels of {label(config.simulations)} in {config.game}"
    headings = ("against", "step", "games", "Elo", "won / drawn / lost")
    yield text_table(title, headings, lines)


def measure(label, config: Config) -> str:
    """What the numbers are."""
    return (
        f"points of {label(config.simulations)} in {config.game}, 1 for a win and 1/2 for a draw,"
        f" in {config.games} games from {config.opening_moves} random moves, each opening played"
        " with both colours, its opponents searching likewise; Elo of the networks, 0 for"
        " uniformly random moves; games/h and steps/s of training, at the speed of its end"
    )
