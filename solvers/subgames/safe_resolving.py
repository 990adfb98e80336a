"""Safe re-solving of subgames: gadget games that keep the opponent from gaining.

*Re-solving* (Burch, Johanson and Bowling 2014, "Solving imperfect information games using
decomposition"):

    >>> import jaxgames
    >>> import jax.numpy as jnp
    >>> from solvers import build_sequence_form, cfr, evaluation
    >>> from solvers.sequence_form import uniform, unpack
    >>> from solvers.subgames.safe_resolving import with_gadget, without_gadget
    >>> form, resolver = build_sequence_form(jaxgames.make("kuhn_poker")), 0
    >>> before = unpack(form, uniform(form))  # the policies to improve on
    >>> root_reach = (jnp.ones(1), jnp.ones(1))  # here the subgame is the whole game
    >>> opt_out = evaluation.root_best_response_values(form, before, root_reach)[1 - resolver]
    >>> safe = with_gadget(form, opt_out, resolver=resolver)
    >>> state = cfr.init(safe, root_reach=root_reach)
    >>> state = cfr.run(safe, state, solver=cfr.cfr_plus(), num_iterations=100)
    >>> policy = without_gadget(form, cfr.average_policy(safe, state), resolver=resolver)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]

Before the subgame the resolver's opponent decides in each of its root sequences whether to follow
into the subgame, or to terminate for its opt-out value: what it could have had against the policy
before. So the new policy of the resolver gives the opponent no more than the old one, whatever
range the opponent comes with. This works for all two-player sequence forms.

*Maxmargin* (Moravcik et al. 2016, "Refining subgames in large imperfect information games"):
`with_margins` in place of `with_gadget` lets the opponent choose its root sequence, and subtracts
the opt-out value from what it gets there. The resolver then maximises the least margin, that is,
how much less than its opt-out value the opponent gets in the root sequence that is best for it.

*Reach* subgame solving (Brown and Sandholm 2017, "Safe and nested subgame solving")
raises the opt-out values of root sequences that the opponent only reaches by mistakes, by the
`gifts` it made. *Estimated* maxmargin (the same paper) takes `evaluation.root_values`, what the
opponent is estimated to get, for opt-out values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes, safe_divide
from jaxgames.core import record
from solvers import evaluation
from solvers.sequence_form import (
    Policy,
    RootReach,
    SequenceForm,
    Terminals,
    checked_histories,
    pack,
    sweeps,
    uniform,
    unpack,
    with_returns,
)
from solvers.sequence_form.sparse_sum import Gather
from solvers.sequence_form.treeplex import Group, Level, Treeplex

FOLLOW, TERMINATE = 0, 1  # the opponent's actions in the gadget of `with_gadget`


@record
class _OpponentTerminals:
    """The opponent's terminals behind `with_gadget`: to terminate pays the opt-out value."""

    inner: Terminals  # of the subgame
    opt_out: Array  # [r, *row]

    def __call__(self, reach):
        root, *groups = self.inner(reach)
        terminate = append_axes(self.opt_out, root) + jnp.zeros_like(root)
        return jnp.zeros_like(root), jnp.stack([root, terminate]), *groups


@record
class _ResolverTerminals:
    """The resolver's terminals behind `with_gadget`.

    The opponent's rows are those of the root, of following and of terminating, r each, and then the
    subgame's. The subgame is reached by following.
    """

    inner: Terminals  # of the subgame
    num_root_rows: int = flax.struct.field(pytree_node=False)  # r

    def __call__(self, reach):
        r = self.num_root_rows
        return self.inner(jnp.concatenate([reach[r : 2 * r], reach[3 * r :]]))


@record
class _OpponentMargins:
    """The opponent's terminals behind `with_margins`: to choose a root sequence costs its opt-out
    value."""

    inner: Terminals  # of the subgame
    scale: Array  # [R] factor of the values of each root sequence
    opt_out: Array  # [R] to that scale

    def __call__(self, reach):
        root, *groups = self.inner(reach)
        margin = append_axes(self.scale, root) * root - append_axes(self.opt_out, root)
        return jnp.zeros_like(root[:1]), margin[:, None], *groups


