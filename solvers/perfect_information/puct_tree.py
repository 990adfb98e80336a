"""A tree of positions that grows by one position in each simulation, down which PUCT walks.

What is known of a position is kept at its place in the tree; visits and values of the actions of a
position are gathered from the places of its children. So a simulation writes little into the large
tables of all actions: the prior of the new position, and its number at its parent. The places that
a simulation has passed are a mask, by which all sums are updated at once. The walk down carries no
table: it ends at another depth in each tree of a batch, and under `vmap` such a loop would copy
what it carries in every step.

A position has a *column* for each action that may be legal there, and not for all actions of the
game: in chess 218 of 4,672.
"""

from __future__ import annotations

from collections.abc import Callable

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import at
from jaxgames.beliefs.contract import PublicState
from jaxgames.core import TERMINAL, record

NOTHING = -1  # no child yet, or no action
ILLEGAL = -1  # in place of the prior of an illegal action
MOST_PLACES = 2**15  # for whose numbers the table of children has room

# choose(tree, place, depth) -> column
Choose = Callable[["PuctTree", Int[Array, ""], Int[Array, ""]], Int[Array, ""]]


@record
class Position:
    """A position and what an evaluator says of it."""

    state: PublicState
    actor: Array  # [] int32 who acts, or TERMINAL
    value: Array  # [] to player 0; the payoff where the game is over
    prior: Array  # [A] of the actor, ILLEGAL at illegal actions


@record
class PuctTree:
    """A tree with room for N positions, of which the first `count` are in use; 0 is the root. Each
    has L columns for its legal actions."""

    num_actions: int = flax.struct.field(pytree_node=False)  # A
    count: Array  # [] int32
    simulations: Array  # [] int32 that were made
    state: PublicState  # [N, ...]
    actor: Array  # [N] int32
    visits: Array  # [N] float32 simulations that came there, and one more at the root
    value: Array  # [N] float32 to player 0: the mean of these simulations
    action: Array | None  # [N, L] int16 whose column it is; None: there is a column for each
    prior: Array  # [N, L] float32, ILLEGAL where there is no legal action
    child: Array  # [N, L] int16 the places that actions lead to, or NOTHING


def plant(root: Position, *, room: int, most_legal: int) -> PuctTree:
    """A tree of one position.

    Args:
      root: the position.
      room: N, positions that it has room for, at most MOST_PLACES.
      most_legal: L, actions that a position has room for. If it has more, the tree has those with
        the highest priors.
    """
    columns = min(most_legal, len(root.prior))
    reals = jnp.zeros(room, jnp.float32)
    empty = PuctTree(
        num_actions=len(root.prior),
        count=jnp.int32(0),
        simulations=jnp.int32(0),
        state=jax.tree.map(lambda x: jnp.zeros((room, *jnp.shape(x)), x.dtype), root.state),
        actor=jnp.full(room, TERMINAL, jnp.int32),
        visits=reals,
        value=reals,
        action=jnp.full((room, columns), NOTHING, jnp.int16) if columns < len(root.prior) else None,
        prior=jnp.full((room, columns), ILLEGAL, jnp.float32),
        child=jnp.full((room, columns), NOTHING, jnp.int16),
    )
    tree = _added(empty, root, jnp.bool_(True))
    return _visited(tree, _places(tree) == 0, root.value)


def simulate(
    tree: PuctTree, *, choose: Choose, look: Callable[[PublicState, Int[Array, ""]], Position]
) -> PuctTree:
    """The tree after one more simulation.

    It walks down to a position that is not in the tree yet, or to the end of the game, and counts
    the value of that for all positions on its way.

    Args:
      tree: with room for one more position.
      choose: the column of the action that is taken at a place.
      look: the position that an action leads to.
    """
    place, column, passed = _walk(tree, choose)
    before = at(tree.state, place)
    is_over = tree.actor[place] == TERMINAL
    new = look(before, _action(tree, place, column))
    passed |= (_places(tree) == tree.count) & ~is_over
    value = jnp.where(is_over, tree.value[place], new.value)
    parent = jnp.where(is_over, len(tree.actor), place)
    child = tree.child.at[parent, column].set(tree.count.astype(jnp.int16), mode="drop")
    tree = _added(tree.replace(child=child), new, ~is_over)
    return _visited(tree, passed, value).replace(simulations=tree.simulations + 1)


