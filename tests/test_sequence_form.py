"""The sequence form: counts, policies packed and unpacked, public states, subgames, payoffs."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import solver_reference as reference
from solver_cases import (
    UNTIMED,
    assert_policies_close,
    form_of,
    gains,
    game_tree,
    swapped,
    with_other_returns,
)
from solver_reference import random_policies, uniform_policies

from jaxgames import TERMINAL, TreeTooLargeError
from jaxgames.adapters.gambit import parse_efg
from jaxgames.game_tree import levels, make_game_tree
from solvers import evaluation, linear_program
from solvers.sequence_form import (
    build_sequence_form,
    pack,
    sweeps,
    treeplex,
    uniform,
    unpack,
    with_returns,
)
from solvers.subgames.safe_resolving import gifts, root_weights, with_gadget

PUBLIC = [  # games that tell their public states
    "kuhn_poker(players=3)",
    "leduc_poker",
    "goofspiel(cards=4,points=descending)",
    "random(seed=6,players=3)",
]
counterfactual_values = evaluation.counterfactual_values


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@jax.jit
def own_reach(form, policies):
    """[Q] own reach of every player's sequences."""
    roots = [jnp.ones(player.num_roots) for player in form.treeplexes]
    return tuple(map(sweeps.reach, form.treeplexes, pack(form, policies), roots))


@jax.jit
def packed_and_unpacked(form, policies):
    return unpack(form, pack(form, policies)), unpack(form, uniform(form))


# by hand, and from a linear program made of OpenSpiel's game
@pytest.mark.parametrize(
    ("name", "decisions", "sequences"),
    [
        ("kuhn_poker", 6, 13),
        ("leduc_poker", 468, 1093),
    ],
)
def test_counts_of_sequences(name, decisions, sequences):
    for player in form_of(name).treeplexes:
        groups = player.groups
        assert player.num_decisions == decisions
        assert sum(group.num_decisions for group in groups) == decisions
        legal = sum(int((np.asarray(group.uniform) > 0).sum()) for group in groups)
        assert player.num_roots + legal == sequences


@pytest.mark.parametrize("name", ["leduc_poker", "random(seed=6,players=3)"])
def test_values_of_decisions_are_added_up_by_the_sequences_before_them(name):
    """Each sequence of the depth above has a sum, and all decisions are in one of them."""
    for player in form_of(name).treeplexes:
        above = player.num_roots
        for level in player.levels:
            decisions = sum(group.num_decisions for group in level.groups)
            sums = level.children(jnp.ones(decisions))
            assert sums.shape == (above,)
            assert float(sums.sum()) == decisions
            above = level.end - level.begin


@pytest.mark.parametrize("name", ["leduc_poker", "random(seed=6,players=3)", "untimed"])
def test_packing_is_undone_by_unpacking(name):
    explicit, form = game_tree(name), form_of(name)
    policies = random_policies(explicit, 0)
    again, even = packed_and_unpacked(form, policies)
    assert_policies_close(again, policies, atol=0)
    assert_policies_close(even, uniform_policies(explicit), atol=1e-15)
    # what is written at illegal actions does not matter
    legal = map(explicit.legal_actions, range(explicit.num_players))
    dirty = (np.where(ok, policy, 7.0) for ok, policy in zip(legal, policies, strict=True))
    again, _ = packed_and_unpacked(form, tuple(dirty))
    assert_policies_close(again, policies, atol=0)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_states_list_their_information_states(name):
    explicit, states = game_tree(name), form_of(name).histories.public_states
    _, first = np.unique(explicit.public_state, return_index=True)
    np.testing.assert_array_equal(states.depth, explicit.depth[first])
    np.testing.assert_array_equal(states.actor, explicit.actor[first])
    parent = explicit.public_state[explicit.parent]
    np.testing.assert_array_equal(np.asarray(states.parent)[explicit.public_state[1:]], parent[1:])
    assert states.parent[0] == -1
    reaches = own_reach(form_of(name), random_policies(explicit, 0))
    expected = reference.reach(explicit, random_policies(explicit, 0))
    for player in range(explicit.num_players):
        members = np.asarray(states.information_states[player])
        pairs = {(s, i) for s, row in enumerate(members.tolist()) for i in row if i >= 0}
        here = explicit.information_state[:, player]
        assert pairs == set(zip(explicit.public_state.tolist(), here.tolist(), strict=True))
        assert (members >= 0).sum() == explicit.num_information_states[player]  # each once
        # the sequence that leads to an information state is what its histories' own reach is
        place = np.argmax(members[explicit.public_state] == here[:, None], axis=1)
        sequence = np.asarray(states.sequences[player])[explicit.public_state, place]
        np.testing.assert_allclose(
            np.asarray(reaches[player])[sequence], expected[player], atol=1e-12
        )