@record
class _ResolverMargins:
    """The resolver's terminals behind `with_margins`: the opponent's reach of each sequence counts
    to the scale of its root sequence."""

    inner: Terminals  # of the subgame
    scale: Array  # [Q] of each sequence of the opponent

    def __call__(self, reach):
        return self.inner(append_axes(self.scale, reach) * reach[1:])


@record
class _RootChildren:
    """Children of the root's rows in a gadget: one decision follows each row."""

    def __call__(self, decisions):
        return decisions


@record
class _FollowedChildren:
    """Children of the gadget's sequences: the subgame's first decisions follow where the opponent
    followed, nothing where it terminated."""

    inner: Callable[[Array], Array]  # children of the subgame's root

    def __call__(self, decisions):
        rows = self.inner(decisions)
        return jnp.concatenate([rows, jnp.zeros_like(rows)])


@record
class _ScaledChildren:
    """Children of chosen root sequences: the subgame's first decisions, to the scale of the root
    sequence."""

    inner: Callable[[Array], Array]  # children of the subgame's root
    scale: Array  # [R]

    def __call__(self, decisions):
        rows = self.inner(decisions)
        return append_axes(self.scale, rows) * rows


def with_gadget(form: SequenceForm, opt_out: Float[Array, " R"], *, resolver: int) -> SequenceForm:
    """The subgame behind the re-solving gadget: the opponent may `FOLLOW` or `TERMINATE`.

    Pure, batched by `jax.vmap`.

    Args:
      form: the subgame, for two players.
      opt_out: counterfactual values that the opponent gets for terminating, by root sequence.
      resolver: the player that re-solves; the other is the opponent.

    Returns:
      A sequence form in which the opponent first decides in each root sequence. These decisions are
      numbered after all others. Terminating decides nothing for the resolver.

    Raises:
      ValueError: `form` is not for two players, `resolver` is not one of them, or `opt_out` does
        not have the shape of the opponent's root sequences.
    """
    opponent = _checked_opponent(form, resolver, opt_out=opt_out)
    num_root_rows = opponent.num_root_rows
    opt_out = opt_out.astype(form.dtype).reshape(num_root_rows, *opponent.row)
    treeplexes, terminals = list(form.treeplexes), list(form.terminals)
    treeplexes[1 - resolver] = _with_follow_or_terminate(opponent, form.dtype)
    terminals[resolver] = _ResolverTerminals(inner=terminals[resolver], num_root_rows=num_root_rows)
    terminals[1 - resolver] = _OpponentTerminals(inner=terminals[1 - resolver], opt_out=opt_out)
    return _gadget_form(form, treeplexes, terminals, num_actions=2)


def with_margins(
    form: SequenceForm,
    opt_out: Float[Array, " R"],
    weights: Float[Array, " R"],
    *,
    resolver: int,
) -> SequenceForm:
    """The subgame behind the maxmargin gadget: the opponent chooses its root sequence.

    It then gets what the root sequence is worth less its opt-out value, both divided by `weights`,
    so the resolver maximises the least margin. Pure, batched by `jax.vmap`.

    Args:
      form: the subgame, for two players, whose sequences are not laid out by hands.
      opt_out: counterfactual values of the opponent's root sequences that are subtracted.
      weights: the probability with which chance and the resolver lead to each root sequence of the
        opponent (see `root_weights`); where it is 0, the root sequence cannot be chosen.
      resolver: the player that re-solves; the other is the opponent.

    Returns:
      A sequence form in which the opponent has a single root sequence and one decision more, which
      is numbered after all others.

    Raises:
      ValueError: as `with_gadget`, or the opponent's sequences are laid out by hands.
    """
    opponent = _checked_opponent(form, resolver, opt_out=opt_out, weights=weights)
    if opponent.row:
        raise ValueError(
            f"form of {form.game}: sequences of player {1 - resolver} are laid out by"
            f" {opponent.row[0]} hands; allowed: one by one, as of explicit trees"
        )
    possible = weights > 0
    scale = jnp.where(possible, 1 / jnp.where(possible, weights, 1), 0).astype(form.dtype)
    ones = tuple((group.uniform > 0).astype(form.dtype) for group in opponent.groups)
    treeplexes, terminals = list(form.treeplexes), list(form.terminals)
    treeplexes[1 - resolver] = _with_choice_of_root(opponent, possible, scale)
    terminals[resolver] = _ResolverMargins(
        inner=terminals[resolver], scale=sweeps.reach(opponent, ones, scale)
    )
    terminals[1 - resolver] = _OpponentMargins(
        inner=terminals[1 - resolver], scale=scale, opt_out=scale * opt_out
    )
    return _gadget_form(form, treeplexes, terminals, num_actions=opponent.num_roots)


