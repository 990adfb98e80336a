"""Safe re-solving of subgames: what comes before them, lest the opponent gain by being there.

*Re-solve* (Burch, Johanson, Bowling 2014, "Solving imperfect information games using
decomposition"):

    opt_out = evaluation.root_best_response_values(tree, before, root_reach)[1 - resolver]
    safe = with_gadget(tree, opt_out, resolver=resolver)
    state = cfr.init(safe, root_reach=...)  # the resolver's range; 1 for all hands of the opponent
    state = cfr.run(safe, state, solver=solver, num_iterations=1000)
    policy = without_gadget(tree, cfr.average_policy(safe, state), resolver=resolver)

Before the subgame the resolver's opponent decides, in each of its root sequences, whether to follow
into it or to terminate for what it could have had before. So what the resolver now plays gives the
opponent no more, whatever it has come with. Works on all trees for two players.

*Maxmargin* (Moravcik et al. 2016, "Refining subgames in large imperfect information games") gives
it as much less as can be, in whichever root sequence it is least: `with_margins`, in place of
`with_gadget`, lets the opponent choose where to begin, and takes from it what it could have had.
*Reach* (Brown and Sandholm 2017, "Safe and nested subgame solving") allows it more where it has
made mistakes on the way: by these its values may be raised (`gifts`). *Estimated* maxmargin is that
with `evaluation.root_values`, what the opponent is thought to get, for what it could have had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Float

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
from solvers.sequence_form.sequence_form import expand
from solvers.sequence_form.sparse_sum import Gather
from solvers.sequence_form.treeplex import Group, Level, Treeplex

FOLLOW, TERMINATE = 0, 1


@record
class _OpponentEnds:
    """The opponent's terminals: to terminate is one."""

    ends: Terminals  # of the subgame
    opt_out: Array  # [r, *row]

    def __call__(self, reach):
        root, *groups = self.ends(reach)
        terminate = expand(self.opt_out, root) + jnp.zeros_like(root)
        return jnp.zeros_like(root), jnp.stack([root, terminate]), *groups


@record
class _ResolverEnds:
    """The resolver's terminals, from the opponent's reach: of its rows the subgame knows those that
    follow instead of the root's."""

    ends: Terminals  # of the subgame
    num_rows: int = flax.struct.field(pytree_node=False)  # r

    def __call__(self, reach):
        r = self.num_rows
        return self.ends(jnp.concatenate([reach[r : 2 * r], reach[3 * r :]]))


@record
class _OpponentMargins:
    """The opponent's terminals where it chooses a root sequence: of that, the margin."""

    ends: Terminals  # of the subgame
    scale: Array  # [R] of each root sequence
    alternative: Array  # [R] what it loses by choosing it

    def __call__(self, reach):
        root, *groups = self.ends(reach)
        margin = expand(self.scale, root) * root - expand(self.alternative, root)
        return jnp.zeros_like(root[:1]), margin[:, None], *groups


@record
class _ResolverMargins:
    """The resolver's terminals, from the opponent's reach: each sequence to the scale of its root
    sequence."""

    ends: Terminals  # of the subgame
    scale: Array  # [Q]

    def __call__(self, reach):
        return self.ends(expand(self.scale, reach) * reach[1:])


@record
class _Root:
    """Decisions of the gadget are the root's rows."""

    def __call__(self, decisions):
        return decisions


@record
class _Followed:
    """What comes of the first decisions in the subgame counts where it is followed."""

    children: Callable[[Array], Array]

    def __call__(self, decisions):
        rows = self.children(decisions)
        return jnp.concatenate([rows, jnp.zeros_like(rows)])


@record
class _Scaled:
    """What comes of the first decisions in the subgame, to the scale of its root sequence."""

    children: Callable[[Array], Array]
    scale: Array  # [R]

    def __call__(self, decisions):
        rows = self.children(decisions)
        return expand(self.scale, rows) * rows