def test_the_layout_of_groups_changes_nothing(monkeypatch):
    """Decisions with different numbers of actions in separate tables, or in one with padding."""
    explicit, padded = game_tree("random(seed=35)"), form_of("random(seed=35)")
    monkeypatch.setattr(treeplex, "_GROUP_COST", 0)
    form = build_sequence_form(explicit, dtype="float64")
    for each, expected in ((form, 3), (padded, 1)):
        levels = [level for player in each.treeplexes for level in player.levels]
        assert max(len(level.groups) for level in levels) == expected
    policies = random_policies(explicit, 0)
    for actual, expected in zip(gains(form, policies), gains(padded, policies), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_players_may_be_swapped():
    name = "random(seed=35)"
    policies = random_policies(game_tree(name), 0)
    form = build_sequence_form(swapped(game_tree(name)), dtype="float64")
    value, best, nash_conv = gains(form, policies[::-1])
    expected = gains(form_of(name), policies)
    np.testing.assert_allclose(value, expected[0][::-1], atol=1e-12)
    np.testing.assert_allclose(best, expected[1][::-1], atol=1e-12)
    np.testing.assert_allclose(nash_conv, expected[2], atol=1e-12)


# Subgames


def ranges(name, policies, root):
    """Every player's own reach of its information states at a public state."""
    states = form_of(name).histories.public_states
    reaches = []
    for player, reach in enumerate(map(np.asarray, own_reach(form_of(name), policies))):
        here = np.asarray(states.information_states[player][root]) >= 0
        reaches.append(reach[np.asarray(states.sequences[player][root])[here]])
    return tuple(reaches)


def subgames(name, depth):
    """Public states of one depth in which the game goes on."""
    states = form_of(name).histories.public_states
    here = (np.asarray(states.depth) == depth) & (np.asarray(states.actor) != TERMINAL)
    return np.flatnonzero(here).tolist()


@pytest.mark.parametrize(
    ("name", "depth"), [("kuhn_poker", 2), ("leduc_poker", 5), ("random(seed=6,players=3)", 1)]
)
def test_values_of_a_subgame_are_those_of_the_whole_game(name, depth):
    explicit = game_tree(name)
    policies = random_policies(explicit, 0)
    root = subgames(name, depth)[-1]
    form = build_sequence_form(explicit, root=root, dtype="float64")
    values = counterfactual_values(form, policies, ranges(name, policies, root))
    inside = explicit.public_state == root
    for rows in levels(explicit.parent):
        inside[rows] |= inside[explicit.parent[rows]]
    for player in range(explicit.num_players):
        expected = reference.counterfactual_values(explicit, policies, player)
        decides = inside & (explicit.actor == player)
        states = np.unique(explicit.information_state[decides, player])
        for actual, wanted in zip(values, expected, strict=True):
            rest = np.delete(np.asarray(actual[player]), states, axis=0)
            np.testing.assert_array_equal(rest, 0)
            np.testing.assert_allclose(actual[player][states], wanted[states], atol=1e-12)


@pytest.mark.parametrize(("name", "depth"), [("leduc_poker", 3), ("random(seed=6,players=3)", 2)])
def test_subgames_add_up_to_the_game(name, depth):
    """The values of all subgames that begin at one depth sum to the value of the game."""
    explicit = game_tree(name)
    policies = random_policies(explicit, 0)
    values = []
    for root in subgames(name, depth):
        form = build_sequence_form(explicit, root=root, dtype="float64")
        reach = ranges(name, policies, root)
        values.append(evaluation.expected_value(form, policies, reach))
    assert len(values) > 1
    expected = reference.history_values(explicit, policies)[0]
    np.testing.assert_allclose(sum(values), expected, atol=1e-12)


def test_the_whole_game_is_the_subgame_at_its_root():
    form = build_sequence_form(game_tree("kuhn_poker"), root=0, dtype="float64")
    chex.assert_trees_all_equal(form, form_of("kuhn_poker"))


def test_a_subgame_may_be_over():
    explicit = game_tree("kuhn_poker")
    row = int(np.flatnonzero(explicit.actor == TERMINAL)[0])
    root = int(explicit.public_state[row])
    form = build_sequence_form(explicit, root=root, dtype="float64")
    policies = uniform_policies(explicit)
    here = explicit.public_state == root
    expected = reference.reach(explicit, policies)[-1, here] @ explicit.returns[here]
    np.testing.assert_allclose(evaluation.expected_value(form, policies), expected, atol=1e-12)
    np.testing.assert_allclose(evaluation.nash_conv(form, policies), 0, atol=1e-12)


def test_subgames_of_one_shape_batch():
    """The second rounds of Leduc after check, check, one for each public card, stacked."""
    explicit, roots = game_tree("leduc_poker"), subgames("leduc_poker", 5)
    above = np.asarray(form_of("leduc_poker").histories.public_states.parent)
    roots = [root for root in roots if above[root] == above[roots[0]]]
    assert len(roots) == 6
    policies = random_policies(explicit, 0)
    trees = [build_sequence_form(explicit, root=root, dtype="float64") for root in roots]
    reaches = [ranges("leduc_poker", policies, root) for root in roots]
    stack = lambda *leaves: np.stack(leaves)  # noqa: E731
    batched = jax.vmap(evaluation.expected_value, in_axes=(0, None, 0))(
        jax.tree.map(stack, *trees), policies, jax.tree.map(stack, *reaches)
    )
    single = [
        evaluation.expected_value(form, policies, reach)
        for form, reach in zip(trees, reaches, strict=True)
    ]
    np.testing.assert_allclose(batched, np.stack(single), atol=1e-12)
    assert np.ptp(np.asarray(batched)[:, 0]) > 1e-3  # they do differ


# Payoffs


def test_other_payoffs_are_another_game():
    name = "random(seed=35)"
    explicit, policies = game_tree(name), random_policies(game_tree(name), 0)
    others = [with_other_returns(explicit, seed) for seed in range(3)]
    returns = jnp.stack([other.returns[other.actor == TERMINAL] for other in others])
    change = jax.jit(jax.vmap(lambda r: gains(with_returns(form_of(name), r), policies)))
    single = [gains(build_sequence_form(other, dtype="float64"), policies) for other in others]
    for actual, expected in zip(change(returns), zip(*single, strict=True), strict=True):
        np.testing.assert_allclose(actual, np.stack(expected), atol=1e-12)


def test_a_payoff_counts_as_often_as_it_is_reached():
    """The derivative of the value in a terminal's payoff is the terminal's probability."""
    name = "random(seed=35)"
    explicit, policies = game_tree(name), random_policies(game_tree(name), 0)
    over = explicit.actor == TERMINAL

    def value(returns):
        return evaluation.expected_value(with_returns(form_of(name), returns), policies)[0]

    gradient = jax.jit(jax.grad(value))(jnp.asarray(explicit.returns[over]))
    expected = reference.reach(explicit, policies).prod(axis=0)[over]
    np.testing.assert_allclose(gradient[:, 0], expected, atol=1e-15)
    np.testing.assert_array_equal(gradient[:, 1], 0)


# Bad input


def test_forms_without_histories_are_refused_where_those_are_needed():
    form = form_of("kuhn_poker")
    gadget = with_gadget(form, jnp.zeros(1), resolver=0)
    policy, ones = unpack(form, uniform(form)), jnp.ones((30, 2))
    for purpose, call in {
        "with_returns": lambda: with_returns(gadget, ones),
        "linear_program.solve": lambda: linear_program.solve(gadget),
        "root_weights": lambda: root_weights(gadget, player=0),
        "gifts": lambda: gifts(gadget, policy, player=0),
    }.items():
        message = rf"kuhn.* with a gadget has no histories; {purpose} needs .* build_sequence_form"
        with pytest.raises(ValueError, match=message):
            call()
    assert gadget.dtype == form.dtype == np.float64


@pytest.mark.parametrize("root", [-1, 10**6])
def test_an_unknown_root_is_refused(root):
    with pytest.raises(ValueError, match=rf"root={root} must be a public state, 0 to \d+"):
        build_sequence_form(game_tree("kuhn_poker"), root=root)


def test_precision_must_be_known():
    with pytest.raises(ValueError, match="dtype='float16' must be 'float32' or 'float64'"):
        build_sequence_form(game_tree("kuhn_poker"), dtype="float16")
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"needs .*'jax_enable_x64', True"):
        build_sequence_form(game_tree("kuhn_poker"), dtype="float64")


