"""CFR-BR: an abstracted player learns against a best response in the real game
(Johanson, Bard, Burch and Bowling 2012, "Finding optimal abstract strategies in extensive-form
games").

An iteration draws a board. On the last street the opponent knows its hand and answers the
abstracted player's current policy with a best response. On the streets before, which are the
*trunk* of the paper's hybrid opponent, it plays by regret matching: before the flop without
abstraction, later by the buckets of the game. If players remember their buckets, the average policy
of the abstracted one tends to the one of those in its buckets that loses least to such an opponent:
in games of two streets, the least exploitable one. With imperfect recall there is no such
guarantee, as for CFR. Each player is the abstracted one in a half of its own.

In games of more streets the paper's opponent responds from the flop on, and an iteration goes
through all turns and rivers of a flop. Here an iteration takes one board, as in linear CFR; but the
opponent is weaker, so that the abstracted player learns less about what it can lose.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array

from jaxgames.arrays import written
from jaxgames.core import record
from jaxgames.holdem.ranges import CLASSES, class_numbers
from solvers.blueprint.betting_rounds import END, FOLDED, NODE
from solvers.blueprint.board_sampled_cfr import (
    LINEAR,
    BlueprintState,
    check_minimizer,
    init,
)
from solvers.blueprint.bucket_game import BucketGame, Tables
from solvers.blueprint.bucket_rows import meet, sum_by_bucket, sums_and_values
from solvers.blueprint.deals import Deal, numbers_of_deal
from solvers.blueprint.rounds_played import (
    matched_columns,
    played_in_round,
    reaches_at_rounds,
    uniform_like,
)
from solvers.blueprint.showdowns import folds, showdowns
from solvers.blueprint.street_updates import over_chunks, over_deals, summed_over_deals
from solvers.device_batches import device_bytes
from solvers.regret import RegretMinimizer, RegretState, match


@record
class CfrBrState:
    """The tables of both abstracted players, and their opponents' regrets in the trunk.

    A player's columns in `blueprint` are those of the half in which it is abstracted; in `trunk`,
    those of the half in which it is the opponent.
    """

    blueprint: BlueprintState
    trunk: Tables  # [N, C, B, E] of all streets but the last; of the first one B is 169


def init_cfr_br(
    game: BucketGame, *, dtype: DTypeLike = jnp.float32, max_bytes: int | None = None
) -> CfrBrState:
    """Tables before the first iteration.

    Args:
      game: whose tables these are; on its first street there are no cards on the board.
      dtype: of regrets and policies.
      max_bytes: that all tables may take; None: half the memory of the device, since an iteration
        needs room, too.

    Raises:
      ValueError: the tables take more.
    """
    allowed = device_bytes() // 2 if max_bytes is None else max_bytes
    others = trunk_bytes(game) * jnp.dtype(dtype).itemsize // 4
    blueprint = init(game, dtype=dtype, max_bytes=allowed - others)
    trunk = [[] for _ in game.rounds.streets[:-1]]
    for street, shape in _trunk_shapes(game):
        trunk[street].append(jnp.zeros(shape, dtype))
    return CfrBrState(blueprint=blueprint, trunk=tuple(map(tuple, trunk)))


def trunk_bytes(game: BucketGame) -> int:
    """Bytes of the opponents' regrets in float32."""
    return sum(4 * int(np.prod(shape)) for _, shape in _trunk_shapes(game))


def _trunk_shapes(game):
    """The street and the shape of each table of the trunk."""
    for street, _, (chunks, columns, buckets, size) in game.shapes():
        if street < len(game.rounds.streets) - 1:
            yield street, (chunks, columns, buckets if street else len(CLASSES), size)


@functools.partial(jax.jit, static_argnames=("game", "minimizer"), donate_argnames="state")
def iterate(
    state: CfrBrState,
    deal: Deal,
    *,
    game: BucketGame,
    minimizer: RegretMinimizer = LINEAR,
) -> CfrBrState:
    """One iteration of both abstracted players on one board.

    Args:
      state: before it; its arrays are used up.
      deal: a board on which each hand is a group of its own.
      game: of the tables. Static.
      minimizer: whose policies follow from regrets alone, by regret matching. Static.

    Returns:
      The state after it.

    Raises:
      ValueError: some groups of the deal have other numbers of hands than one, or the minimizer's
        policies do not follow from regrets alone.
    """
    return _iterated(state, deal, (), game, minimizer)


