"""Recorded games of Scotland Yard, their pictures, and the command that draws them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.csgraph
from PIL import Image

from experiments import cli
from experiments.harness import kept_file
from experiments.scotland_yard import mr_x_range, one_game, pictures, scotland_yard_picture
from experiments.scotland_yard.recorded_games import record_game
from jaxgames import CHANCE, TERMINAL, enumerate_game, make
from jaxgames.scotland_yard import add_map, load_map
from jaxgames.scotland_yard.coordinates import _laid_out, coordinates
from solvers.scotland_yard import matches
from solvers.scotland_yard.pimbot import PimBot
from solvers.scotland_yard.search_match_agent import SearchMatchAgent, room_for_paths
from solvers.search import leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr

# Mr X may start at two stations, with two and with three neighbours, shows himself once and has a
# double card and a black one.
SMALL = (
    "scotland_yard(map=glasses,rounds=3,reveals=2,doubles=1,black=1,detectives=1,"
    "detective_starts=1,mr_x_starts=4/7)"
)
UNIFORM = matches.UniformAgent()


@functools.cache
def recorded(seed):
    return record_game(make(SMALL), jax.random.key(seed), UNIFORM, UNIFORM)


def test_stations_of_london_lie_apart_and_near_their_neighbours():
    places, lines = coordinates("london"), load_map("london").edges
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[~np.eye(199, dtype=bool)].min() > 0.3
    assert np.median(apart[lines[:, 0], lines[:, 1]]) == pytest.approx(1)
    assert apart[lines[lines[:, 2] == 0, 0], lines[lines[:, 2] == 0, 1]].max() < 3  # taxis
    north, south = (load_map("london").numbers.tolist().index(n) for n in (4, 198))
    assert places[north, 1] > places[south, 1]
    district = load_map("district").numbers - 1
    shape = places[district] - places[district].mean(axis=0)
    ratio = coordinates("district") / shape
    np.testing.assert_allclose(ratio, ratio[0, 0])


def test_other_maps_are_laid_out_by_their_lines():
    add_map("ring", [(n, n % 8 + 1, "taxi") for n in range(1, 9)])
    ring = coordinates("ring")
    radius = np.linalg.norm(ring, axis=1)
    np.testing.assert_allclose(radius, radius[0], rtol=1e-3)  # a regular octagon
    sides = np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1)
    np.testing.assert_allclose(sides, 1, rtol=1e-3)
    add_map("apart", [(1, 2, "taxi"), (3, 4, "bus")])
    assert np.isfinite(coordinates("apart")).all()


def test_layouts_have_least_stress():
    """No station pulls or pushes the others: where derivatives of the stress are 0."""
    glasses = load_map("glasses")
    places = _laid_out(glasses)
    linked = scipy.sparse.coo_array(([1] * 12, glasses.edges[:, :2].T), (11, 11))
    lines = scipy.sparse.csgraph.shortest_path(linked, directed=False, unweighted=True)
    between = places[:, None] - places[None]
    apart = np.linalg.norm(between, axis=2) + np.eye(11)
    force = (1 - lines / apart) / (lines + np.eye(11)) ** 2 * (1 - np.eye(11))
    np.testing.assert_allclose((force[:, :, None] * between).sum(axis=1), 0, atol=1e-3)


@pytest.mark.slow
def test_games_are_those_of_matches():
    game = make(SMALL)
    play = functools.partial(matches.play, game)
    for seed in range(6):
        end = recorded(seed)[-1].state
        played = play(jax.random.key(seed)[None], UNIFORM, UNIFORM)
        assert end.actor == TERMINAL
        assert bool(played.mr_x_won[0]) == (end.returns[0] > 0)
        assert int(played.moves[0]) == end.board.moves


@pytest.mark.slow
def test_games_of_pimbot_are_recorded():
    game = make(SMALL)
    pimbot = matches.make_pimbot(game, PimBot(simulations=8))
    moments = record_game(game, jax.random.key(0), pimbot, pimbot)
    assert moments[-1].state.actor == TERMINAL
    for moment in moments:
        assert moment.probability.sum() == pytest.approx(1, abs=1e-5)
        assert moment.probability[moment.state.mr_x] > 0
    certain = [m for m in moments if m.shows]
    assert all(m.probability[m.state.mr_x] == pytest.approx(1) for m in certain)


@pytest.mark.slow
def test_probabilities_are_bayes_rule():
    """Against the histories of the game, for uniform play."""
    game = make(SMALL)
    tree = enumerate_game(game)
    starts = np.searchsorted(game.layout.numbers, game.mr_x_starts)
    weight, station = np.ones(tree.num_histories), np.full(tree.num_histories, -1)
    child = {}
    for history in range(1, tree.num_histories):
        parent, action = int(tree.parent[history]), int(tree.parent_action[history])
        child[parent, action] = history
        station[history], choices = station[parent], 1
        if tree.actor[parent] == CHANCE:
            station[history] = starts[action]
        elif tree.actor[parent] == 0:
            choices = tree.legal[parent].sum()
            if action < game.num_actions - 1:  # no double card
                station[history] = game.moves.to[station[parent], action]
        weight[history] = weight[parent] / choices
    for moment in itertools.chain.from_iterable(map(recorded, range(6))):
        history = 0
        for made in moment.state.moves_made[: int(moment.state.num_steps)]:
            history = child[history, int(made) - 1]
        same = tree.information_state[:, 1] == tree.information_state[history, 1]
        expected = np.bincount(station[same], weight[same], minlength=game.num_stations)
        np.testing.assert_allclose(moment.probability, expected / expected.sum(), atol=1e-6)


def test_turns_hold_all_moves():
    for seed in range(6):
        turns = pictures.turns(recorded(seed))
        assert [m for turn in turns for m in turn.moments] == recorded(seed)
        assert turns[0].end.move == ""
        for turn, after in itertools.pairwise(turns):
            assert after.before is turn.end
            assert turn.end.state.board.turn == 0
        assert sum(len(turn.his) for turn in turns) == turns[-1].end.state.board.moves
        shown = [m for m in recorded(seed) if m.shows]
        assert [int(m.state.board.moves) for m in shown] == [2] * len(shown)
        assert all(m.probability[m.state.mr_x] == 1 for m in shown)
        end = pictures.title(make(SMALL), turns[-1])
        assert ("gets away" in end) == (turns[-1].end.state.returns[0] > 0)
    titles = [
        pictures.title(make(SMALL), turn)
        for seed in range(20)
        for turn in pictures.turns(recorded(seed))
    ]
    assert any(title.startswith("Rounds ") for title in titles)  # a double card


def test_pictures_are_written(tmp_path, capsys):
    command = ["scotland_yard_picture", SMALL, "--mr_x", "uniform", "--detectives", "uniform"]
    assert cli.main([*command, "--out", str(tmp_path)]) == 0
    turns = pictures.turns(recorded(0))
    with Image.open(tmp_path / "game.gif") as animation:
        assert animation.n_frames == len(turns)
        frames = []
        for number in range(len(turns)):
            animation.seek(number)
            frames.append(np.asarray(animation.convert("RGB")))
    maps = [frame[: len(frame) * 2 // 3] for frame in frames]  # above the log of tickets
    assert all((a != b).any() for a, b in itertools.pairwise(maps))
    with Image.open(tmp_path / "game.png") as strip:
        colours = {tuple(c) for c in np.asarray(strip.convert("RGB")).reshape(-1, 3)[::7].tolist()}
    assert len(colours) > 10
    text = (tmp_path / "game.txt").read_text()
    for moment in recorded(0):
        assert moment.move in text
    assert text.splitlines()[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kuhn_poker"], "game=kuhn_poker must be a scotland_yard"),
        (["--mr_x", "nobody"], "unknown agent 'nobody'"),
        (["--mr_x", "nobody:3"], "unknown agent 'nobody:3'"),
        (["--detectives", "pimbot:many"], "agent pimbot:many must end with a number of simu"),
        (["--detectives", "pimbot:0"], "agent pimbot:0 must end with a number of simulations"),
        (["--mr_x", f"{__file__.rpartition('/')[0]}:4"], "must be the folder of a run of sog_"),
        (
            ["scotland_yard(mr_x_starts=7/300)"],
            "mr_x_starts=7/300 must be stations of map 'london'",
        ),
        (
            ["scotland_yard(map=glasses,detective_starts=6/6)"],
            "detective_starts=6/6 must be different stations",
        ),
        (
            ["scotland_yard(map=glasses,detective_starts=1/6)"],
            "mr_x_starts=6 must be stations of which one is left whatever the detectives get",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, arguments, message):
    command = ["scotland_yard_picture", *arguments, "--out", str(tmp_path / "out")]
    assert cli.main(command) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_agents_of_another_map_are_refused(tmp_path):
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks" / "6.npz").touch()
    sizes = {"network": "mlp", "width": 8, "depth": 1, "dtype": "float32"}
    config = {"game": "scotland_yard(map=glasses)", "opponents": [10]} | sizes
    kept_file.write(tmp_path / "checkpoint" / "config.json", config)
    message = r"was trained in scotland_yard\(map=glasses\), and cannot play scotland_yard"
    with pytest.raises(ValueError, match=message):
        scotland_yard_picture.named_agent(f"{tmp_path}:4", make("scotland_yard(map=district)"))


@pytest.mark.slow
def test_what_a_threshold_leaves_out_is_impossible():
    game = make(SMALL)
    beliefs = game.belief_game()
    search = GrowingTreeCfr(leaf_evaluators.zero, simulations=8, max_path=room_for_paths(beliefs))
    plain = SearchMatchAgent(beliefs=beliefs, params=None, settings=search)
    states = one_game.deal(game, jax.random.key(0))
    memory = one_game.begin(plain, jax.random.key(1), states, side=matches.MR_X)
    key = jax.random.key(2)
    memory, _ = one_game.act(game, plain, key, memory, states, side=matches.MR_X)
    legal = jnp.ones((game.num_actions, game.num_stations))
    whole, pure = (
        np.asarray(mr_x_range._policy(one, memory, jax.random.key(3), states, legal))
        for one in (plain, plain.replace(threshold=1.0))
    )
    kept = np.where(whole == whole.max(axis=0), whole, 0)
    total = kept.sum(axis=0)
    np.testing.assert_allclose(pure, kept / np.where(total > 0, total, 1), atol=1e-6)
    assert (whole > pure).any()
