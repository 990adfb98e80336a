"""Lets a trained agent play against a person or another agent, and some other agents against a
person: `jaxgames play`."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Key
from rich.console import Console
from rich.table import Table

from experiments.commands import play_blueprint, play_engine, play_scotland_yard
from experiments.commands.play_terminal import ask, play_games, say
from experiments.engines.referee import BOARD_GAMES
from experiments.harness import published, results
from experiments.harness.experiment import Command
from experiments.harness.progress import counter, progress, status
from jaxgames.beliefs.places import table_places
from jaxgames.beliefs.table import NOWHERE
from jaxgames.core import CHANCE, TERMINAL, State
from jaxgames.play import checked_step, sample_chance
from solvers.blueprint.blueprint import DESCRIPTION_FILE
from solvers.search import search_agent
from train import agent_matches
from train.agent import TrainedAgent, load_agent

_UNIFORM, _UNTRAINED = ("uniform", "random"), "untrained"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Play against a trained agent in the terminal, or let it play against another one.

    Without --opponent you play against the agent: type the number of a move or the beginning of its
    name; q or Ctrl-C leaves. With --opponent, the agent's mean winnings against that opponent are
    printed with their 95 % confidence interval; every deal is played twice, with the seats swapped.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A name of `list`: the game that the agent was trained in."""
    agent: pathlib.Path
    """Folder of a trained agent, as sog_leduc leaves it; or of a blueprint of hold'em, as
    blueprint_limit leaves it in blueprints/, against which you play; or pimbot, or the folder of a
    run of sog_london, against which you play scotland_yard; or a player of engine_match, such as
    "stockfish(nodes=100)" or "alphazero(network=FILE)", against which you play chess,
    gardner_chess, go_9x9, go_19x19, connect_four, hex or othello."""
    opponent: Annotated[str | None, tyro.conf.arg(metavar="DIR|uniform|random|untrained")] = None
    """Another such folder; uniform or random: plays uniformly at random; untrained: the same search
    with the network as it was before training."""
    games: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many games to play. None: until you leave, or 1,000 with --opponent."""
    seat: Annotated[Literal[0, 1] | None, tyro.conf.arg(metavar="0|1")] = None
    """The seat in which you play. None: both in turn."""
    simulations: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Simulations of every search. None: the most that the agent was measured with; in
    scotland_yard 1,000 of pimbot and 100 of a trained agent."""
    probabilities: bool = False
    """In scotland_yard, tell the detectives how probable the stations are at which Mr X may be, for
    somebody who knows how the agent plays him."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Seed of everything random. None: 0 with --opponent, else a new one each time."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command, which leaves no record.

    Raises:
      ValueError: a folder holds no agent, or an agent of another game; a number is out of range.
    """
    _check(arguments)
    if play_scotland_yard.plays(arguments.agent, arguments.game):
        _play_scotland_yard(arguments)
        return
    if arguments.probabilities:
        agent, game = arguments.agent, arguments.game
        raise ValueError(f"--probabilities is for scotland_yard: agent {agent} plays {game}")
    if arguments.game in BOARD_GAMES:
        _play_engine(arguments)
        return
    if (arguments.agent / DESCRIPTION_FILE).exists():
        _play_blueprint(arguments)
        return
    load = functools.partial(load_agent, game=arguments.game, simulations=arguments.simulations)
    agent = load(arguments.agent)
    if arguments.opponent is None:
        play_person(agent, games=arguments.games, seat=arguments.seat, seed=arguments.seed)
        return
    opponent = None
    if arguments.opponent == _UNTRAINED:
        opponent = load(arguments.agent, trained=False)
    elif arguments.opponent not in _UNIFORM:
        opponent = load(pathlib.Path(arguments.opponent))
    games = 1000 if arguments.games is None else arguments.games
    with progress(f"{agent.game.name}, games", games) as report:
        payoffs = agent_matches.play_match(
            agent, opponent, deals=games // 2, seed=arguments.seed or 0, report=counter(report)
        )
    _print_match(agent, payoffs, f"{arguments.agent} against {arguments.opponent}")


def _check(arguments):
    games, match = arguments.games, arguments.opponent is not None
    if games is not None and games < 1:
        raise ValueError(f"games={games} must be at least 1")
    if games is not None and match and (games % 2 or games < 4):
        raise ValueError(f"games={games} must be even, as seats are swapped, and at least 4")
    if match and arguments.seat is not None:
        raise ValueError("--seat is for people; with --opponent the seats are swapped")


def _play_scotland_yard(arguments):
    if arguments.probabilities and arguments.seat == 0:
        raise ValueError("--probabilities is for detectives, and with --seat 0 you are Mr X")
    if arguments.opponent is not None:
        raise ValueError(
            f"opponent={arguments.opponent} is for other trained agents: {arguments.agent} plays"
            " against people here, and by sog_pimbot against PimBot"
        )
    play_scotland_yard.play_person(
        arguments.agent,
        arguments.game,
        simulations=arguments.simulations,
        probabilities=arguments.probabilities,
        games=arguments.games,
        seat=arguments.seat,
        seed=arguments.seed,
    )


