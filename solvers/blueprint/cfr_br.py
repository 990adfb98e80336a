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
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, Num

from jaxgames.arrays import written
from jaxgames.core import record
from jaxgames.holdem.ranges import CLASSES, class_numbers
from solvers.blueprint.betting_rounds import END, FOLDED, NODE, Template
from solvers.blueprint.board_sampled_cfr import LINEAR, BlueprintState, init
from solvers.blueprint.bucket_game import BucketGame, Tables
from solvers.blueprint.bucket_rows import sum_by_bucket
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
        """Of the streets before the last, where both learn."""
        columns = _columns(template, regret, trunk, *self.rows, player=self.player)
        columns = list(written(tuple(columns)))
        played = played_in_round(template, columns)
        values = [None, None]
        for p, rows in ((self.player, self.rows[0]), (1 - self.player, self.rows[1])):
            at = _terminals(self.deal, template, played, reach, below, fold_chips, end_chips, p)
            values[p], regrets = _backward(template, columns, at, p)
            if p == self.player:
                average = self._averaged(template, average, columns, played, reach)
                regret = self._with_regrets(template, regret, regrets, rows, p)
            else:
                trunk = self._with_regrets(template, trunk, regrets, rows, p)
        return regret, average, trunk, tuple(values)

    def on_last_street(self, template, regret, average, reach, below, fold_chips, end_chips):
        """Of the last street, where the opponent responds."""
        player, rows = self.player, self.rows[0]
        chips = fold_chips, end_chips
        mine = [x[rows] for x in matched_columns(template, regret)]
        mine = list(written(tuple(mine)))
        columns, won = best_response_columns(
            self.deal, template, *chips, mine, reach, player=player
        )
        columns = list(written(tuple(columns)))
        played = played_in_round(template, columns)
        at = _terminals(self.deal, template, played, reach, below, *chips, player)
        worth, regrets = _backward(template, columns, at, player)
        average = self._averaged(template, average, columns, played, reach)
        regret = self._with_regrets(template, regret, regrets, rows, player)
        return regret, average, (worth, won) if player == 0 else (won, worth)

    def _averaged(self, template, average, columns, played, reach):
        """Average policies with the abstracted player's reaches times policies."""
        found = {}
        for node, first in enumerate(template.first_column):
            if template.actor[node] == self.player:
                arrived = self.step * _product(played[NODE][node], self.player, reach)
                for c in range(first, first + len(template.actions[node])):
                    found[c] = arrived * columns[c]
        sums = self._summed([*found.values()], self.rows[0], average.shape[1])
        return average.at[np.array([*found], np.int32)].add(sums)

    def _with_regrets(self, template, table, regrets, rows, player):
        """A table of regrets `[C, B, E]` after the iteration, of a player's actions."""
        own = [c for c, actor in enumerate(actors(template)) if actor == player]
        instant = self._summed([regrets[c] for c in own], rows, table.shape[1])
        instant, parts = dict(zip(own, instant, strict=True)), []
        for actor, first, actions in zip(
            template.actor, template.first_column, template.actions, strict=True
        ):
            columns = range(first, first + len(actions))
            before = table[first : columns.stop]
            if actor == player:
                uniform = jnp.full(len(actions), 1 / len(actions), table.dtype)
                here = jnp.stack([instant[c] for c in columns])
                state = RegretState(regret=before, policy=match(before, uniform))
                before = self.minimizer.update(state, here, uniform, self.step).regret
            parts.append(before)
        return jnp.concatenate(parts)

    def _summed(self, columns, rows, count):
        """Sums of `[n]` arrays `[H, E]` over the hands of each row, `[n, count, E]`."""
        values = written(jnp.stack(columns, axis=1))
        used = jnp.int32(len(rows))
        sums = sum_by_bucket(values.reshape(len(rows), -1), rows, used, count)
        sums = summed_over_deals(sums, self.axes)
        return jnp.moveaxis(sums.reshape(count, len(columns), -1), 0, 1)