@functools.partial(jax.jit, static_argnames=("game", "minimizer", "mesh"), donate_argnames="state")
def iterate_on_many(
    state: CfrBrState,
    deals: Deal,
    *,
    game: BucketGame,
    minimizer: RegretMinimizer = LINEAR,
    mesh: Mesh | None = None,
) -> CfrBrState:
    """One iteration on D boards at once, whose regrets and policies are summed.

    Args:
      state: before it, the same on all devices; its arrays are used up.
      deals: with a leading axis D, a multiple of the number of devices; each hand is a group of its
        own.
      game: as for `iterate`, like the minimizer.
      minimizer: see there.
      mesh: devices with one axis, `device_batches.DATA`; None: one device. Static.

    Returns:
      The state after it.

    Raises:
      ValueError: D is no multiple of the number of devices; or as `iterate`.
    """
    iterated = functools.partial(_iterated, game=game, minimizer=minimizer)
    return over_deals(iterated, state, deals, mesh=mesh)


def _iterated(state, deal, axes, game, minimizer):
    """The state after an iteration on all deals of some axes, of which this is one."""
    check_minimizer(minimizer)
    if len(deal.size) != len(deal.cards):
        raise ValueError(
            f"the deal has {len(deal.cards)} hands in {len(deal.size)} groups; each hand must be a"
            " group of its own"
        )
    old = state.blueprint
    regret, average, trunk = ([*map(list, x)] for x in (old.regret, old.average, state.trunk))
    classes = jnp.asarray(class_numbers(), jnp.int32)[numbers_of_deal(deal)]
    for player in range(2):
        half = _Half(
            deal=deal,
            player=player,
            responding=(classes, *deal.bucket[1:]),
            minimizer=minimizer,
            step=(old.iteration + 1).astype(deal.size.dtype),
            axes=axes,
        )
        # 1. Down the trunk: both players' reaches at the beginning of each round.
        reaches = half.reaches(game, regret, trunk)
        # 2. From the last street to the first: the opponent responds there, and learns before.
        below = None
        for street in reversed(range(len(game.rounds.streets))):
            tables, update = [regret[street], average[street]], half.on_last_street
            if street < len(trunk):
                tables, update = [*tables, trunk[street]], half.in_trunk
            values = []
            for k, family in enumerate(game.rounds.streets[street]):
                *new, worth = over_chunks(
                    family,
                    [table[k] for table in tables],
                    reaches[street][k],
                    below,
                    functools.partial(update, street, family.template),
                )
                for table, own in zip(tables, new, strict=True):
                    table[k] = own
                values.append(worth)
            below = values
    tables = lambda x: tuple(map(tuple, x))  # noqa: E731
    blueprint = BlueprintState(
        regret=tables(regret), average=tables(average), iteration=old.iteration + 1
    )
    return CfrBrState(blueprint=blueprint, trunk=tables(trunk))


