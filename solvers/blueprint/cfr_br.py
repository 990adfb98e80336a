"""CFR-BR: an abstracted player learns against an opponent who responds as is best in the real game
(Johanson, Bard, Burch and Bowling 2012, "Finding optimal abstract strategies in extensive-form
games").

An iteration draws a board. On the last street the opponent knows its hand and answers the
abstracted player's current policy with a best response. On the streets before, which are the
*trunk* of the paper's hybrid opponent, it plays by regret matching: before the flop without
abstraction, later by the buckets of the game. The average policy of the abstracted player tends to
the one of those in its buckets that loses least to such an opponent: in games of two streets, the
least exploitable one. Each player is the abstracted one in a half of its own.

In games of more streets the paper's opponent responds from the flop on, and an iteration goes
through all turns and rivers of a flop. Here an iteration takes one board, as in linear CFR; but the
opponent's trunk is abstracted, so that less is found than in the paper.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from jaxgames.arrays import written
from jaxgames.core import record
from jaxgames.holdem.ranges import CLASSES, class_numbers
from solvers.blueprint.betting_rounds import END, FOLDED, NODE, Template
from solvers.blueprint.board_sampled_cfr import LINEAR, BlueprintState, init
from solvers.blueprint.bucket_game import BucketGame, Tables
from solvers.blueprint.bucket_rows import meet, sum_by_bucket, sums_and_values
from solvers.blueprint.deals import Deal, hand_numbers
from solvers.blueprint.rounds_played import matched_columns, played_in_round, reaches_at_rounds
from solvers.blueprint.showdowns import folds, showdowns
from solvers.blueprint.street_updates import over_chunks, over_deals, summed_over_deals
from solvers.regret import RegretMinimizer, RegretState, match


@record
class CfrBrState:
    """The tables of both abstracted players, and their opponents' regrets in the trunk.

    In each of them the columns of a player are those of when it is abstracted, or responds.
    """

    blueprint: BlueprintState
    trunk: Tables  # [N, C, B, E] of all streets but the last; before the flop B is 169


def init_cfr_br(
    game: BucketGame, *, dtype: DTypeLike = jnp.float32, max_bytes: int | None = None
) -> CfrBrState:
    """Tables before the first iteration.

    Args:
      game: whose tables these are.
      dtype: of regrets and policies.
      max_bytes: that the tables of abstracted players may take; None: half the device's memory.

    Raises:
      ValueError: the tables take more.
    """
    trunk = [[] for _ in game.rounds.streets[:-1]]
    for street, shape in _trunk_shapes(game):
        trunk[street].append(jnp.zeros(shape, dtype))
    return CfrBrState(
        blueprint=init(game, dtype=dtype, max_bytes=max_bytes), trunk=tuple(map(tuple, trunk))
    )


def trunk_bytes(game: BucketGame) -> int:
    """What the opponents' regrets take, in float32."""
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
      ValueError: D is no multiple of the number of devices.
    """
    iterated = functools.partial(_iterated, game=game, minimizer=minimizer)
    return over_deals(iterated, state, deals, mesh=mesh)


def _iterated(state, deal, axes, game, minimizer):
    """The state after an iteration on all deals of some axes, of which this is one."""
    old = state.blueprint
    regret, average, trunk = ([*map(list, x)] for x in (old.regret, old.average, state.trunk))
    responding = [jnp.asarray(class_numbers(), jnp.int32)[hand_numbers(deal)], *deal.bucket[1:]]
    everyone = jnp.arange(len(deal.size), dtype=jnp.int32)
    each_hand = deal.replace(bucket=jnp.broadcast_to(everyone, deal.bucket.shape))
    last = len(game.rounds.streets) - 1
    for player in range(2):
        # 1. The policies of all hands in the trunk, and with what reach they come to each round.
        policies = tuple(
            tuple(
                _policies(
                    family.template,
                    regret[street][k],
                    trunk[street][k],
                    deal.bucket[street],
                    rows,
                    player=player,
                )
                for k, family in enumerate(game.rounds.streets[street])
            )
            for street, rows in enumerate(responding[:last])
        )
        read = lambda _, table: list(table)  # noqa: E731
        reaches = reaches_at_rounds(game, policies, each_hand, read=read)
        # 2. From the last street to the first: the opponent responds there, and learns before.
        below = None
        for street in reversed(range(last + 1)):
            updated = _Updated(
                deal=deal,
                player=player,
                rows=(deal.bucket[street], responding[street]),
                minimizer=minimizer,
                step=(old.iteration + 1).astype(deal.size.dtype),
                axes=axes,
            )
            values = []
            for k, family in enumerate(game.rounds.streets[street]):
                tables = [regret[street][k], average[street][k]]
                update = updated.on_last_street
                if street < last:
                    tables, update = [*tables, trunk[street][k]], updated.in_trunk
                update = functools.partial(update, family.template)
                *tables, worth = over_chunks(family, tables, reaches[street][k], below, update)
                regret[street][k], average[street][k], *rest = tables
                if rest:
                    (trunk[street][k],) = rest
                values.append(worth)
            below = values
    tables = lambda x: tuple(map(tuple, x))  # noqa: E731
    blueprint = BlueprintState(
        regret=tables(regret), average=tables(average), iteration=old.iteration + 1
    )
    return CfrBrState(blueprint=blueprint, trunk=tables(trunk))


@dataclasses.dataclass(frozen=True)
class _Updated:
    """Tables of a chunk of rounds after the iteration, and both players' values `[H, E]`."""

    deal: Deal
    player: int  # the abstracted one
    rows: tuple[Array, Array]  # of tables, by hand [H]: the abstracted player's, the opponent's
    minimizer: RegretMinimizer
    step: Array
    axes: tuple[str, ...]

    def in_trunk(self, template, regret, average, trunk, reach, below, fold_chips, end_chips):
        """Of the streets before the last, where both learn: hand by hand."""
        columns = _columns(template, regret, trunk, *self.rows, player=self.player)
        columns = list(written(tuple(columns)))
        played = played_in_round(template, columns)
        values = [None, None]
        for p, rows in ((self.player, self.rows[0]), (1 - self.player, self.rows[1])):
            met = _places(played, 1 - p, reach)
            won = _at_terminals(self.deal, template, met, below, fold_chips, end_chips, p)
            values[p], regrets = _backward(template, columns, won, p)
            if p == self.player:
                arrived = [_product(pair, p, reach) for pair in played[NODE]]
                gained = self._summed(_reached(template, columns, arrived, p), rows, average)
                average = self._averaged(average, gained)
                regret = self._with_regrets(template, regret, self._summed(regrets, rows, regret))
            else:
                instant = self._summed(regrets, rows, trunk)
                trunk = self._with_regrets(template, trunk, instant)
        return regret, average, trunk, tuple(values)

    def on_last_street(self, template, regret, average, reach, below, fold_chips, end_chips):
        """Of the last street, where the opponent responds hand by hand. What the player does is
        computed for buckets."""
        player, (rows, _), used = self.player, self.rows, jnp.int32(len(self.deal.size))
        chips, count = (fold_chips, end_chips), regret.shape[1]
        policy = matched_columns(template, regret)
        played = played_in_round(template, policy)
        # 1. The opponent's best response.
        mine = {
            kind: jnp.stack([_or_one(pair[player], policy[0]) for pair in played[kind]], axis=1)
            for kind in (FOLDED, END)
            if played[kind]
        }
        met = {kind: meet(x, reach[player], rows, used) for kind, x in mine.items()}
        won = _at_terminals(self.deal, template, met, below, *chips, 1 - player)
        answers, theirs = _best_response(template, won, player)
        # 2. What the player wins from it, by hand and summed by bucket.
        met = _places(played_in_round(template, answers), 1 - player, reach)
        won = _at_terminals(self.deal, template, met, below, *chips, player)
        own, by_bucket = jnp.zeros_like(reach[player]), {}
        for kind, worth in won.items():
            by_bucket[kind], own = sums_and_values(worth, mine[kind], own, rows, used)
            by_bucket[kind] = summed_over_deals(by_bucket[kind], self.axes)
        _, regrets = _backward(template, policy, by_bucket, player)
        # 3. The player's reaches.
        mass = sum_by_bucket(reach[player], rows, used, count)
        mass = summed_over_deals(mass, self.axes)
        arrived = [_product(pair, player, [mass, mass]) for pair in played[NODE]]
        average = self._averaged(average, _reached(template, policy, arrived, player))
        regret = self._with_regrets(template, regret, regrets)
        return regret, average, (own, theirs) if player == 0 else (theirs, own)

    def _averaged(self, average, reached):
        """Average policies with reaches times policies `[B, E]` by action."""
        columns = np.array([*reached], np.int32)
        return average.at[columns].add(self.step * jnp.stack([*reached.values()]))

    def _with_regrets(self, template, table, instant):
        """A table of regrets `[C, B, E]` after the iteration, with those of it `[B, E]` by action;
        actions that are not there stay as they were."""
        parts = []
        for first, actions in zip(template.first_column, template.actions, strict=True):
            columns = range(first, first + len(actions))
            before = table[first : columns.stop]
            if first in instant:
                uniform = jnp.full(len(actions), 1 / len(actions), table.dtype)
                here = jnp.stack([instant[c] for c in columns])
                state = RegretState(regret=before, policy=match(before, uniform))
                before = self.minimizer.update(state, here, uniform, self.step).regret
            parts.append(before)
        return jnp.concatenate(parts)

    def _summed(self, values, rows, table):
        """Sums `[B, E]` by action over the hands of each row of a table, of values `[H, E]`."""
        columns = written(jnp.stack([*values.values()], axis=1))
        sums = sum_by_bucket(
            columns.reshape(len(rows), -1), rows, jnp.int32(len(rows)), table.shape[1]
        )
        sums = summed_over_deals(sums, self.axes).reshape(table.shape[1], len(values), -1)
        return {c: sums[:, n] for n, c in enumerate(values)}