def without_gadget(form: SequenceForm, policy: Policy, *, resolver: int) -> Policy:
    """Policies of the subgame `form`, from policies of the same subgame behind a gadget."""
    count = form.treeplexes[1 - resolver].num_decisions
    policies = [rows[:, : form.num_actions] for rows in policy]
    policies[1 - resolver] = policies[1 - resolver][:count]
    return tuple(policies)


def root_weights(
    form: SequenceForm, root_reach: RootReach | None = None, *, player: int
) -> Float[Array, " R"]:
    """The probability with which chance and the other player lead to each root sequence.

    It is the counterfactual value of the root sequence when all terminals pay 1.

    Args:
      form: the sequence form of an explicit tree.
      root_reach: each player's own reach of its root sequences `[R_p]`; 1 by default.
      player: whose root sequences.

    Raises:
      ValueError: `form` has no histories.
    """
    counting = _paying_one(form, "root_weights")
    policy = unpack(form, uniform(form))
    return evaluation.root_values(counting, policy, root_reach)[player]


def gifts(
    form: SequenceForm, policy: Policy, *, player: int, estimated: bool = False
) -> Float[Array, " Q"]:
    """What `player` gave away on the way to each of its sequences (Brown and Sandholm 2017).

    The gift of an action is how much less it is worth than the best action of the decision, as an
    expected payoff given that the player came there; a sequence has the sum of the gifts on its
    way. If the opt-out values of root sequences are raised by their gifts times their weights, the
    opponent still gains nothing, in however many subgames of the game. In a single subgame they may
    be raised by the gift divided by the probability of coming to it (section 5 of the paper).

    Args:
      form: the sequence form of the whole game, an explicit tree.
      policy: policies `[D_p, A]` by player.
      player: whose gifts.
      estimated: whether `player` itself goes on by its `policy`; by default, by a best response.

    Raises:
      ValueError: `form` has no histories.
    """
    counting = _paying_one(form, "gifts")
    if not estimated:
        response = evaluation.best_response(form, policy)[player]
        policy = tuple(response if p == player else rows for p, rows in enumerate(policy))
    actions, _ = evaluation.counterfactual_values(form, policy)
    _, weights = evaluation.counterfactual_values(counting, policy)
    legal = unpack(form, uniform(form))[player] > 0
    best = jnp.max(jnp.where(legal, actions[player], -jnp.inf), axis=1, keepdims=True)
    weight = weights[player][:, None]
    given = jnp.where(weight > 0, safe_divide(best - actions[player], weight), 0)
    rows = [
        jnp.zeros((each.num_decisions, form.num_actions), form.dtype) for each in form.treeplexes
    ]
    rows[player] = jnp.where(legal, given, 0)
    treeplex = form.treeplexes[player]
    start = jnp.zeros(treeplex.num_roots, form.dtype)
    return sweeps.path_sums(treeplex, pack(form, tuple(rows))[player], start)


