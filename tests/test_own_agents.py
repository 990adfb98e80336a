"""Our agents in games of several threads, which share their searches."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from experiments.engines import pair_queue, tournament
from experiments.engines.named_players import Settings, make_player
from experiments.engines.own_agents import SharedSearches
from experiments.engines.pair_queue import PairTask
from experiments.engines.referee import load
from experiments.engines.thinkers import uniform_action
from solvers.perfect_information import alphazero_search, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent

REFEREE = load("connect_four")
AGENT = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=8))  # no network


def positions(number):
    """After different first moves."""
    openings = [(str(n % 7), str(n // 7)) for n in range(number)]
    return [REFEREE.played(opening, REFEREE.start) for opening in openings]


class Held:
    """What an agent chooses, but the first search waits until `others` have asked, too."""

    def __init__(self, choose):
        self.choose, self.batches = choose, []
        self.begun, self.others_ask = threading.Event(), threading.Event()

    def __call__(self, keys, states, num_moves):
        self.batches.append(len(keys))
        self.begun.set()
        assert self.others_ask.wait(60)
        return self.choose(keys, states, num_moves)


def asked_together(shared, held, asked):
    """Futures of the actions in some positions: the first is searched while the others ask."""
    pool = ThreadPoolExecutor(len(asked))
    futures = [pool.submit(shared, asked[0], 0)]
    assert held.begun.wait(60)
    futures += [pool.submit(shared, each, seed) for seed, each in enumerate(asked[1:], 1)]
    end = time.monotonic() + 60
    while len(shared._waiting) < len(asked) - 1:
        assert time.monotonic() < end
        time.sleep(0.001)
    held.others_ask.set()
    pool.shutdown(wait=False)
    return futures


def test_positions_that_wait_are_searched_together(monkeypatch):
    """The first alone, as nobody else asks; then the other seven in batches of four. Actions are
    those of single searches."""
    held, asked = Held(matches.chooser(REFEREE.game, AGENT)), positions(8)
    monkeypatch.setattr(matches, "chooser", lambda game, agent: held)
    futures = asked_together(SharedSearches(REFEREE.game, AGENT, batch=4), held, asked)
    actions = [future.result(timeout=60) for future in futures]
    assert held.batches == [1, 4, 4]  # the last one has three, and is padded
    alone = SharedSearches(REFEREE.game, AGENT, batch=1)
    assert actions == [alone(each, seed) for seed, each in enumerate(asked)]


def test_all_positions_of_a_search_that_fails_learn_of_it(monkeypatch):
    """Once; who asks later is not concerned."""
    works, fails = matches.chooser(REFEREE.game, AGENT), [True, True]

    def choose(keys, states, num_moves):
        if fails:
            fails.pop()
            raise RuntimeError("no memory")
        return works(keys, states, num_moves)

    held, asked = Held(choose), positions(4)
    monkeypatch.setattr(matches, "chooser", lambda game, agent: held)
    shared = SharedSearches(REFEREE.game, AGENT, batch=4)
    for future in asked_together(shared, held, asked):
        with pytest.raises(RuntimeError, match="no memory"):
            future.result(timeout=60)
    assert held.batches == [1, 4]
    assert not shared._waiting
    assert 0 <= shared(asked[0], 0) < 7


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
    drawn = [uniform_action(position, seed) for seed in range(200)]
    assert {*drawn} == {0, 1, 2, 4, 5, 6}
    assert drawn == [uniform_action(position, seed) for seed in range(200)]
    assert np.bincount(drawn, minlength=7).max() < 60