@dataclasses.dataclass(frozen=True)
class _Half:
    """What one half of an iteration shares, in which one player is the abstracted one."""

    deal: Deal
    player: int  # the abstracted one
    responding: tuple[Array, ...]  # the opponent's rows [H] in the trunk, by street
    minimizer: RegretMinimizer
    step: Array
    axes: tuple[str, ...]

    def reaches(self, game, regret, trunk):
        """Both players' reaches `[H, M]` at the beginning of each round, by street and family."""
        policies = []
        for street, tables in enumerate(trunk):
            policies.append([])
            for k, family in enumerate(game.rounds.streets[street]):
                chunks = zip(regret[street][k], tables[k], strict=True)
                columns = [self._columns(street, family.template, *chunk) for chunk in chunks]
                policies[street].append(jnp.stack([jnp.stack(each) for each in columns]))
        every = jnp.arange(len(self.deal.size), dtype=jnp.int32)
        alone = self.deal.replace(bucket=jnp.broadcast_to(every, self.deal.bucket.shape))
        read = lambda _, table: list(table)  # noqa: E731
        return reaches_at_rounds(game, tuple(map(tuple, policies)), alone, read=read)

    def in_trunk(self, street, template, regret, average, trunk, reach, below, *chips):
        """The tables of a chunk of rounds before the last street after the iteration, and both
        players' values `[H, E]`: both learn, hand by hand."""
        columns = list(written(tuple(self._columns(street, template, regret, trunk))))
        played = played_in_round(template, columns)
        values = [None, None]
        for p in range(2):
            met = _places(played, 1 - p, reach)
            won = _at_terminals(self.deal, template, met, below, *chips, p)
            values[p], regrets = _backward(template, columns, won, p)
            if p != self.player:
                instant = self._summed(regrets, self.responding[street], trunk)
                trunk = self._with_regrets(template, trunk, instant)
                continue
            rows = self.deal.bucket[street]
            arrived = [_product(pair, p, reach) for pair in played[NODE]]
            reached = self._summed(_reached(template, columns, arrived, p), rows, average)
            average = self._averaged(average, reached)
            regret = self._with_regrets(template, regret, self._summed(regrets, rows, regret))
        return regret, average, trunk, tuple(values)

    def on_last_street(self, street, template, regret, average, reach, below, *chips):
        """The tables of a chunk of rounds on the last street after the iteration, and both players'
        values `[H, E]`: the opponent responds hand by hand; what the player does is computed for
        buckets."""
        player, rows, used = self.player, self.deal.bucket[street], jnp.int32(len(self.deal.size))
        policy = matched_columns(template, regret)
        played = played_in_round(template, policy)
        # 1. The opponent's best response.
        own = {
            kind: jnp.stack(
                [jnp.ones_like(policy[0]) if x[player] is None else x[player] for x in places], 1
            )
            for kind, places in played.items()
            if places and kind != NODE
        }
        met = {kind: meet(x, reach[player], rows, used) for kind, x in own.items()}
        won = _at_terminals(self.deal, template, met, below, *chips, 1 - player)
        answers, theirs = _best_response(template, won, player)
        # 2. What the player wins from it, by hand and summed by bucket.
        met = _places(played_in_round(template, answers), 1 - player, reach)
        won = _at_terminals(self.deal, template, met, below, *chips, player)
        mine, by_bucket = jnp.zeros_like(reach[player]), {}
        for kind, worth in won.items():
            sums, mine = sums_and_values(worth, own[kind], mine, rows, used)
            by_bucket[kind] = summed_over_deals(sums, self.axes)
        _, regrets = _backward(template, policy, by_bucket, player)
        # 3. The player's reaches.
        mass = sum_by_bucket(reach[player], rows, used, regret.shape[1])
        mass = summed_over_deals(mass, self.axes)
        arrived = [_product(pair, player, [mass, mass]) for pair in played[NODE]]
        average = self._averaged(average, _reached(template, policy, arrived, player))
        regret = self._with_regrets(template, regret, regrets)
        return regret, average, (mine, theirs) if player == 0 else (theirs, mine)

    def _columns(self, street, template, regret, trunk):
        """The policies `[H, E]` of all hands in a chunk of the trunk, by action: the player's by
        its buckets, the opponent's by its own rows."""
        abstracted, opponent = (matched_columns(template, table) for table in (regret, trunk))
        columns = []
        for actor, first, actions in zip(
            template.actor, template.first_column, template.actions, strict=True
        ):
            policy, rows = abstracted, self.deal.bucket[street]
            if actor != self.player:
                policy, rows = opponent, self.responding[street]
            columns += [policy[first + action][rows] for action in range(len(actions))]
        return columns

    def _averaged(self, average, reached):
        """Average policies with reaches times policies `[B, E]` by action."""
        if not reached:
            return average
        columns = np.array([*reached], np.int32)
        return average.at[columns].add(self.step * jnp.stack([*reached.values()]))

    def _with_regrets(self, template, table, instant):
        """A table of regrets `[C, B, E]` after the iteration, whose regrets `[B, E]` are given by
        action; other actions keep theirs."""
        parts = []
        for first, actions in zip(template.first_column, template.actions, strict=True):
            columns = range(first, first + len(actions))
            rows = table[first : columns.stop]
            if first in instant:
                uniform = uniform_like(rows)
                here = jnp.stack([instant[c] for c in columns])
                state = RegretState(regret=rows, policy=match(rows, uniform))
                rows = self.minimizer.update(state, here, uniform, self.step).regret
            parts.append(rows)
        return jnp.concatenate(parts)

    def _summed(self, values, rows, table):
        """Sums `[B, E]` by action over the hands of each row of a table, of values `[H, E]`."""
        if not values:
            return {}
        count, used = table.shape[1], jnp.int32(len(rows))
        columns = written(jnp.stack([*values.values()], axis=1)).reshape(len(rows), -1)
        sums = summed_over_deals(sum_by_bucket(columns, rows, used, count), self.axes)
        each = jnp.moveaxis(sums.reshape(count, len(values), -1), 1, 0)
        return dict(zip(values, each, strict=True))