def best_response_columns(
    deal: Deal,
    template: Template,
    fold_chips: Num[Array, "F E"],
    end_chips: Num[Array, "K E"],
    columns: Sequence[Float[Array, "H E"]],
    reach: tuple[Float[Array, "H E"], Float[Array, "H E"]],
    *,
    player: int,
) -> tuple[list[Float[Array, "H E"]], Float[Array, "H E"]]:
    """The policies of both in the last round: a player's, and the best response to it.

    Args:
      deal: a last board on which each hand is a group of its own.
      template: of the rounds.
      fold_chips: at each fold.
      end_chips: at each showdown.
      columns: policies by action, of which the player's count.
      reach: of both at the beginning of the round, of which the player's counts.
      player: who does not respond.

    Returns:
      The policies, in which the opponent takes the first of its best actions, and the opponent's
      values at the beginning of the round.
    """
    opponent = 1 - player
    # the opponent's own reach is not asked for, so that its columns do not matter here
    played = played_in_round(template, columns)
    at = _terminals(deal, template, played, reach, None, fold_chips, end_chips, opponent)
    at[NODE], policies = [None] * len(template.actor), list(columns)
    for node in reversed(range(len(template.actor))):
        actions = [at[edge.kind][edge.target] for edge in template.actions[node]]
        if template.actor[node] == player:
            at[NODE][node] = sum(actions)
            continue
        at[NODE][node] = functools.reduce(jnp.maximum, actions)
        best = jnp.argmax(jnp.stack(actions), axis=0)
        for action in range(len(actions)):
            chosen = (best == action).astype(actions[0].dtype)
            policies[template.first_column[node] + action] = chosen
    return policies, at[NODE][0]


def actors(template: Template) -> list[int]:
    """Who takes each of the C actions."""
    return [p for p, actions in zip(template.actor, template.actions, strict=True) for _ in actions]


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
    return [
        abstracted[c][mine] if actor == player else opponent[c][theirs]
        for c, actor in enumerate(actors(template))
    ]


def _policies(template, regret, trunk, mine, theirs, *, player):
    """The same for all N chunks of a family, `[N, C, H, E]`."""
    each = [
        jnp.stack(_columns(template, *tables, mine, theirs, player=player))
        for tables in zip(regret, trunk, strict=True)
    ]
    return jnp.stack(each)


def _product(pair, player, reach):
    """A player's reach of a place, from that of the round."""
    return reach[player] if pair[player] is None else reach[player] * pair[player]


def _terminals(deal, template, played, reach, below, fold_chips, end_chips, player):
    """A player's values `[H, E]` of the folds and ends of a round, by kind and number."""

    def met(rule, kind):
        """What a rule makes of the opponent's reaches, `[H, n, E]`."""
        places = jnp.stack([_product(x, 1 - player, reach) for x in played[kind]], axis=1)
        return rule(deal, places.reshape(len(places), -1)).reshape(places.shape)

    at = {FOLDED: []}
    if played[FOLDED]:
        sign = np.where(np.array(template.loser) == player, -1, 1)
        chips = jnp.asarray(sign[:, None], reach[0].dtype) * fold_chips
        worth = met(folds, FOLDED) * chips[None]
        at[FOLDED] = [worth[:, n] for n in range(worth.shape[1])]
    shown = np.array(template.shown)
    worth = met(showdowns, END) * end_chips[None] if shown.any() else below[player]
    if shown.any() and not shown.all():
        worth = jnp.where(shown[None, :, None], worth, below[player])
    at[END] = [worth[:, n] for n in range(len(shown))]
    return at


def _backward(template, columns, at, player):
    """A player's values at the beginning of a round, and its regrets by action, of its own."""
    at = at | {NODE: [None] * len(template.actor)}
    regrets = {}
    for node in reversed(range(len(template.actor))):
        actions = [at[edge.kind][edge.target] for edge in template.actions[node]]
        if template.actor[node] != player:
            at[NODE][node] = sum(actions)
            continue
        first = template.first_column[node]
        own = sum(columns[first + a] * x for a, x in enumerate(actions))
        for a, x in enumerate(actions):
            regrets[first + a] = x - own
        at[NODE][node] = own
    return at[NODE][0], regrets