def _best_response(template, won, player):
    """The policies `[H, E]` by action of who responds to a player as is best, in which the player's
    actions are 0; and the responder's values at the beginning of the round.

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
        best = jnp.argmax(jnp.stack(actions), axis=0)  # written, unlike what is compared in place
        for action in range(len(actions)):
            chosen = (best == action).astype(actions[0].dtype)
            policies[template.first_column[node] + action] = chosen
    return policies, nodes[0]


def _columns(
    template: Template,
    regret: Float[Array, "C B E"],
    trunk: Float[Array, "C T E"],
    mine: Int[Array, " H"],
    theirs: Int[Array, " H"],
    *,
    player: int,
) -> list[Float[Array, "H E"]]:
    """The policies of all hands in the trunk, by action: a player's by its buckets, the opponent's
    by its own rows."""
    abstracted, opponent = (matched_columns(template, table) for table in (regret, trunk))
    actors = [
        p for p, actions in zip(template.actor, template.actions, strict=True) for _ in actions
    ]
    return [
        abstracted[c][mine] if actor == player else opponent[c][theirs]
        for c, actor in enumerate(actors)
    ]


def _policies(template, regret, trunk, mine, theirs, *, player):
    """The same for all N chunks of a family, `[N, C, H, E]`."""
    each = [
        jnp.stack(_columns(template, *tables, mine, theirs, player=player))
        for tables in zip(regret, trunk, strict=True)
    ]
    return jnp.stack(each)


def _or_one(values, like):
    """1 where a player has not acted."""
    return jnp.ones_like(like) if values is None else values


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
    """A player's values `[H, n, E]` of the folds and ends of a round, by kind, where it meets such
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
    """What the actions of a decision are worth, from the nodes after it, folds and ends."""
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