def _best_response(template, won, player):
    """The responder's best-response policies `[H, E]` by action (0 at the player's actions), and
    its values at the beginning of the round.

    It takes the first of the best actions. `won` are its values of the folds and ends.
    """
    nodes = [None] * len(template.actor)
    policies = [jnp.zeros_like(won[END][:, 0])] * template.columns
    for node in reversed(range(len(template.actor))):
        actions = _worth_of_actions(template, node, nodes, won)
        if template.actor[node] == player:
            nodes[node] = sum(actions)
            continue
        nodes[node] = functools.reduce(jnp.maximum, actions)
        best = jnp.argmax(jnp.stack(actions), axis=0)  # stored; comparisons would be repeated
        for action in range(len(actions)):
            chosen = (best == action).astype(actions[0].dtype)
            policies[template.first_column[node] + action] = chosen
    return policies, nodes[0]


def _product(pair, player, reach):
    """A player's reach of a place, from that of the round."""
    return reach[player] if pair[player] is None else reach[player] * pair[player]


def _places(played, player, reach):
    """A player's reaches `[H, n, E]` of the n folds and ends."""
    return {
        kind: jnp.stack([_product(pair, player, reach) for pair in played[kind]], axis=1)
        for kind in (FOLDED, END)
        if played[kind]
    }


def _at_terminals(deal, template, met, below, fold_chips, end_chips, player):
    """A player's values `[H, n, E]` of the folds and ends of a round, by kind, against these
    reaches of the opponent."""

    def by_rule(rule, kind):
        return rule(deal, met[kind].reshape(len(met[kind]), -1)).reshape(met[kind].shape)

    won = {}
    if FOLDED in met:
        sign = np.where(np.array(template.loser) == player, -1, 1)
        chips = jnp.asarray(sign[:, None], fold_chips.dtype) * fold_chips
        won[FOLDED] = by_rule(folds, FOLDED) * chips[None]
    shown = np.array(template.shown)
    won[END] = by_rule(showdowns, END) * end_chips[None] if shown.any() else below[player]
    if shown.any() and not shown.all():
        won[END] = jnp.where(shown[None, :, None], won[END], below[player])
    return won


def _worth_of_actions(template, node, nodes, won):
    """The values of a decision's actions, from those of later nodes, folds and ends."""
    return [
        nodes[edge.target] if edge.kind == NODE else won[edge.kind][:, edge.target]
        for edge in template.actions[node]
    ]


def _backward(template, columns, won, player):
    """A player's values at the beginning of a round, and its regrets by own action, from values of
    folds and ends: by hand, or by bucket."""
    nodes, regrets = [None] * len(template.actor), {}
    for node in reversed(range(len(template.actor))):
        actions = _worth_of_actions(template, node, nodes, won)
        if template.actor[node] != player:
            nodes[node] = sum(actions)
            continue
        first = template.first_column[node]
        nodes[node] = sum(columns[first + a] * x for a, x in enumerate(actions))
        for a, x in enumerate(actions):
            regrets[first + a] = x - nodes[node]
    return nodes[0], regrets


def _reached(template, columns, arrived, player):
    """A player's reaches of decisions times policies, by own action."""
    return {
        first + action: arrived[node] * columns[first + action]
        for node, first in enumerate(template.first_column)
        if template.actor[node] == player
        for action in range(len(template.actions[node]))
    }