def test_large_trees_are_refused_with_their_size():
    game = parse_efg(UNTIMED, name="untimed")
    with pytest.raises(
        TreeTooLargeError, match=r"has about 15 histories, more than the limit of 9 "
    ):
        build_sequence_form(game, max_histories=9)


@pytest.mark.parametrize("payoff", [np.nan, np.inf])
def test_payoffs_must_be_finite(payoff):
    explicit = game_tree("matrix_mp")
    columns = ("parent", "parent_action", "actor", "legal", "chance_prob", "information_state")
    returns = explicit.returns.copy()
    returns[-1] = payoff
    with pytest.raises(ValueError, match="returns of history 6 are"):
        make_game_tree(
            **{name: getattr(explicit, name) for name in columns},
            returns=returns,
            public_state=explicit.public_state,
            game="broken",
        )


def test_shapes_of_payoffs_policies_and_ranges_are_checked():
    explicit, form = game_tree("kuhn_poker"), form_of("kuhn_poker")
    policies = uniform_policies(explicit)
    with pytest.raises(ValueError, match=r"returns of kuhn.* \(1, 2\), must be \(30, 2\)"):
        with_returns(form, jnp.ones((1, 2)))
    with pytest.raises(ValueError, match=r"policy of kuhn.* \[\(6, 2\)\], must be \[\(6, 2\), \(6"):
        pack(form, policies[:1])
    subgame = build_sequence_form(explicit, root=2, dtype="float64")
    short = (jnp.ones(3), jnp.ones(2))
    with pytest.raises(ValueError, match=r"root_reach of kuhn.* \[\(3,\), \(2,\)\], must be"):
        evaluation.expected_value(subgame, policies, short)
    with pytest.raises(ValueError, match=r"root_reach of kuhn"):
        evaluation.nash_conv(form, policies, short)