def with_gadget(tree: SequenceForm, opt_out: Float[Array, " R"], *, resolver: int) -> SequenceForm:
    """The subgame with the choice of the resolver's opponent before it, to `FOLLOW` or `TERMINATE`.

    `opt_out` are counterfactual values of the opponent's root sequences. Its decisions of the
    gadget are numbered after all others. Pure, batched by `vmap`.

    Raises:
      ValueError: `tree` is not for two players, `resolver` is not one of them, or `opt_out` does
        not have the shape of the opponent's root sequences.
    """
    player = _opponent(tree, resolver, opt_out=opt_out)
    num_rows = player.num_root_rows
    opt_out = opt_out.astype(tree.dtype).reshape(num_rows, *player.row)
    players, ends = list(tree.treeplexes), list(tree.terminals)
    players[1 - resolver] = _with_choice(player, num_rows, tree.dtype)
    ends[resolver] = _ResolverEnds(ends=ends[resolver], num_rows=num_rows)
    ends[1 - resolver] = _OpponentEnds(ends=ends[1 - resolver], opt_out=opt_out)
    return _joined(tree, players, ends, num_actions=2)


def with_margins(
    tree: SequenceForm,
    alternative: Float[Array, " R"],
    weights: Float[Array, " R"],
    *,
    resolver: int,
) -> SequenceForm:
    """The subgame with the choice of a root sequence by the resolver's opponent before it.

    What it then gets is what it is worth to be there less what the alternative is worth: the
    resolver maximises the least margin. `alternative` are counterfactual values of the opponent's
    root sequences, `weights` the probabilities that chance and the resolver lead there (see
    `root_weights`), by which both are divided; where they do not, it is not chosen. The opponent
    has a single root sequence. Pure, batched by `vmap`.

    Raises:
      ValueError: as `with_gadget`, or the opponent's sequences are laid out by hands.
    """
    player = _opponent(tree, resolver, alternative=alternative, weights=weights)
    if player.row:
        raise ValueError(f"margins of {tree.game}: sequences by hands are not supported")
    possible = weights > 0
    scale = jnp.where(possible, 1 / jnp.where(possible, weights, 1), 0).astype(tree.dtype)
    ones = tuple((group.uniform > 0).astype(tree.dtype) for group in player.groups)
    players, ends = list(tree.treeplexes), list(tree.terminals)
    players[1 - resolver] = _with_start(player, possible, scale)
    ends[resolver] = _ResolverMargins(ends=ends[resolver], scale=sweeps.reach(player, ones, scale))
    ends[1 - resolver] = _OpponentMargins(
        ends=ends[1 - resolver], scale=scale, alternative=scale * alternative
    )
    return _joined(tree, players, ends, num_actions=player.num_roots)


def root_weights(
    tree: SequenceForm, root_reach: RootReach | None = None, *, player: int
) -> Float[Array, " R"]:
    """Probability that chance and the others lead to each root sequence of `player`.

    Counts by the payoffs of an explicit tree, as `with_returns` does.
    """
    counting = _counting(tree, "root_weights")
    policy = unpack(tree, uniform(tree))
    return evaluation.root_values(counting, policy, root_reach)[player]


def gifts(
    tree: SequenceForm, policy: Policy, *, player: int, estimated: bool = False
) -> Float[Array, " Q"]:
    """How much less than the best there was `player` has chosen on the way to each of its
    sequences, of the whole game: sums of expected payoffs, given that it came there.

    As a best response to the other's `policy` continues, or, `estimated`, as `policy` does. If
    alternatives of root sequences, times their weights, are raised by them, the opponent still
    gains nothing, in however many subgames of the tree; in one only they may be raised by the
    gift divided by the chance of coming to it (Brown and Sandholm 2017, section 5).
    """
    counting = _counting(tree, "gifts")
    if not estimated:
        response = evaluation.best_response(tree, policy)[player]
        policy = tuple(response if p == player else rows for p, rows in enumerate(policy))
    actions, _ = evaluation.counterfactual_values(tree, policy)
    _, weights = evaluation.counterfactual_values(counting, policy)
    legal = unpack(tree, uniform(tree))[player] > 0
    best = jnp.max(jnp.where(legal, actions[player], -jnp.inf), axis=1, keepdims=True)
    weight = weights[player][:, None]
    lost = jnp.where(weight > 0, (best - actions[player]) / jnp.where(weight > 0, weight, 1), 0)
    rows = [
        jnp.zeros((each.num_decisions, tree.num_actions), tree.dtype) for each in tree.treeplexes
    ]
    rows[player] = jnp.where(legal, lost, 0)
    owner = tree.treeplexes[player]
    start = jnp.zeros(owner.num_roots, tree.dtype)
    return sweeps.total(owner, pack(tree, tuple(rows))[player], start)


