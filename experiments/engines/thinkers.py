"""Our agents as they think about one position, piece by piece, so that they can be stopped.

A thinker is made for a game and thinks by searches with any number of simulations. With the same
seed and as many simulations it comes to the same result, in whatever pieces it searches.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from experiments.engines import networks
from experiments.perfect_information.student_search import simulation_pace, student_search
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition, legal_action_numbers
from jaxgames.arrays import at
from jaxgames.registry import unknown
from solvers.perfect_information import alphazero_search, puct_tree
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators, readouts
from solvers.search.search_state import GrowingTreeCfr, Search

MOST_SIMULATIONS = 2**14  # of a search; the memory for its tree grows with it
_LEAST_CAPACITY = 2**8  # searches of fewer simulations share one compiled program
_LINE = 16  # moves that are shown at most
_PIECE_SECONDS = 0.05  # that a piece of a search should take, or up to twice as much


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thought:
    """What a search has found so far."""

    simulations: int
    action: int
    value: float
    """Of the position to who moves there, from -1 to 1."""
    line: tuple[int, ...]
    """Actions from the position on, the best first."""


@runtime_checkable
class Thinker(Protocol):
    """An agent of a game of pgx."""

    def think(self, position: PgxPosition, *, simulations: int, seed: int) -> Iterator[Thought]:
        """Searches a position that is not over, up to a number of simulations.

        Args:
          position: of the game.
          simulations: from 1 to `MOST_SIMULATIONS`.
          seed: of everything random.

        Yields:
          What is known after each piece; the first pieces are the smallest.
        """
        ...


class Uniform:
    """Draws uniformly from the legal moves."""

    def __init__(self, game: PgxBeliefs, network: pathlib.Path | None = None):
        if network is not None:
            raise ValueError(f"network={network} is not for the agent uniform, which has none")

    def think(self, position, *, simulations, seed):
        action = uniform_action(position, seed)
        yield Thought(simulations=1, action=action, value=0.0, line=(action,))


def uniform_action(position: PgxPosition, seed: int) -> int:
    """A legal action, drawn uniformly."""
    return int(np.random.default_rng(seed).choice(legal_action_numbers(position)))


class AlphaZeroThinker:
    """AlphaZero's search; without a network, all values are 0 and priors are uniform."""

    def __init__(self, game: PgxBeliefs, network: pathlib.Path | None = None):
        self._game, self._params, self._evaluate = game, None, alphazero_search.zero
        if network is not None:
            self._evaluate, self._params = networks.load_value_prior(network, game)

    def think(self, position, *, simulations, seed):
        settings = AlphaZero(self._evaluate, simulations=_capacity(simulations))
        agent = AlphaZeroAgent(params=self._params, settings=settings)
        key = jax.random.key(seed)
        tree = _plant(self._game, agent, jax.random.fold_in(key, 0), position)
        for count in _pieces(simulations):
            agent = agent.replace(simulations=jnp.int32(count))
            own = jax.random.fold_in(key, count)
            tree, action, value, line = _grow(self._game, agent, own, tree)
            yield Thought(
                simulations=count,
                action=int(action),
                value=float(value),
                line=tuple(int(a) for a in line if a >= 0),
            )