def _play_engine(arguments):
    for name in ("opponent", "simulations"):
        if (value := getattr(arguments, name)) is not None:
            raise ValueError(f"{name}={value} is for trained agents; see the command engine_match")
    play_engine.play_person(
        str(arguments.agent),
        arguments.game,
        games=arguments.games,
        seat=arguments.seat,
        seed=arguments.seed,
    )


def _play_blueprint(arguments):
    for name, advice in (
        ("opponent", "blueprints play each other by the command match"),
        ("simulations", "blueprints do not search"),
    ):
        if (value := getattr(arguments, name)) is not None:
            raise ValueError(f"{name}={value} is for trained agents: {advice}")
    play_blueprint.play_person(
        arguments.agent,
        arguments.game,
        games=arguments.games,
        seat=arguments.seat,
        seed=arguments.seed,
    )


def _print_match(agent, payoffs, title):
    """Prints the agent's mean winnings by seat; `payoffs` are by deal and seat."""
    unit, scale = published.measured_in(str(agent.game))
    say(f"{title}, {2 * len(payoffs):,} games of {agent.game}", style="bold")
    table = Table("seat")
    table.add_column(f"won, {unit}", justify="right")
    table.add_column("95 %", justify="right")
    seats = {"0": payoffs[:, 0], "1": payoffs[:, 1], "both": payoffs.mean(axis=1)}
    for name, values in seats.items():
        low, high = results.interval((scale * values).tolist())
        mean = (low + high) / 2
        sign = "+" if mean > 0 else ""
        table.add_row(name, sign + results.text(mean), f"± {results.text(high - mean)}")
    Console().print(table)


def play_person(
    agent: TrainedAgent, *, games: int | None, seat: int | None, seed: int | None
) -> None:
    """Plays with the person at the terminal, until they leave or the input ends.

    Args:
      agent: the person's opponent.
      games: how many to play; None: any number.
      seat: the person's; None: both in turn.
      seed: of everything random; None: a new one.
    """
    play_game = functools.partial(_play_game, _View(agent))
    play_games(agent.game.name, play_game, games=games, seat=seat, seed=seed)


class _View:
    """Descriptions of an agent's game, with everything open or as one of its players sees them."""

    def __init__(self, agent: TrainedAgent):
        self.agent, self.game, self.tree = agent, agent.game, agent.tree
        self.places = table_places(agent.tree, agent.table)
        self._states = {0: self.game.init()}

    def state(self, history: int) -> State:
        """The state that a history of the tree leads to."""
        if history not in self._states:
            parent = self.state(int(self.tree.parent[history]))
            move = int(self.tree.parent_action[history])
            self._states[history] = checked_step(self.game, parent, move)
        return self._states[history]

    def picture(self, history: int) -> str:
        """The state at a history, with all cards open."""
        return self.game.render(self.state(history))

    def last_move(self, history: int) -> str:
        """The name of the move that led to a history."""
        parent = self.state(int(self.tree.parent[history]))
        return self.game.action_name(parent, int(self.tree.parent_action[history]))

    def seen(self, player: int, history: int, describe: Callable[[int], str]) -> str:
        """What a player knows of a description: the words that are the same in all histories of its
        information state, with ? for the others."""
        states = self.tree.information_state[:, player]
        return common([describe(int(h)) for h in np.flatnonzero(states == states[history])])


def common(texts: Sequence[str]) -> str:
    """The first text, with ? for every word that is not the same in all of them; ? alone if they do
    not have the same number of words."""
    words = [re.split(r"(\s+)", text) for text in texts]
    if len(set(map(len, words))) > 1:
        return "?"
    columns = zip(*words, strict=True)
    return "".join(c[0] if c[0].isspace() or len(set(c)) == 1 else "?" for c in columns)


def _play_game(view: _View, key: Key[Array, ""], person: int) -> float:
    """Plays a game with the person, whose payoff is returned."""
    agent, places, history = view.agent, view.places, 0
    memory = search_agent.init(agent.table, 1 - person, settings=agent.settings)
    think, act = (
        functools.partial(step, agent.table, agent.params, settings=agent.settings)
        for step in (search_agent.think, search_agent.act)
    )
    if int(agent.table.actor(agent.table.root())) == CHANCE:
        # an agent must think at the root, whoever acts there; below, it does where a player acts
        memory, _ = think(jax.random.fold_in(key, int(view.tree.depth.max())), memory)
    while (actor := int(view.tree.actor[history])) != TERMINAL:
        noise = jax.random.fold_in(key, int(view.tree.depth[history]))
        if actor == CHANCE:
            move = int(sample_chance(noise, view.state(history)))
        elif actor == person:
            say(view.seen(person, history, view.picture))
            move = ask(view.game, view.state(history))
            with status("the agent thinks"):
                memory, _ = jax.block_until_ready(think(noise, memory))
        else:
            row = jnp.int32(places.row[history, actor])
            with status("the agent thinks"):
                memory, move, _ = act(noise, memory, row)
                move = int(move)
        history = int(places.child[history, move])
        if places.slot[history] != NOWHERE:
            memory = search_agent.checked_observe(agent.table, memory, int(places.slot[history]))
        if actor != person:
            who = "chance" if actor == CHANCE else "agent"
            say(f"{who}: {view.seen(person, history, view.last_move)}")
    won = float(view.tree.returns[history, person])
    say(f"{view.picture(history)}\nYou win {won:+g}", style="bold")
    return won


COMMAND = Command(Arguments, main)
