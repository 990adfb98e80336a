"""Plays a trained agent: a person in the terminal, or another agent."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Key
from rich.console import Console
from rich.table import Table

from experiments.harness import published, results
from experiments.harness.progress import counter, progress, status
from jaxgames.beliefs.places import table_places
from jaxgames.beliefs.table import NOWHERE
from jaxgames.core import CHANCE, TERMINAL, State
from jaxgames.play import checked_step, sample_chance
from solvers.search import search_agent
from train import agent_matches
from train.agent import TrainedAgent, load_agent

_UNIFORM, _UNTRAINED = ("uniform", "random"), "untrained"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Play against a trained agent in the terminal, or let it play against another one.

    Without --opponent you play: a move is given by its name (the beginning of it is enough) or
    number; q or Ctrl-C leaves. With it, the mean winnings of the agent are printed, with a 95 %
    confidence interval; every deal is played twice, with the seats swapped.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A name of `list`: the game that the agent was trained in."""
    agent: pathlib.Path
    """Folder that `sog_leduc` wrote its results to."""
    opponent: Annotated[str | None, tyro.conf.arg(metavar="DIR|uniform|random|untrained")] = None
    """Another such folder; uniform or random: all legal actions equally often; untrained: the same
    search with the network before training."""
    games: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Games to play. None: until you leave; 1,000 with --opponent."""
    seat: Annotated[Literal[0, 1] | None, tyro.conf.arg(metavar="0|1")] = None
    """Where you sit. None: in turn."""
    simulations: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Simulations of every search. None: the most that the agent was measured with."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Of all that is random. None: 0 with --opponent, else another one each time."""


def main(arguments: Arguments, *, command: str = "") -> None:
    """Runs the command.

    Raises:
      ValueError: a folder holds no agent, or one of another game; a number is out of range.
    """
    _check(arguments)
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
        won = agent_matches.duel(
            agent, opponent, deals=games // 2, seed=arguments.seed or 0, report=counter(report)
        )
    _print_match(agent, won, f"{arguments.agent} against {arguments.opponent}")


def _check(arguments):
    games, match = arguments.games, arguments.opponent is not None
    if games is not None and games < 1:
        raise ValueError(f"games={games} must be at least 1")
    if games is not None and match and (games % 2 or games < 4):
        raise ValueError(f"games={games} must be even, as seats are swapped, and at least 4")
    if match and arguments.seat is not None:
        raise ValueError("--seat is for people: with --opponent the seats are swapped")


def _print_match(agent, won, title):
    unit, scale = published.measured_in(str(agent.game))
    _say(f"{title}, {2 * len(won):,} games of {agent.game}", style="bold")
    table = Table("seat")
    table.add_column(f"won, {unit}", justify="right")
    table.add_column("95 %", justify="right")
    for name, values in (("0", won[:, 0]), ("1", won[:, 1]), ("both", won.mean(axis=1))):
        mean, half = agent_matches.interval(scale * values)
        sign = "+" if mean > 0 else ""
        table.add_row(name, sign + results.text(mean), f"± {results.text(half)}")
    Console().print(table)


def play_person(
    agent: TrainedAgent, *, games: int | None, seat: int | None, seed: int | None
) -> None:
    """Plays with the person at the terminal; an end of the input leaves too."""
    key = jax.random.key(secrets.randbits(31) if seed is None else seed)
    room, won, played = _Room(agent), 0.0, 0
    try:
        for number in itertools.count() if games is None else range(games):
            person = number % 2 if seat is None else seat
            _say(f"\nGame {number + 1} of {agent.game.name}: you are player {person}", style="bold")
            won += _game(room, jax.random.fold_in(key, number), person)
            played += 1
    except (EOFError, KeyboardInterrupt):
        _say("")
    _say(f"{played} game{'' if played == 1 else 's'} played to the end, you won {won:+g}")


class _Room:
    """The game as it is, and what one of its players may know of that."""

    def __init__(self, agent: TrainedAgent):
        self.agent, self.game, self.tree = agent, agent.game, agent.tree
        self.places = table_places(agent.tree, agent.table)
        self._states = {0: self.game.init()}

    def state(self, history: int) -> State:
        """The state that a history of the tree leads to."""
        if history not in self._states:
            above = self.state(int(self.tree.parent[history]))
            move = int(self.tree.parent_action[history])
            self._states[history] = checked_step(self.game, above, move)
        return self._states[history]

    def picture(self, history: int) -> str:
        """The state with all cards open."""
        return self.game.render(self.state(history))

    def last_move(self, history: int) -> str:
        """The name of the move that led to a history."""
        above = self.state(int(self.tree.parent[history]))
        return self.game.action_name(above, int(self.tree.parent_action[history]))

    def seen(self, player: int, history: int, describe: Callable[[int], str]) -> str:
        """What `player` knows of a description: what is the same in all histories that it cannot
        tell from this one."""
        states = self.tree.information_state[:, player]
        return common([describe(int(h)) for h in np.flatnonzero(states == states[history])])


def common(texts: Sequence[str]) -> str:
    """The first text, with ? for every word that is not the same in all of them."""
    words = [re.split(r"(\s+)", text) for text in texts]
    if len({len(some) for some in words}) > 1:
        return "?"
    columns = zip(*words, strict=True)
    return "".join(c[0] if c[0].isspace() or len(set(c)) == 1 else "?" for c in columns)


def _game(room: _Room, key: Key[Array, ""], person: int) -> float:
    """One game; what the person wins."""
    agent, places, history = room.agent, room.places, 0
    mind = search_agent.init(agent.table, 1 - person, settings=agent.settings)
    think, act = (
        functools.partial(step, agent.table, agent.params, settings=agent.settings)
        for step in (search_agent.think, search_agent.act)
    )
    while (actor := int(room.tree.actor[history])) != TERMINAL:
        noise = jax.random.fold_in(key, int(room.tree.depth[history]))
        if actor == CHANCE:
            move = int(sample_chance(noise, room.state(history)))
        elif actor == person:
            move = _ask(room, history, person)
            with status("the agent thinks"):
                mind, _ = jax.block_until_ready(think(noise, mind))
        else:
            row = jnp.int32(places.row[history, actor])
            with status("the agent thinks"):
                mind, move, _ = act(noise, mind, row)
                move = int(move)
        history = int(places.child[history, move])
        if places.slot[history] != NOWHERE:
            mind = search_agent.checked_observe(agent.table, mind, int(places.slot[history]))
        if actor != person:
            who = "chance" if actor == CHANCE else "agent"
            _say(f"{who}: {room.seen(person, history, room.last_move)}")
    won = float(room.tree.returns[history, person])
    _say(f"{room.picture(history)}\nYou win {won:+g}", style="bold")
    return won


def _ask(room: _Room, history: int, person: int) -> int:
    """The person's move; leaves by EOFError."""
    _say(room.seen(person, history, room.picture))
    state = room.state(history)
    names = {int(a): room.game.action_name(state, int(a)) for a in np.flatnonzero(state.legal)}
    choice = "  ".join(f"{action} {name}" for action, name in names.items())
    while True:
        text = input(f"your move ({choice}  q leaves): ").strip().lower()
        if text == "q":
            raise EOFError
        exact = [a for a, name in names.items() if text in (str(a), name.lower())]
        begun = [a for a, name in names.items() if text and name.lower().startswith(text)]
        for found in (exact, begun):
            if len(found) == 1:
                return found[0]
        _say(f"{text!r} is not one of them")


def _say(text: str, *, style: str = "") -> None:
    Console(highlight=False).print(text, style=style, markup=False, soft_wrap=True)
