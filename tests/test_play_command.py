"""Playing a trained agent: in the terminal, and against other agents."""

import dataclasses
import functools
import io
import pathlib
import re
import shlex

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tyro
from written_agent import write_agent

from experiments.commands import play_agent
from experiments.harness import results
from jaxgames.beliefs.places import table_places
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers.search import leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr
from train import agent_matches
from train.agent import TrainedAgent, game_table, load_agent

COMMITTED = pathlib.Path(__file__).parent.parent / "experiments/results/sog_leduc/quick"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_agent(tmp_path_factory.mktemp("agents") / "kuhn")


def run(command, *folders):
    arguments = [str(folders[0]) if word == "DIR" else word for word in shlex.split(command)]
    parsed = tyro.cli(play_agent.Arguments, args=arguments, use_underscores=True)
    play_agent.main(parsed, command="")


def typed(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.mark.slow
def test_person_plays_games_to_their_end(folder, monkeypatch, capsys):
    typed(monkeypatch, "what?\n" + "b\nPASS\n1\n0\n" * 5)
    run("kuhn_poker --agent DIR --games 4 --seed 3", folder)
    out = capsys.readouterr().out
    assert "'what?' is not one of them" in out
    assert "(0 pass  1 bet  q leaves)" in out
    games = re.split(r"Game \d of kuhn_poker: you are player ", out)[1:]
    assert [int(game[0]) for game in games] == [0, 1, 0, 1]
    total = 0
    for game in games:
        person = int(game[0])
        pictures = re.findall(r"cards: (\S) (\S)  actions: (\w+|-)", game)
        cards = pictures[-1][:2]  # all open in the end
        assert set(cards) < set("012")
        for picture in pictures[:-1]:
            assert picture[person] == cards[person]
            assert picture[1 - person] == "?"
        assert f"chance: deal {cards[person]}" in game
        assert game.count("chance: deal ?") == 1
        won = int(re.search(r"You win ([+-]\d)", game).group(1))
        bets = pictures[-1][2].endswith("bb")
        higher = cards[person] > cards[1 - person]
        if bets or pictures[-1][2] == "pp":
            assert won == (1 if higher else -1) * (2 if bets else 1)
        total += won
    assert f"4 games played to the end, you won {total:+g}" in out


def test_a_person_sees_the_board(monkeypatch, capsys):
    """Before each move, and at the end; the other player moves at random."""
    typed(monkeypatch, "9\n?\n" + "".join(f"{column}\n" for column in "0123456") * 6)
    run("connect_four --agent uniform --seat 0 --games 1 --seed 0")
    out = capsys.readouterr().out
    assert "'9' is no legal move" in out
    assert "q leaves): 0 1 2 3 4 5 6\n" in out
    boards = re.findall(r"(?m)((?:^[.XO ]{13}\n){6})0 1 2 3 4 5 6$", out)
    stones = [len(re.findall("[XO]", board)) for board in boards]
    assert stones[:3] == [0, 2, 4]
    assert boards[-1].count("X") - boards[-1].count("O") in (0, 1)
    assert re.search(r"four in a row\nYou win [+-]1|full board\nYou win \+0", out)


@pytest.mark.parametrize("text", ["q\n", ""])
def test_person_leaves(folder, monkeypatch, capsys, text):
    typed(monkeypatch, text)
    run("kuhn_poker --agent DIR --seat 0", folder)
    assert "0 games played to the end, you won +0" in capsys.readouterr().out


def test_ctrl_c_leaves(folder, monkeypatch, capsys):
    def interrupted(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    run("kuhn_poker --agent DIR --seat 0", folder)
    assert "0 games played" in capsys.readouterr().out


def match(folder, opponent, capsys):
    command = f"kuhn_poker --agent DIR --opponent {opponent} --games 400 --simulations 8"
    run(command, folder)
    out = capsys.readouterr().out
    assert f"{folder} against {opponent}, 400 games of kuhn_poker(players=2)" in out
    row = re.search(r"both\W+?([+-]?[\d.,]+)\D+± ([\d.,]+)", out)
    return (float(number.replace(",", "")) for number in row.groups())


@pytest.mark.slow
def test_agent_wins_against_uniform_play(folder, capsys):
    mean, half = match(folder, "uniform", capsys)
    assert mean > half > 0


@pytest.mark.slow
def test_agent_breaks_even_with_itself(folder, capsys):
    mean, half = match(folder, folder, capsys)
    assert abs(mean) < 2 * half


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("leduc_poker --agent DIR", r"holds an agent of kuhn_poker, not of leduc_poker\("),
        ("kuhn_poker --agent DIR/none", "none holds no trained agent: there is no result.json"),
        ("kuhn_poker --agent DIR --opponent nobody", "nobody holds no trained agent"),
        ("kuhn_poker --agent DIR --opponent uniform --games 3", "games=3 must be even"),
        ("kuhn_poker --agent DIR --opponent uniform --seat 1", "--seat is for people"),
        ("kuhn_poker --agent DIR --games 0", "games=0 must be at least 1"),
        ("kuhn_poker --agent DIR --simulations 0", "simulations=0 must be at least 1"),
        ("no_such_game --agent DIR", "unknown game 'no_such_game'"),
    ],
)
def test_bad_input_is_refused(folder, command, message):
    with pytest.raises(ValueError, match=message) as error:
        run(command.replace("DIR", str(folder)))
    assert "\n" not in str(error.value)


