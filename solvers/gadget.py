"""Safe re-solving of subgames: the gadget (Burch, Johanson, Bowling 2014, "Solving imperfect
information games using decomposition").

    opt_out = evaluation.root_best_response_values(tree, before, root_reach)[1 - resolver]
    safe = with_gadget(tree, opt_out, resolver=resolver)
    state = cfr.init(safe, root_reach=...)  # the resolver's range; 1 for all hands of the opponent
    state = cfr.run(safe, state, solver=solver, num_iterations=1000)
    policy = without_gadget(tree, cfr.average_policy(safe, state), resolver=resolver)

Before the subgame the resolver's opponent decides, in each of its root sequences, whether to follow
into it or to terminate for what it could have had before. So what the resolver now plays gives the
opponent no more, whatever it has come with. Works on all trees for two players.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.core import record
from solvers import sparse_sum
from solvers.public_tree import Policy, PublicStates, PublicTree, expand
from solvers.sequences import Group, Level, Player
from solvers.sparse_sum import SparseSum, materialize

FOLLOW, TERMINATE = 0, 1


@record
class _Ends:
    """A player's terminals in the subgame, by blocks: the root's [r, ...], then by group."""

    operator: SparseSum | Callable[[Array], tuple[Array, ...]]
    blocks: tuple[tuple[int, ...], ...] = flax.struct.field(pytree_node=False)  # begin, A, n

    def __call__(self, reach):
        if not isinstance(self.operator, SparseSum):
            return self.operator(reach)
        rows = materialize(sparse_sum.apply(self.operator, reach), self.operator.one)
        cut = [
            rows[begin : begin + width * count].reshape(width, count, *rows.shape[1:])
            for begin, width, count in self.blocks
        ]
        return cut[0][0], *cut[1:]


@record
class _OpponentEnds:
    """The opponent's terminals: to terminate is one."""

    ends: _Ends
    opt_out: Array  # [r, *row]

    def __call__(self, reach):
        root, *groups = self.ends(reach)
        terminate = expand(self.opt_out, root) + jnp.zeros_like(root)
        return jnp.zeros_like(root), jnp.stack([root, terminate]), *groups


@record
class _ResolverEnds:
    """The resolver's terminals, from the opponent's reach: of its rows the subgame knows those that
    follow instead of the root's."""

    ends: _Ends
    num_rows: int = flax.struct.field(pytree_node=False)  # r

    def __call__(self, reach):
        r = self.num_rows
        return self.ends(jnp.concatenate([reach[r : 2 * r], reach[3 * r :]]))


@record
class _Root:
    """Decisions of the gadget are the root's rows."""

    def __call__(self, decisions):
        return decisions


@record
class _Followed:
    """What comes of the first decisions in the subgame counts where it is followed."""

    children: SparseSum | Callable[[Array], Array]

    def __call__(self, decisions):
        if isinstance(self.children, SparseSum):
            rows = sparse_sum.apply(self.children, decisions)
        else:
            rows = self.children(decisions)
        return jnp.concatenate([rows, jnp.zeros_like(rows)])


def with_gadget(tree: PublicTree, opt_out: Float[Array, " R"], *, resolver: int) -> PublicTree:
    """The subgame with the choice of the resolver's opponent before it, to `FOLLOW` or `TERMINATE`.

    `opt_out` are counterfactual values of the opponent's root sequences. Its decisions of the
    gadget are numbered after all others. Pure, batched by `vmap`.

    Raises:
      ValueError: `tree` is not for two players, `resolver` is not one of them, or `opt_out` does
        not have the shape of the opponent's root sequences.
    """
    if tree.num_players != 2 or resolver not in (0, 1):
        raise ValueError(
            f"resolver={resolver} of {tree.game} with {tree.num_players} players must be 0 or 1"
            " of 2"
        )
    player = tree.players[1 - resolver]
    if opt_out.shape != (player.num_roots,):
        raise ValueError(
            f"opt_out of {tree.game} has shape {opt_out.shape}, must be {(player.num_roots,)}"
        )
    num_rows = player.num_roots // math.prod(player.row)
    opt_out = opt_out.astype(tree.dtype).reshape(num_rows, *player.row)
    players, ends = list(tree.players), list(map(_ends, tree.players, tree.terminals))
    players[1 - resolver] = _with_choice(player, num_rows, tree.dtype)
    ends[resolver] = _ResolverEnds(ends=ends[resolver], num_rows=num_rows)
    ends[1 - resolver] = _OpponentEnds(ends=ends[1 - resolver], opt_out=opt_out)
    none = jnp.zeros(0, jnp.int32)
    return PublicTree(
        players=tuple(players),
        terminals=tuple(ends),
        payoffs=jnp.zeros((0, 2), tree.dtype),
        payoff_sequences=jnp.zeros((2, 0), jnp.int32),
        terminal_entry=none,
        terminal_chance=jnp.zeros(0, tree.dtype),
        public_states=PublicStates(
            parent=none, depth=none, actor=none, information_states=(), sequences=()
        ),
        num_actions=max(tree.num_actions, 2),
        game=f"{tree.game} with a gadget",
    )


def without_gadget(tree: PublicTree, policy: Policy, *, resolver: int) -> Policy:
    """Policies in the subgame `tree`, of policies with a gadget."""
    count = tree.players[1 - resolver].num_decisions
    kept = [rows[:, : tree.num_actions] for rows in policy]
    kept[1 - resolver] = kept[1 - resolver][:count]
    return tuple(kept)


def _ends(player: Player, operator) -> _Ends:
    blocks = [(0, 1, player.num_roots // math.prod(player.row))]
    for level in player.levels:
        begin = level.begin
        for group in level.groups:
            blocks.append((begin, group.num_actions, group.num_decisions))
            begin += group.num_actions * group.num_decisions
    return _Ends(operator=operator, blocks=tuple(blocks))


def _with_choice(player: Player, num_rows: int, dtype) -> Player:
    choice = Group(
        parent=jnp.arange(num_rows, dtype=jnp.int32),
        decision=jnp.int32(player.num_decisions),
        action=jnp.array([[FOLLOW], [TERMINATE]], jnp.int32),
        uniform=jnp.full((2, 1), 0.5, dtype),
        num_actions=2,
        num_decisions=num_rows,
    )
    first = Level(
        groups=(choice,), children=_Root(), begin=num_rows, end=3 * num_rows, first_group=0
    )
    levels = [
        level.replace(
            children=level.children if number else _Followed(children=level.children),
            begin=level.begin + 2 * num_rows,
            end=level.end + 2 * num_rows,
            first_group=level.first_group + 1,
        )
        for number, level in enumerate(player.levels)
    ]
    return player.replace(
        levels=(first, *levels),
        num_sequences=player.num_sequences + 2 * player.num_roots,
        num_decisions=player.num_decisions + player.num_roots,
    )