def _paying_one(form, purpose):
    """The sequence form in which all terminals pay 1 to everybody."""
    histories = checked_histories(form, purpose)
    shape = len(histories.terminal_chance), form.num_players
    return with_returns(form, jnp.ones(shape, form.dtype))


def _checked_opponent(form: SequenceForm, resolver: int, **by_root: Array) -> Treeplex:
    """The opponent's treeplex; `by_root` are arrays that must have an entry per root sequence."""
    if form.num_players != 2 or resolver not in (0, 1):
        raise ValueError(
            f"resolver={resolver} of {form.game} with {form.num_players} players must be 0 or 1"
            " of 2"
        )
    opponent = form.treeplexes[1 - resolver]
    for name, values in by_root.items():
        if values.shape != (opponent.num_roots,):
            raise ValueError(
                f"{name} of {form.game} has shape {values.shape}, must be {(opponent.num_roots,)}"
            )
    return opponent


def _gadget_form(form, treeplexes, terminals, *, num_actions):
    """The sequence form of a gadget before the subgame `form`."""
    return SequenceForm(
        treeplexes=tuple(treeplexes),
        terminals=tuple(terminals),
        num_actions=max(form.num_actions, num_actions),
        game=f"{form.game} with a gadget",
        dtype=form.dtype,
    )


def _with_follow_or_terminate(opponent: Treeplex, dtype) -> Treeplex:
    """The opponent's sequences behind a decision to follow or to terminate in each root row."""
    num_root_rows = opponent.num_root_rows
    choice = Group(
        parent=Gather(index=jnp.arange(num_root_rows, dtype=jnp.int32)),
        decision=jnp.int32(opponent.num_decisions),
        action=jnp.array([[FOLLOW], [TERMINATE]], jnp.int32),
        uniform=jnp.full((2, 1), 0.5, dtype),
        num_actions=2,
        num_decisions=num_root_rows,
    )
    first = Level(
        groups=(choice,),
        children=_RootChildren(),
        begin=num_root_rows,
        end=3 * num_root_rows,
        first_group=0,
    )
    return opponent.replace(
        levels=(first, *_levels_behind(opponent, _FollowedChildren, 2 * num_root_rows)),
        num_sequences=opponent.num_sequences + 2 * opponent.num_roots,
        num_decisions=opponent.num_decisions + opponent.num_roots,
    )


def _with_choice_of_root(opponent: Treeplex, possible: Array, scale: Array) -> Treeplex:
    """The opponent's sequences behind one decision among the possible root sequences."""
    count = opponent.num_roots
    total = jnp.maximum(jnp.sum(possible.astype(scale.dtype)), 1)
    choice = Group(
        parent=Gather(index=jnp.zeros(1, jnp.int32)),
        decision=jnp.array([opponent.num_decisions], jnp.int32),
        action=jnp.arange(count, dtype=jnp.int32)[:, None],
        uniform=(possible.astype(scale.dtype) / total)[:, None],
        num_actions=count,
        num_decisions=1,
    )
    first = Level(groups=(choice,), children=_RootChildren(), begin=1, end=1 + count, first_group=0)
    scaled = functools.partial(_ScaledChildren, scale=scale)
    return opponent.replace(
        levels=(first, *_levels_behind(opponent, scaled, 1)),
        num_roots=1,
        num_sequences=opponent.num_sequences + 1,
        num_decisions=opponent.num_decisions + 1,
    )


def _levels_behind(player: Treeplex, first_children: Callable, shift: int) -> list[Level]:
    """The levels of a subgame behind one more level, with their rows moved by `shift`.

    `first_children(inner=...)` makes the children of the first level from those of the subgame.
    """
    return [
        level.replace(
            children=level.children if number else first_children(inner=level.children),
            begin=level.begin + shift,
            end=level.end + shift,
            first_group=level.first_group + 1,
        )
        for number, level in enumerate(player.levels)
    ]