def test_agents_search_as_they_were_measured_by_default(folder):
    settings = load_agent(folder).settings
    assert (settings.simulations, settings.max_path) == (4, 2)
    assert load_agent(folder, simulations=33).settings.simulations == 33


def test_what_an_agent_was_loaded_with_is_saved(folder, tmp_path):
    load_agent(folder, simulations=33, trained=False).save(tmp_path / "agent")
    again = load_agent(tmp_path / "agent")
    assert again.settings.simulations == 33
    assert "trained for 0 steps" in str(again)


@pytest.mark.slow
def test_a_person_plays_where_chance_begins_in_public(monkeypatch):
    agent = zero_agent("goofspiel(cards=3)")
    agent = dataclasses.replace(agent, settings=dataclasses.replace(agent.settings, max_path=2))
    first_legal = lambda game, state: int(np.flatnonzero(state.legal)[0])  # noqa: E731
    monkeypatch.setattr(play_agent, "ask", first_legal)
    assert play_agent._play_game(play_agent._View(agent), jax.random.key(0), 0) in (-1, 0, 1)


@pytest.mark.slow
def test_agents_have_searched_before_chance_begins_in_public(monkeypatch):
    """In Goofspiel a card is turned first. Their policies are policies wherever they act."""
    agent = zero_agent("goofspiel(cards=3)")
    agent = dataclasses.replace(agent, settings=dataclasses.replace(agent.settings, max_path=2))
    policy, sums = agent_matches.SeatedAgents.policy, []

    def noted(self, step, history, actor):
        found = policy(self, step, history, actor)
        if step:  # chance has the first one, and the searches there have no policy
            sums.extend(found[actor >= 0].sum(axis=1))
        return found

    monkeypatch.setattr(agent_matches.SeatedAgents, "policy", noted)
    agent.play(deals=4)
    np.testing.assert_allclose(sums, 1, rtol=1e-5)
    assert len(sums) >= 2 * 4 * 4


def test_folders_that_do_not_fit_are_refused(tmp_path):
    wide = write_agent(tmp_path / "wide", width=32)
    message = (
        r"network.npz does not fit: parameter .* must have shape .*,"
        r" by game=kuhn_poker, width=32, depth=\d of result.json$"
    )
    with pytest.raises(ValueError, match=message):
        load_agent(wide)
    (wide / "network.npz").write_bytes(b"no network")
    with pytest.raises(ValueError, match=r"network.npz does not fit"):
        load_agent(wide)
    other = write_agent(tmp_path / "other")
    path = other / "result.json"
    path.write_text(path.read_text().replace('"width"', '"length"'))
    with pytest.raises(ValueError, match="config of its sog_leduc lacks width"):
        load_agent(other)
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a result:"):
        load_agent(other)


