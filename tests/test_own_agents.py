"""Our agents in games of several threads, which share their searches."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from experiments.engines import pair_queue, tournament
from experiments.engines.named_players import Settings, make_player
from experiments.engines.own_agents import SharedSearches, uniform
from experiments.engines.pair_queue import PairTask
from experiments.engines.referee import load
from solvers.perfect_information import alphazero_search, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent

REFEREE = load("connect_four")
AGENT = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=8))  # no network


def positions(number):
    """After different first moves."""
    openings = [(str(n % 7), str(n // 7)) for n in range(number)]
    return [REFEREE.played(opening, REFEREE.start) for opening in openings]


@pytest.fixture
def searched(monkeypatch):
    """Searches of which the first one waits for an event, and the sizes of their batches."""
    batches, chooser, others_ask = [], matches.chooser, threading.Event()

    def counted(game, agent):
        choose = chooser(game, agent)

        def own(keys, states, num_moves):
            batches.append(len(keys))
            assert others_ask.wait(60)
            return choose(keys, states, num_moves)

        return own

    monkeypatch.setattr(matches, "chooser", counted)
    return SharedSearches(REFEREE.game, AGENT, batch=4), batches, others_ask


def test_positions_that_wait_are_searched_together(searched):
    """The first alone, as nobody else asks; then the other six in batches of four. Actions are
    those of single searches."""
    shared, batches, others_ask = searched
    asked = positions(7)
    alone = SharedSearches(REFEREE.game, AGENT, batch=1)
    with ThreadPoolExecutor(7) as pool:
        futures = [pool.submit(shared, asked[0], 0)]
        while not batches:
            pass
        futures += [pool.submit(shared, each, seed) for seed, each in enumerate(asked[1:], 1)]
        while len(shared._waiting) < 6:
            pass
        others_ask.set()
        actions = [future.result() for future in futures]
    assert batches[:3] == [1, 4, 4]  # the last one has two, and is padded
    assert actions == [alone(each, seed) for seed, each in enumerate(asked)]


def test_who_waits_does_not_wait_for_a_search_that_fails(monkeypatch):
    """Each who asks learns of the error."""

    def fails(keys, states, num_moves):
        raise RuntimeError("no memory")

    monkeypatch.setattr(matches, "chooser", lambda game, agent: fails)
    shared = SharedSearches(REFEREE.game, AGENT, batch=4)
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(shared, each, 0) for each in positions(3)]
        for future in futures:
            with pytest.raises(RuntimeError, match="no memory"):
                future.result(timeout=60)


def test_agents_asked_for_alike_share_their_searches():
    settings = Settings(referee=REFEREE, side_by_side=4)
    one, same, other = (
        make_player(f"alphazero(simulations={number})", settings) for number in (8, 8, 9)
    )
    assert one._choose is same._choose is not other._choose
    fresh = make_player("alphazero(simulations=8)", Settings(referee=REFEREE))
    assert fresh._choose is not one._choose


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["alphazero(simulations=16)", "student_of_games(simulations=16)"])
def test_games_side_by_side_are_those_that_are_played_alone(spec):
    """An agent against uniform moves."""
    tasks = [
        PairTask(name=str(n), first=0, second=1, opening=(str(n), "3"), seed=n) for n in range(6)
    ]

    def play(workers):
        settings = Settings(referee=REFEREE, side_by_side=workers)
        new = tournament.player_factory([spec, "uniform"], ["own", "uniform"], settings)
        played = pair_queue.play_tasks(tasks, new, referee=REFEREE, workers=workers)
        return {task.name: games for task, games in played}

    assert play(1) == play(4)


def test_uniform_moves_are_legal_and_as_the_seed_says():
    position = REFEREE.played(["3"] * 6, REFEREE.start)  # its column is full
    drawn = [uniform(position, seed) for seed in range(200)]
    assert {*drawn} == {0, 1, 2, 4, 5, 6}
    assert drawn == [uniform(position, seed) for seed in range(200)]
    assert np.bincount(drawn, minlength=7).max() < 60
