"""Search agents of beliefs in matches of Scotland Yard."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

from experiments import cli
from experiments.harness import results
from experiments.scotland_yard import agent_games
from experiments.scotland_yard.trained_students import CHILDREN, DECISION_SHARES
from jaxgames.core import record
from jaxgames.registry import make
from solvers.scotland_yard import matches
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.search_match_agent import SearchMatchAgent, room_for_paths
from solvers.search import leaf_evaluators, search_agent
from solvers.search.search_state import GrowingTreeCfr

# Mr X shows himself twice, also within a double move, and the detectives' starts are dealt.
DEALT = (
    "scotland_yard(map=glasses,rounds=4,reveals=1/3,mr_x_tickets=8/0/0,black=1,doubles=1,"
    "detective_starts=1/3/9/11,mr_x_starts=6/7)"
)


@functools.cache
def agent(name, simulations=4):
    game = make(name)
    beliefs = game.belief_game() if not game.num_deals else _dealt_beliefs(game)
    settings = GrowingTreeCfr(
        leaf_evaluators.zero, simulations=simulations, max_path=room_for_paths(beliefs)
    )
    return SearchMatchAgent(beliefs=beliefs, params=None, settings=settings)


def _dealt_beliefs(game):
    from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs

    return scotland_yard_beliefs(game, detective_starts=game.detective_starts[: game.detectives])


@record
class Watcher(SearchMatchAgent):
    """Plays at random, and illegally if what it has observed is not the state of the game."""

    def act(self, keys, memory, states, *, side):
        random = matches.UniformAgent().act(keys, (), states, side=side)[1]
        same = jax.vmap(_same)(memory.public, states)
        mine = jnp.where(side == 0, states.state.board.turn == 0, states.state.board.turn > 0)
        forget, searched = jnp.full_like(memory.path, -1), jnp.ones_like(memory.searched)
        memory = memory.replace(path=forget, searched=searched)
        return memory, jnp.where(same | ~mine, random, -1)


def _same(public, states):
    boards = jax.tree.map(lambda a, b: jnp.all(a == b), public.board, states.state.board)
    return jnp.all(jnp.stack(jax.tree.leaves(boards))) & jnp.all(public.possible == states.possible)


@pytest.mark.slow
def test_its_threshold_is_that_of_its_moves(monkeypatch):
    name = "scotland_yard(map=glasses)"

    def act(beliefs, params, key, memory, row, *, settings, threshold):
        return memory, jnp.int32(round(100 * threshold)), None

    monkeypatch.setattr(search_agent, "act", act)
    keys = jax.random.split(jax.random.key(0), 2)
    states, moves, (begin, _) = matches.deal_games(make(name), keys)
    one = agent(name).replace(threshold=0.25)
    memory = one.begin(begin, states, side=matches.MR_X)
    _, actions = one.act(moves, memory, states, side=matches.MR_X)
    assert actions.tolist() == [25, 25]


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_agents_observe_what_everybody_sees(side):
    game, one = make(DEALT), agent(DEALT, 1)
    watcher = Watcher(**{f.name: getattr(one, f.name) for f in dataclasses.fields(one)})
    players = [matches.UniformAgent(), matches.UniformAgent()]
    players[side] = watcher
    played = matches.play(game, jax.random.split(jax.random.key(0), 64), *players)
    assert played.legal.all()
    assert 0 < played.mr_x_won.mean() < 1


@record
class Cheat(matches.MatchAgent):
    """Plays an action that does not exist."""

    action: int

    def act(self, keys, memory, states, *, side):
        return memory, jnp.full(len(keys), self.action, jnp.int32)


@pytest.mark.parametrize("action", [-1, 1000])
def test_actions_that_do_not_exist_are_illegal(action):
    game = make("scotland_yard(map=glasses,rounds=1,doubles=1,mr_x_tickets=8/0/0)")
    keys = jax.random.split(jax.random.key(0), 2)
    agents = Cheat(action=action), matches.UniformAgent()
    assert not matches.play(game, jax.random.clone(keys), *agents).legal.any()
    with pytest.raises(ValueError, match="illegal action was played in a game between Cheat and"):
        agent_games.won_by_mr_x(compiled_play(game), agents, keys, batch=2)


@pytest.mark.slow
def test_search_wins_more_than_chance():
    """On the glasses map Mr X escapes random detectives more often if he searches than if he plays
    at random, and then detectives who search catch him more often than random ones."""
    name = "scotland_yard(map=glasses)"
    game, random, searcher = make(name), matches.UniformAgent(), agent(name, 20)
    escapes = []
    for players in ((random, random), (searcher, random), (searcher, searcher)):
        played = matches.play(game, jax.random.split(jax.random.key(1), 64), *players)
        assert played.legal.all()
        escapes.append(float(played.mr_x_won.mean()))
    chance, his_search, their_search = escapes
    assert his_search > chance + 0.2
    assert their_search < his_search - 0.2


@record
class Doubtful(SearchMatchAgent):
    """Plays illegally where the tree of its search was full."""

    def act(self, keys, memory, states, *, side):
        memory, actions = super().act(keys, memory, states, side=side)
        return memory, jnp.where(memory.search.tree.is_full, -1, actions)


@pytest.mark.slow(minutes=5)
@pytest.mark.parametrize(
    ("simulations", "room"),
    [
        (32, dict(children=16.0, decision_shares=(0.4, 1.0))),
        (100, dict(children=CHILDREN, decision_shares=DECISION_SHARES)),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_trees_on_london_have_room(simulations, room, side):
    """With values of 0 and uniform priors, as a network has them before training."""
    game = make("scotland_yard")
    beliefs = _dealt_beliefs(game)
    settings = GrowingTreeCfr(
        leaf_evaluators.zero,
        simulations=simulations,
        max_path=room_for_paths(beliefs),
        **room,
    )
    players = [matches.UniformAgent(), matches.UniformAgent()]
    players[side] = Doubtful(beliefs=beliefs, params=None, settings=settings)
    played = compiled_play(game)(players, jax.random.split(jax.random.key(0), 2))
    assert played.legal.all()


@pytest.mark.slow(minutes=10)
def test_training_and_matches(tmp_path):
    trained = tmp_path / "trained"
    assert cli.main(["sog_london", "--preset", "smoke", "--out", str(trained)]) == 0
    result = results.read_result(trained / "result.json")
    shares = result.numbers[:4]
    assert [number.name for number in result.numbers] == [
        "step 0, Mr X:PimBot(10)",
        "step 0, detectives:PimBot(10)",
        "step 6, Mr X:PimBot(10)",
        "step 6, detectives:PimBot(10)",
        "self-play",
        "training",
        "full trees",
    ]
    assert all(0 <= number.low <= number.value <= number.high <= 1 for number in shares)
    assert result.number("self-play").value > 0
    assert {path.name for path in (trained / "networks").iterdir()} == {"0.npz", "6.npz"}
    played = tmp_path / "played"
    command = ["sog_pimbot", "--preset", "smoke", "--agent", str(trained), "--out", str(played)]
    assert cli.main(command) == 0
    numbers = results.read_result(played / "result.json").numbers
    assert [number.name for number in numbers[:2]] == [
        "SoG(4,1):PimBot(4)",
        "SoG(4,1), untrained:PimBot(4)",
    ]
    drawn = tmp_path / "drawn"
    game = results.read_result(trained / "result.json").config["game"]
    command = ["scotland_yard_picture", game, "--mr_x", f"{trained}:4", "--detectives", "uniform"]
    assert cli.main([*command, "--out", str(drawn)]) == 0
    assert (drawn / "game.gif").exists()


def test_agents_must_have_been_trained(tmp_path, capsys):
    command = ["sog_pimbot", "--agent", str(tmp_path), "--out", str(tmp_path / "played")]
    assert cli.main(command) == 2
    assert "must be the folder of a run of sog_london" in capsys.readouterr().err