def test_the_committed_agent_can_be_loaded():
    agent = load_agent(COMMITTED, game="leduc_poker(players=2)")
    assert agent.settings.simulations == 100
    fresh = load_agent(COMMITTED, trained=False)
    same = jax.tree.map(lambda x, y: bool(jnp.all(x == y)), agent.params, fresh.params)
    assert not all(jax.tree.leaves(same))


@functools.cache
def places(name):
    tree, table = enumerate_game(make(name)), game_table(name)
    return tree, table_places(tree, table)


def uniform_games(name, cards, seed):
    tree, where = places(name)
    action_draws = np.random.default_rng(seed).random((cards, int(tree.depth.max())))
    chance_draws = np.random.default_rng(0).random(action_draws.shape)
    ends = agent_matches.play_side_by_side(
        tree, where, (None, None), chance_draws=chance_draws, action_draws=action_draws
    )
    return tree, where, ends


def test_games_are_played_by_the_rules():
    """Uniform players of Kuhn poker: OpenSpiel's expected_game_score is 1/8."""
    tree, _, ends = uniform_games("kuhn_poker", 5000, 1)
    assert (tree.actor[ends] == TERMINAL).all()
    low, high = results.interval(tree.returns[ends, 0].tolist())
    assert (low + high) / 2 == pytest.approx(0.125, abs=high - low)
    _, counts = np.unique(tree.information_state[ends, 0], return_counts=True)
    assert len(counts) == 3 * 5  # cards, courses of the betting; the rarest is 1 in 24
    assert counts.min() > 0.7 * 5000 / 24


def test_both_games_of_a_deal_have_the_same_cards():
    name = "leduc_poker"
    tree, _, first = uniform_games(name, 300, 1)
    _, _, second = uniform_games(name, 300, 2)

    def cards(history):
        outcomes = []
        while history:
            parent = tree.parent[history]
            if tree.actor[parent] == CHANCE:
                outcomes.insert(0, int(tree.parent_action[history]))
            history = parent
        return outcomes

    both = [(cards(x), cards(y)) for x, y in zip(first, second, strict=True)]
    assert all(x[: len(y)] == y[: len(x)] for x, y in both)
    assert sum(len(x) == len(y) == 3 for x, y in both) > 20
    assert len({tuple(x[:2]) for x, _ in both}) == 30
    assert (first != second).mean() > 0.5


def zero_agent(name):
    table = game_table(name)
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=4)
    return TrainedAgent(game=make(name), table=table, params=None, settings=settings)


def test_agents_with_merged_rows_cannot_be_followed():
    agent = dataclasses.replace(zero_agent("kuhn_poker"), game=make("scotland_yard(map=glasses)"))
    with pytest.raises(ValueError, match="its table merges information states"):
        play_agent._View(agent)


def test_players_see_only_what_they_know():
    """The same in all histories of an information state, and never the opponent's card."""
    view = play_agent._View(zero_agent("leduc_poker"))
    decisions = np.flatnonzero(view.tree.actor == 1)
    for history in map(int, decisions[:: len(decisions) // 12]):
        states = view.tree.information_state[:, 1]
        texts = {
            view.seen(1, int(h), view.picture)
            for h in np.flatnonzero(states == states[history])[:3]
        }
        (text,) = texts
        open_cards = view.picture(history)
        hidden, own = re.match(r"cards: (\S+) (\S+)", open_cards).groups()
        assert text == open_cards.replace(f"cards: {hidden} {own}", f"cards: ? {own}")


def test_hidden_moves_stay_hidden():
    view = play_agent._View(zero_agent("matrix_rps"))
    decision = int(np.flatnonzero(view.tree.actor == 1)[2])
    assert view.last_move(decision) == view.seen(0, decision, view.last_move) == "scissors"
    assert view.seen(1, decision, view.last_move) == "?"
    assert view.seen(1, decision, view.picture) == "player 0: ?  player 1: -"


def test_texts_of_different_shape_have_nothing_in_common():
    assert play_agent.common(["a b", "a  c"]) == "a ?"
    assert play_agent.common(["a b", "a"]) == "?"
    assert play_agent.common(["a b"]) == "a b"