def child_statistics(
    tree: PuctTree, place: Int[Array, ""]
) -> tuple[Float[Array, " L"], Float[Array, " L"]]:
    """How often the action of each column of a place was taken, and its mean value to player 0, 0
    where it was not."""
    child = tree.child[place].astype(jnp.int32)
    known = child >= 0
    visits, value = (jnp.where(known, table[child], 0) for table in (tree.visits, tree.value))
    return visits, value


def root_visits(tree: PuctTree) -> Float[Array, " A"]:
    """How often each action of the root was taken."""
    visits, _ = child_statistics(tree, jnp.int32(0))
    if tree.action is None:
        return visits
    action = jnp.where(visits > 0, tree.action[0].astype(jnp.int32), tree.num_actions)
    return jnp.zeros(tree.num_actions, jnp.float32).at[action].set(visits, mode="drop")


def puct(
    tree: PuctTree, place: Int[Array, ""], *, exploration: float, exploration_base: float
) -> Int[Array, ""]:
    """The column of the action with the highest sum of mean value and bonus.

    PUCT, Silver et al. 2018.

    An action that was not taken yet is given the value of its position.

    Args:
      tree: the tree.
      place: of a position that is not terminal.
      exploration: c_init.
      exploration_base: c_base.
    """
    visits, value = child_statistics(tree, place)
    total = tree.visits[place] - 1
    rate = exploration + jnp.log((total + exploration_base + 1) / exploration_base)
    prior = tree.prior[place]
    bonus = rate * prior * jnp.sqrt(jnp.maximum(total, 1)) / (1 + visits)
    sign = jnp.where(tree.actor[place] == 0, 1.0, -1.0)
    worth = sign * jnp.where(visits > 0, value, tree.value[place])
    return jnp.argmax(jnp.where(prior >= 0, worth + bonus, -jnp.inf)).astype(jnp.int32)


def most_visited_line(tree: PuctTree, length: int) -> Int[Array, " L"]:
    """The most visited actions from the root on.

    Args:
      tree: of the search.
      length: L, of the line at most. Static under `jit`.

    Returns:
      The actions, and NOTHING where the tree ends.
    """

    def step(place, _):
        visits, _ = child_statistics(tree, place)
        column = jnp.argmax(visits)
        known = (place >= 0) & (visits[column] > 0)
        below = jnp.where(known, tree.child[place, column].astype(jnp.int32), NOTHING)
        return below, jnp.where(known, _action(tree, place, column), NOTHING)

    return jax.lax.scan(step, jnp.int32(0), length=length)[1]


def _walk(
    tree: PuctTree, choose: Choose
) -> tuple[Int[Array, ""], Int[Array, ""], Bool[Array, " N"]]:
    """The place where a walk from the root ends, the column there whose child is not in the tree,
    and the places on the way; at the end of a game the column is unspecified."""
    places = _places(tree)

    def here(place, depth):
        """A place on the way, and where it goes on: NOTHING if it does not."""
        column = choose(tree, place, depth)
        child = tree.child[place, column].astype(jnp.int32)
        return column, jnp.where(tree.actor[place] == TERMINAL, NOTHING, child)

    def step(carry):
        _, _, below, depth, passed = carry
        column, child = here(below, depth)
        return below, column, child, depth + 1, passed | (places == below)

    root = jnp.int32(0)
    begin = (root, root, root, jnp.int32(0), places < 0)
    place, column, _, _, passed = jax.lax.while_loop(lambda carry: carry[2] >= 0, step, begin)
    return place, column, passed


def _places(tree):
    return jnp.arange(len(tree.actor), dtype=jnp.int32)


def _action(tree, place, column):
    """The action of a column."""
    if tree.action is None:
        return column.astype(jnp.int32)
    return tree.action[place, column].astype(jnp.int32)


def _added(tree, new, wanted):
    """The tree with one more position, if it is wanted."""
    to = jnp.where(wanted, tree.count, len(tree.actor))
    put = lambda table, own: table.at[to].set(own.astype(table.dtype), mode="drop")  # noqa: E731
    action, prior = None, new.prior
    if tree.action is not None:
        prior, action = jax.lax.top_k(prior, tree.prior.shape[1])
    return tree.replace(
        count=tree.count + wanted.astype(jnp.int32),
        state=jax.tree.map(put, tree.state, new.state),
        actor=put(tree.actor, new.actor),
        action=None if action is None else put(tree.action, action),
        prior=put(tree.prior, prior),
    )


def _visited(tree, passed, value):
    """The tree after a visit of some places with one value."""
    visits = tree.visits + passed.astype(jnp.float32)
    mean = tree.value + jnp.where(passed, (value - tree.value) / jnp.maximum(visits, 1), 0)
    return tree.replace(visits=visits, value=mean)
