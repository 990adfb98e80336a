"""Matches in batches that shrink as games end."""

import functools
import gc
import pathlib

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_pimbot import TOY

from jaxgames.core import record
from jaxgames.registry import make
from solvers.scotland_yard import match_batches, matches
from solvers.scotland_yard.match_batches import compiled_play, sizes

GAMES = 32
MAPS = pathlib.Path("/proc/self/maps")  # of this process


@record
class Counter(matches.MatchAgent):
    """Plays by what it remembers: in its turn number n its legal action number n, from a start that
    is another one in every game.

    It has a field because jaxlib takes records of any classes for equal whose static fields are
    equal, and so may, if rarely, take the program of one for that of the other.
    """

    starts: int = flax.struct.field(pytree_node=False, default=7)

    def begin(self, keys, states, *, side):
        return jax.vmap(lambda key: jax.random.randint(key, (), 0, self.starts, jnp.int32))(keys)

    def act(self, keys, memory, states, *, side):
        legal = states.state.legal
        wanted = memory % jnp.maximum(jnp.sum(legal, axis=1, dtype=jnp.int32), 1)
        number = jnp.cumsum(legal, axis=1, dtype=jnp.int32) - 1
        found = legal & (number == wanted[:, None])
        return memory + 1, jnp.argmax(found, axis=1).astype(jnp.int32)


@record
class First(matches.MatchAgent):
    """Plays its first legal action."""

    field: int = flax.struct.field(pytree_node=False, default=3)

    def act(self, keys, memory, states, *, side):
        return memory, jnp.argmax(states.state.legal, axis=1).astype(jnp.int32)


def keys():
    return jax.random.split(jax.random.key(0), GAMES)


@functools.cache
def played_at_once():
    return jax.tree.map(np.asarray, matches.play(make(TOY), keys(), *agents()))


def agents():
    return Counter(), matches.UniformAgent()


@pytest.mark.parametrize(
    "shares", [(1.0, 0.5), pytest.param(match_batches._SHARES, marks=pytest.mark.slow)]
)
def test_games_end_as_in_one_batch(monkeypatch, shares):
    """Also those that move to other places in smaller batches, with what agents remember."""
    expected, seen, referee = played_at_once(), [], matches.referee

    def watched(game, player, states, actions):
        seen.append(len(actions))  # once for each program
        return referee(game, player, states, actions)

    monkeypatch.setattr(match_batches.matches, "referee", watched)
    monkeypatch.setattr(match_batches, "_SHARES", shares)
    reports, play = [], compiled_play(make(TOY))
    found = play(agents(), keys(), reports.append)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert seen == [size for size in sizes(GAMES) if size in seen]  # each once, the largest first
    assert len(seen) > 1
    assert sum(reports) == GAMES
    assert 0 < found.mr_x_won.mean() < 1
    assert found.legal.all()
    assert len(set(found.moves.tolist())) > 2  # games of several lengths


def test_programs_of_an_agent_serve_it_against_all_opponents(monkeypatch):
    """On one side; on the other one it thinks in another program."""
    traced, act = [], Counter.act

    def counted(agent, keys, memory, states, *, side):
        traced.append(side)
        return act(agent, keys, memory, states, side=side)

    monkeypatch.setattr(Counter, "act", counted)
    monkeypatch.setattr(match_batches, "_SHARES", (1.0,))
    play, agent = compiled_play(make(TOY)), Counter(starts=5)
    for opponent in (matches.UniformAgent(), First(), matches.UniformAgent()):
        play((agent, opponent), keys())
    assert traced == [matches.MR_X]
    play((First(), agent), keys())
    assert traced == [matches.MR_X, matches.DETECTIVES]


@pytest.mark.skipif(not MAPS.exists(), reason="counts the memory maps of Linux")
@pytest.mark.slow
def test_programs_of_other_agents_are_dropped(monkeypatch):
    """A process may not have many maps, of which each kernel has some."""
    monkeypatch.setattr(match_batches, "_SHARES", (1.0,))
    play, kinds, counts = compiled_play(make(TOY)), (agents(), agents()[::-1]), []
    for kind in (*kinds, *kinds):
        play(kind, keys())
        gc.collect()
        counts.append(len(MAPS.read_text().splitlines()))
    assert counts[2] < 1.05 * counts[0]


@pytest.mark.slow
def test_games_end_as_they_do_alone():
    play = compiled_play(make(TOY))
    for number in range(8):
        alone = play(agents(), keys()[number : number + 1])
        together = jax.tree.map(lambda x: x[number : number + 1], played_at_once())  # noqa: B023
        jax.tree.map(np.testing.assert_array_equal, alone, together)


@pytest.mark.parametrize(
    ("batch", "devices", "expected"),
    [
        (64, 1, (64, 32, 16)),
        (50, 2, (50, 26, 14)),
        (8, 2, (8, 4, 2)),
        (2, 2, (2,)),
        (1, 1, (1,)),
    ],
)
def test_batches_have_few_sizes(batch, devices, expected):
    assert sizes(batch, devices) == expected
