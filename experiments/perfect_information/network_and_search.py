"""The players of `search_gap`: two networks with several searches, their moves and their games."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

import jax

from experiments.harness import devices
from experiments.harness.ladder_ratings import Ladder, matches_of
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.perfect_information import move_quality, paired_matches, sog_student
from experiments.perfect_information.connect_four_positions import Positions, read_positions
from experiments.perfect_information.connect_four_training import GAME as SCORED
from experiments.perfect_information.paired_matches import Pair
from experiments.perfect_information.student_search import agent_name, simulation_pace
from experiments.perfect_information.trained_players import (
    ALPHAZERO,
    STUDENT,
    Network,
    read_last_networks,
)
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs.contract import BeliefGame
from solvers.perfect_information.matches import Agent


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The networks, the searches and their games."""

    game: str = SCORED  # in which all were trained
    alphazero: str = ""  # folder of the run that trained it; empty: there is no network
    student_of_games: str = ""
    networks: int = 3  # of each run, by seed; fewer if a run has trained fewer
    simulations: int  # of all searches
    paces: tuple[float, ...]  # c of further searches of Student of Games
    expands: tuple[int, ...]  # k of further ones
    every: int = 1  # of the positions, one in this many is measured
    pairs: int  # of games, in each match
    opening_moves: int = 4  # drawn at random
    batch: int  # pairs that are kept together; positions side by side
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Player:
    """A network with a search."""

    network: str  # whose: ALPHAZERO or STUDENT
    search: str
    simulations: int
    pace: float = 1.0  # c of Student of Games
    expand: int = 1  # k

    @property
    def search_name(self) -> str:
        """Such as AlphaZero(800), SoG(800,10) and SoG(800,10) with k = 2."""
        if self.search == ALPHAZERO:
            return f"{ALPHAZERO}({self.simulations})"
        further = f" with k = {self.expand}" if self.expand > 1 else ""
        return f"{agent_name(self.simulations, self.pace)}{further}"

    @property
    def name(self) -> str:
        """The network and the search."""
        return f"{self.network}'s network, {self.search_name}"

    def evaluations(self, game: BeliefGame) -> int:
        """Of the network in a search, at most."""
        if self.search == ALPHAZERO:
            return 1 + self.simulations
        return sog_student.evaluations(game, self.simulations, expand=self.expand)

    def agent(self, network: Network) -> Agent:
        """Who plays."""
        further = {"pace": self.pace, "expand": self.expand}
        return network.player(self.search, self.simulations, **further)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moves:
    """What a player with a network of some seed plays in the positions."""

    player: int
    seed: int
    moves: list[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """All moves and all games."""

    players: int  # P, how many there are
    moves: Sequence[Moves]
    pairs: Sequence[Pair]  # seed * P + n is player n with networks of a seed

    @functools.cached_property
    def ladder(self) -> Ladder:
        """Of all players, whose networks of all seeds count as one."""
        count = self.players
        met = ((pair.first % count, pair.second % count, pair.share) for pair in self.pairs)
        return Ladder(matches_of(met), count)


def players(config: Config) -> list[Player]:
    """First both networks with both searches, then Student of Games' with further searches."""
    common = {"simulations": config.simulations, "pace": simulation_pace(config.simulations)}
    both = [
        Player(network=network, search=search, **common)
        for network, search in itertools.product((ALPHAZERO, STUDENT), repeat=2)
    ]
    further = [{"pace": pace} for pace in config.paces]
    further += [{"expand": expand} for expand in config.expands]
    return both + [dataclasses.replace(both[-1], **changes) for changes in further]


_SAME_NETWORK = 2  # the player with Student of Games' network and AlphaZero's search


def schedule(config: Config) -> list[tuple[int, int]]:
    """Who meets whom: all of the first four, and further searches AlphaZero's of their network."""
    further = range(4, len(players(config)))
    return [*itertools.combinations(range(4), 2), *((_SAME_NETWORK, other) for other in further)]


def positions_of(config: Config) -> Positions | None:
    """The positions that are measured; None if the game has none whose moves are scored."""
    return read_positions().every(config.every) if config.game == SCORED else None


def compute(run: Run) -> Outcome:
    """All moves in positions, and then all games, in pieces that are kept."""
    config, game = run.config, pgx_beliefs(run.config.game)
    every, count = players(config), len(players(config))
    networks = read_last_networks(run, game, range(config.networks))
    agents = [player.agent(found[player.network]) for found in networks for player in every]
    moves = _all_moves(run, game, agents, count)
    met = [
        (seed * count + first, seed * count + second, seed)
        for seed in range(config.networks)
        for first, second in schedule(config)
    ]
    pairs = paired_matches.play_matches(run, game, agents, met)
    return Outcome(players=count, moves=moves, pairs=pairs)


def _all_moves(run: Run, game: BeliefGame, agents: Sequence[Agent], count: int) -> list[Moves]:
    """What all agents play in the positions, if there are any; each seed has `count` agents."""
    config, mesh = run.config, devices.local(run.mesh)
    positions = positions_of(config)
    if positions is None:
        return []
    states, number = move_quality.states_of(game, positions), len(positions.moves)

    def chosen(place: int) -> Iterator[Moves]:
        seed, player = divmod(place, count)
        key = jax.random.fold_in(jax.random.key(config.seed), seed)
        choose = move_quality.by_search(game, agents[place], key, mesh)
        moves = move_quality.chosen_moves(choose, states, number, batch=config.batch)
        yield Moves(player=player, seed=seed, moves=moves.tolist())

    found = []
    with progress("positions", len(agents) * number) as report:
        counted = counter(report)
        for place in range(len(agents)):
            found += run.kept(f"moves-{place}", Moves, functools.partial(chosen, place))
            counted(number)
    return found


def gaps(config: Config) -> dict[str, tuple[int, int]]:
    """What is compared, by name: two players, of which the second's strength is subtracted."""
    every = players(config)
    own, other = every[3].search_name, every[2].search_name
    found = {
        f"{own} less {other}, with {ALPHAZERO}'s network": (1, 0),
        f"{own} less {other}, with {STUDENT}'s network": (3, 2),
        f"{STUDENT}'s network less {ALPHAZERO}'s, with {other}": (2, 0),
        f"{STUDENT}'s network less {ALPHAZERO}'s, with {own}": (3, 1),
        f"{STUDENT}'s network with {own} less {ALPHAZERO}'s with {other}": (3, 0),
    }
    for number in range(4, len(every)):
        name = f"{every[number].search_name} less {other}, with {STUDENT}'s network"
        found[name] = (number, _SAME_NETWORK)
    return found
