"""Folders of policies by bucket as clients of the ACPC protocol, for two and three players."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blueprint_cases import game_of
from test_acpc_match import Table, agent_client

from experiments import cli
from experiments.acpc import agents
from experiments.blueprints import smooth_uct_limit, smooth_uct_three_players
from jaxgames.holdem import acpc_protocol
from jaxgames.holdem.betting_graph import END, graph_of_rules, graph_of_tree
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables, buckets_of_deal
from jaxgames.holdem.ranges import hand_number
from jaxgames.registry import make
from solvers.blueprint import betting_walk, bucket_uct
from solvers.blueprint.blueprint import read_blueprint, write_blueprint
from solvers.blueprint.state_policy import read_state_policy, write_state_policy

GAMES = {2: smooth_uct_limit.TWO_ROUNDS, 3: smooth_uct_three_players.TWO_ROUNDS}
ABSTRACTION = CardAbstraction.parse("169/percentile:8")
ACTIONS = ("fold", "call", "raise")
buckets_on = jax.jit(buckets_of_deal)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@functools.cache
def learner_of(players):
    """The betting, and a learner who has taken one action in each state, drawn at random."""
    game = make(GAMES[players])
    tree = game_of(game, ABSTRACTION.num_buckets).rounds.tree if players == 2 else None
    graph = graph_of_tree(tree) if players == 2 else graph_of_rules(game)
    walk = betting_walk.walk_of_graph(graph, ABSTRACTION.num_buckets)
    legal = np.asarray(walk.uniform) > 0
    noise = np.random.default_rng(players).random(legal.shape)
    taken = np.arange(legal.shape[1]) == np.where(legal, noise, -1).argmax(axis=1)[:, None]
    learner = bucket_uct.init(walk)
    visits = jnp.asarray(taken & legal, jnp.int32)
    return graph, walk, learner.replace(table=learner.table.at[..., 0].set(visits))


def folder_of(players, folder):
    """The folder of the learner's average policy."""
    _, walk, learner = learner_of(players)
    kept = {"poker": make(GAMES[players]), "abstraction": ABSTRACTION}
    kept["buckets"] = bucket_tables(ABSTRACTION, board=kept["poker"].board)
    if players == 2:
        game = game_of(kept["poker"], ABSTRACTION.num_buckets)
        rows = bucket_uct.average_policy(walk, learner)
        tables = betting_walk.policy_tables(game, rows)
        write_blueprint(folder, tables, **kept)
    else:
        write_state_policy(folder, bucket_uct.average(learner), walk=walk, **kept)
    return folder


def decisions_of(name, line, players):
    """The streets of a client's decisions in a line of the log, each of which must be that of the
    bucket of its hand."""
    graph, _, learner = learner_of(players)
    taken, counts = np.asarray(learner.table[..., 0]), np.array(ABSTRACTION.num_buckets)
    states = np.where(graph.actor != END, graph.histories * counts[graph.street], 0)
    first = np.cumsum(states) - states
    _, hand, betting, cards, _, names = line.split(":")
    seat = names.split("|").index(name)
    game = make(GAMES[players])
    seen = acpc_protocol.parse_state(game, f"MATCHSTATE:{seat}:{hand}:{betting}:{cards}")
    board = jnp.array(seen.board, jnp.int32)
    tables = bucket_tables(ABSTRACTION, board=game.board)
    buckets = buckets_on(tables, board)[:, hand_number(*sorted(seen.hole[seat]))]
    node, number, streets = 0, 0, []
    for action in seen.actions:
        place, street = graph.actions[node].index(ACTIONS[action]), graph.street[node]
        if graph.actor[node] == seat:
            state = first[node] + number * counts[street] + int(buckets[street])
            assert taken[state, place] == 1
            streets.append(street)
        number += graph.offset[node, place]
        node = graph.child[node, place]
    return streets


@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_folders_play_matches(players, tmp_path, monkeypatch):
    """As commands, against uniform players: what each hand's bucket does after each betting."""
    folder, game = folder_of(players, tmp_path), make(GAMES[players])
    table = Table(tmp_path / "match", monkeypatch)
    words = ["acpc", "client", GAMES[players], "--agent", str(folder), "--port"]
    table.seat("client_0", lambda port: cli.main([*words, str(port)]))
    for number in range(1, players):
        build = functools.partial(agents.uniform, seed=number)
        table.seat(f"client_{number}", agent_client(game, build))
    code, result, states = table.deal(f"{GAMES[players]} --hands 40")
    assert (code, table.outcomes["client_0"]) == (0, 0)
    assert result.number("corrected:client_0").value == 0
    streets = [decisions_of("client_0", line, players) for line in states[:-1]]
    assert len(streets) == 40
    assert sum(max(own, default=0) == 1 for own in streets) > 5  # on the flop, too


@pytest.mark.slow
def test_policies_of_three_are_read_as_they_were_written(tmp_path):
    """With one hand as with all; a folder of another game or with other rows is refused."""
    folder, poker = folder_of(3, tmp_path), make(GAMES[3])
    policy = read_state_policy(folder, poker)
    _, walk, learner = learner_of(3)
    np.testing.assert_array_equal(policy.rows, bucket_uct.average_policy(walk, learner))
    state = poker.init()
    while int(state.actor) < 0:
        state = poker.step(state, jnp.argmax(state.chance_probs).astype(jnp.int32))
    rows = policy(state)
    np.testing.assert_array_equal(rows.sum(axis=1), 1)
    for hand in ((3, 17), (51, 50)):
        number = hand_number(*sorted(hand))
        np.testing.assert_array_equal(policy.of_hand(state, jnp.array(hand)), rows[number])
    with pytest.raises(ValueError, match=r"the policy in .* plays poker.*, not poker"):
        read_state_policy(folder, make(GAMES[2]))
    with pytest.raises(ValueError, match="betting trees are for two"):
        read_blueprint(folder)
    text = (folder / "blueprint.json").read_text()
    for new, message in (
        (text.replace('"version": 2', '"version": 7'), "of version 7; this is version 2"),
        (text.replace('"buckets": "', '"buckets": "0'), "was trained with other buckets"),
        ("[1]", "must hold an object"),
        (text.replace("percentile:8", "percentile:9"), "array of shape .* needs"),
        (text[:20], "blueprint.json is damaged"),
    ):
        (folder / "blueprint.json").write_text(new)
        with pytest.raises(ValueError, match=message):
            read_state_policy(folder, poker)
    (folder / "blueprint.json").write_text(text)
    (folder / "blueprint.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"blueprint\.npz holds no policy"):
        read_state_policy(folder, poker)
    with pytest.raises(ValueError, match=r"it has no blueprint\.json"):
        read_state_policy(tmp_path / "missing", poker)