class StudentOfGamesThinker:
    """Search of Student of Games, greedy by its policy; without a network as `AlphaZeroThinker`."""

    def __init__(self, game: PgxBeliefs, network: pathlib.Path | None = None):
        self._game, self._params, self._evaluate = game, None, leaf_evaluators.zero
        if network is not None:
            self._evaluate, self._params = networks.load_cvpn(network, game)

    def think(self, position, *, simulations, seed):
        pace = simulation_pace(simulations)
        settings = student_search(self._evaluate, _capacity(simulations), pace=pace)
        keys = jax.random.split(jax.random.key(seed), 1)
        state = _start(self._game, self._params, position, settings=settings)
        seat = (int(position.pgx.current_player) - int(self._game.first)) % 2
        done, each = 0, settings.expansions_per_phase
        for phases in _pieces(max(simulations // each, 1)):
            state, search = _run(
                self._game, self._params, keys, state, done, phases, settings=settings
            )
            done, line = phases, _likely_line(search)
            values = readouts.average_values(search)
            yield Thought(
                simulations=phases * each,
                action=line[0],
                value=float(np.clip(values[seat][0], -1, 1)),
                line=line,
            )


THINKERS: dict[str, Callable[..., Thinker]] = {
    "alphazero": AlphaZeroThinker,
    "student_of_games": StudentOfGamesThinker,
    "uniform": Uniform,
}


def make_thinker(agent: str, game: PgxBeliefs, network: str) -> Thinker:
    """An agent by its name.

    Args:
      agent: a key of `THINKERS`.
      game: what it plays.
      network: the path of its network, see `networks`; empty: without one.

    Raises:
      ValueError: an unknown agent, or a network that is not of this agent or game.
      OSError: the network cannot be read.
    """
    if agent not in THINKERS:
        raise ValueError(unknown("agent", agent, THINKERS))
    check_network(network)
    return THINKERS[agent](game, pathlib.Path(network) if network else None)


def check_network(network: str) -> None:
    """A ValueError if a network is asked for, and there is no such file."""
    if network and not pathlib.Path(network).is_file():
        raise ValueError(f"network={network} must be a file, such as RUN/networks/0.npz")


def check_simulations(simulations: int) -> None:
    """A ValueError if a search cannot have this many simulations."""
    if not 1 <= simulations <= MOST_SIMULATIONS:
        raise ValueError(f"simulations={simulations} must be from 1 to {MOST_SIMULATIONS}")


def best(thoughts: Iterator[Thought]) -> Thought:
    """The last thought."""
    *_, last = thoughts
    return last


def _capacity(simulations: int) -> int:
    """The room of a tree: a power of two, so that few programs are compiled."""
    check_simulations(simulations)
    return max(_LEAST_CAPACITY, 2 ** math.ceil(math.log2(simulations)))


def _pieces(end: int) -> Iterator[int]:
    """How far to go in each piece: from 1 to `end`, in steps that take about as long as they may.

    The time between two values is what the step between them has taken.
    """
    done, step = 0, 1
    while done < end:
        step = min(step, end - done)
        done, begin = done + step, time.monotonic()
        yield done
        seconds = time.monotonic() - begin
        step = 2 * step if seconds < _PIECE_SECONDS else max(step // 2, 1)


_plant = jax.jit(alphazero_search.plant)


@functools.partial(jax.jit, donate_argnums=3)
def _grow(game: PgxBeliefs, agent: AlphaZeroAgent, key, tree):
    tree = alphazero_search.grow(game, agent, key, tree)
    found = alphazero_search.statistics(tree)
    line = puct_tree.most_visited_line(tree, _LINE)
    return tree, jnp.argmax(found.visits), found.value, line


@functools.partial(jax.jit, static_argnames="settings")
def _start(game: PgxBeliefs, params: PyTree, position, *, settings: GrowingTreeCfr):
    problem = continual_resolving.first_problem(game, max_path=1, root=position)
    problems = jax.tree.map(lambda x: jnp.asarray(x)[None], problem)
    return growing_tree_cfr.start(game, params, problems=problems, settings=settings)


@functools.partial(jax.jit, static_argnames="settings", donate_argnums=3)
def _run(game: PgxBeliefs, params: PyTree, keys, state, begin, end, *, settings: GrowingTreeCfr):
    state = growing_tree_cfr.run_phases(
        game, params, keys, state, settings=settings, begin=begin, end=end
    )
    search = growing_tree_cfr.finish(state)
    # the positions of the tree are not needed any more
    search = search.replace(problem=None, tree=search.tree.replace(state=None))
    return state, at(search, 0)


def _likely_line(search: Search) -> tuple[int, ...]:
    """The likeliest actions of the average policy from the root on."""
    tree, node, line = jax.device_get(search.tree), 0, []
    while len(line) < _LINE:
        children = np.flatnonzero(
            (tree.parent == node) & (np.arange(len(tree.parent)) < tree.count)
        )
        if not len(children):
            break
        node = int(children[np.argmax(tree.policy[children])])
        line.append(int(tree.child[node]))
    return tuple(line)