def _counting(tree, purpose):
    """The tree in which all terminals pay 1."""
    histories = checked_histories(tree, purpose)
    shape = len(histories.terminal_chance), tree.num_players
    return with_returns(tree, jnp.ones(shape, tree.dtype))


def without_gadget(tree: SequenceForm, policy: Policy, *, resolver: int) -> Policy:
    """Policies in the subgame `tree`, of policies with a gadget."""
    count = tree.treeplexes[1 - resolver].num_decisions
    kept = [rows[:, : tree.num_actions] for rows in policy]
    kept[1 - resolver] = kept[1 - resolver][:count]
    return tuple(kept)


def _opponent(tree: SequenceForm, resolver: int, **by_root: Array) -> Treeplex:
    if tree.num_players != 2 or resolver not in (0, 1):
        raise ValueError(
            f"resolver={resolver} of {tree.game} with {tree.num_players} players must be 0 or 1"
            " of 2"
        )
    player = tree.treeplexes[1 - resolver]
    for name, values in by_root.items():
        if values.shape != (player.num_roots,):
            raise ValueError(
                f"{name} of {tree.game} has shape {values.shape}, must be {(player.num_roots,)}"
            )
    return player


def _joined(tree: SequenceForm, players, ends, *, num_actions: int) -> SequenceForm:
    return SequenceForm(
        treeplexes=tuple(players),
        terminals=tuple(ends),
        num_actions=max(tree.num_actions, num_actions),
        game=f"{tree.game} with a gadget",
        dtype=tree.dtype,
    )


def _with_choice(player: Treeplex, num_rows: int, dtype) -> Treeplex:
    choice = Group(
        parent=Gather(index=jnp.arange(num_rows, dtype=jnp.int32)),
        decision=jnp.int32(player.num_decisions),
        action=jnp.array([[FOLLOW], [TERMINATE]], jnp.int32),
        uniform=jnp.full((2, 1), 0.5, dtype),
        num_actions=2,
        num_decisions=num_rows,
    )
    first = Level(
        groups=(choice,), children=_Root(), begin=num_rows, end=3 * num_rows, first_group=0
    )
    return player.replace(
        levels=(first, *_later(player, _Followed, 2 * num_rows)),
        num_sequences=player.num_sequences + 2 * player.num_roots,
        num_decisions=player.num_decisions + player.num_roots,
    )


def _with_start(player: Treeplex, possible: Array, scale: Array) -> Treeplex:
    count = player.num_roots
    total = jnp.maximum(jnp.sum(possible.astype(scale.dtype)), 1)
    choice = Group(
        parent=Gather(index=jnp.zeros(1, jnp.int32)),
        decision=jnp.array([player.num_decisions], jnp.int32),
        action=jnp.arange(count, dtype=jnp.int32)[:, None],
        uniform=(possible.astype(scale.dtype) / total)[:, None],
        num_actions=count,
        num_decisions=1,
    )
    first = Level(groups=(choice,), children=_Root(), begin=1, end=1 + count, first_group=0)
    scaled = functools.partial(_Scaled, scale=scale)
    return player.replace(
        levels=(first, *_later(player, scaled, 1)),
        num_roots=1,
        num_sequences=player.num_sequences + 1,
        num_decisions=player.num_decisions + 1,
    )


def _later(player: Treeplex, first: Callable, shift: int) -> list[Level]:
    """The levels of the subgame behind one more; `first` is made of the children of the first."""
    return [
        level.replace(
            children=level.children if number else first(children=level.children),
            begin=level.begin + shift,
            end=level.end + shift,
            first_group=level.first_group + 1,
        )
        for number, level in enumerate(player.levels)
    ]
