"""The battery of belief-level games: all kinds pass it, and games that break a law do not."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table, check_belief_game
from jaxgames.beliefs.table import AlignedTable, BeliefTable
from jaxgames.core import record
from jaxgames.registry import make
from jaxgames.scotland_yard import scotland_yard_beliefs


@functools.cache
def kuhn():
    return belief_table(make("kuhn_poker"))


BLACK_CARDS = "scotland_yard(map=glasses,rounds=1,black=1)"  # they give Mr X further actions
GAMES = {
    "an aligned table": kuhn,
    "a table": lambda: belief_table(make("goofspiel(cards=3)")),
    "a steady table": lambda: belief_table(make("scotland_yard(map=glasses,rounds=1)")),
    "unequal rows and actions": lambda: scotland_yard_beliefs(make(BLACK_CARDS)),
    "perfect information": lambda: pgx_beliefs("tic_tac_toe"),
}


# the aligned table is a table, too
LONG = {"a table", "a steady table", "unequal rows and actions"}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in LONG)) for k in GAMES]
)
def test_all_kinds_of_games_pass(kind):
    check_belief_game(GAMES[kind](), num_playouts=8)


@pytest.mark.slow
@pytest.mark.parametrize("map_and_rules", ["glasses,rounds=3,reveals=2", "london"])
def test_scotland_yard_passes(map_and_rules):
    game = make(f"scotland_yard(map={map_and_rules})")
    starts = game.detective_starts[: game.detectives]
    check_belief_game(scotland_yard_beliefs(game, detective_starts=starts), num_playouts=4)


@pytest.mark.slow
def test_late_starts_in_scotland_yard_pass():
    game = make("scotland_yard(map=glasses,rounds=3,reveals=2)")
    game = scotland_yard_beliefs(game, late_starts=1.0)
    check_belief_game(game.replace(start=game.random_root(jax.random.key(0))), num_playouts=4)


@record
class Wrong(AlignedTable):
    """Breaks no law as long as `kept` is 1, `added` is 0 and `lost` is False."""

    kept: Array  # [] share of the reach that comes down
    added: Array  # [] to what `up` gives a player who does not act
    lost: Array  # [] bool: pairs of rows become impossible

    def down(self, state, child, reach, policy):
        below = AlignedTable.down(self, state, child, reach, policy)
        return jax.tree.map(lambda x: self.kept * x, below)

    def up(self, state, values):
        actions, seen = AlignedTable.up(self, state, values)
        return actions, jax.tree.map(lambda x: x + self.added, seen)

    def follow(self, state, pair, action):
        return jnp.where(self.lost, -1, BeliefTable.follow(self, state, pair, action))


@record
class Stacked(AlignedTable):
    """Its legal actions are one array."""

    def legal(self, state):
        return jnp.stack(AlignedTable.legal(self, state))


def legal(change):
    return tuple(map(change, kuhn().legal_actions))


def broken(cls=None, **changes):
    fields = {name: getattr(kuhn(), name) for name in kuhn().__dataclass_fields__}
    return (cls or AlignedTable)(**fields | changes)


def wrong(**changes):
    """Programs are compiled once for all of these."""
    right = dict(kept=jnp.float32(1), added=jnp.float32(0), lost=jnp.bool_(False))
    return broken(Wrong, **right | changes)


def test_games_that_are_wrong_in_nothing_pass():
    check_belief_game(wrong(), num_playouts=8)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (
            lambda: wrong(kept=jnp.float32(0.9)),
            "probability is lost or made on the way to the children",
        ),
        (lambda: wrong(added=jnp.float32(1)), "up is not the transpose of down"),
        (lambda: wrong(lost=jnp.bool_(True)), "follow and weight differ"),
        (lambda: broken(max_depth=1), "not over after 1 public states"),
        (lambda: broken(legal_actions=legal(jnp.invert)), "legal actions are not those of"),
        (lambda: broken(payoffs=kuhn().payoffs * jnp.nan), "payoffs are not zero-sum"),
        (lambda: broken(features=kuhn().features * jnp.inf), "features are not finite"),
        (
            lambda: broken(legal_actions=legal(lambda own: own[:, :, :2])),
            r"legal gives \(bool\(2, 2\), bool\(2, 2\)\), not \(bool\(2, 3\), bool\(2, 3\)\)",
        ),
        (lambda: broken(Stacked), r"legal gives bool\(2, 2, 3\), not \(bool\(2, 3\), "),
        (lambda: broken(num_rows=3), "num_rows=3 is not a number >= 1 for each of two players"),
        (lambda: broken(num_rows=(3, 0)), r"num_rows=\(3, 0\) is not a number >= 1 for each"),
    ],
)
def test_broken_laws_are_named(game, message):
    with pytest.raises(AssertionError, match=rf"kuhn_poker.*: .*{message}"):
        check_belief_game(game(), num_playouts=8)
