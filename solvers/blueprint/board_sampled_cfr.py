"""Linear CFR over boards that are drawn, with tables by bucket: blueprints of two-player hold'em.

An iteration draws a whole board and updates both players with all their hands on it (public chance
sampling: Johanson, Bard, Lanctot, Gibson and Bowling 2012). Cards are real: hands block each other,
and showdowns are those of the board. Only policies are shared, by the hands of a bucket.

What a hand does on a street depends on its bucket there alone. So policies, and the values of
decisions within a round, are computed for buckets; hands, in groups with equal buckets on all
streets, are needed for reaches at the ends of rounds, and for folds and showdowns.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array

from jaxgames.arrays import written
from jaxgames.core import record
from solvers.batching import widest
from solvers.blueprint.betting_rounds import END, FOLDED, NODE
from solvers.blueprint.bucket_game import BucketGame, Tables
from solvers.blueprint.bucket_rows import meet, sum_by_bucket, sums_and_values
from solvers.blueprint.deals import Deal
from solvers.blueprint.rounds_played import (
    by_node,
    matched_columns,
    played_in_round,
    reaches_at_rounds,
    stacked,
    uniform_like,
)
from solvers.blueprint.showdowns import folds, showdowns
from solvers.blueprint.street_updates import over_chunks, over_deals, summed_over_deals
from solvers.device_batches import device_bytes
from solvers.regret import (
    DiscountedRegretMatching,
    RegretMatching,
    RegretMatchingPlus,
    RegretMinimizer,
    RegretState,
    match,
)

LINEAR = RegretMatching(power=1.0)
_MINIMIZERS = RegretMatching, RegretMatchingPlus, DiscountedRegretMatching


@record
class BlueprintState:
    """Regrets and average policies `[N, C, B, E]` by street and family: of E rounds in each of N
    chunks, the C actions of B buckets. The last chunk may end with rounds that do not exist."""

    regret: Tables
    average: Tables
    iteration: Array  # [] int32 how many there were


def init(
    game: BucketGame, *, dtype: DTypeLike = jnp.float32, max_bytes: int | None = None
) -> BlueprintState:
    """Tables before the first iteration.

    Args:
      game: whose tables these are.
      dtype: of regrets and policies.
      max_bytes: that tables may take; None: half the memory of the device, since an iteration needs
        room, too.

    Raises:
      ValueError: the tables take more.
    """
    needed = game.table_bytes * jnp.dtype(dtype).itemsize // 4
    allowed = device_bytes() // 2 if max_bytes is None else max_bytes
    if needed > allowed:
        raise ValueError(
            f"the tables of {game.num_information_states:,} information states take {needed:,}"
            f" bytes; max_bytes={allowed:,} are allowed: fewer buckets make them smaller"
        )
    tables = [[] for _ in game.rounds.streets]
    for street, _, shape in game.shapes():
        tables[street].append(jnp.zeros(shape, dtype))
    regret = tuple(map(tuple, tables))
    return BlueprintState(
        regret=regret, average=jax.tree.map(jnp.zeros_like, regret), iteration=jnp.int32(0)
    )


@functools.partial(
    jax.jit, static_argnames=("game", "minimizer", "averaging_power"), donate_argnames="state"
)
def iterate(
    state: BlueprintState,
    deal: Deal,
    *,
    game: BucketGame,
    minimizer: RegretMinimizer = LINEAR,
    averaging_power: float = 1.0,
) -> BlueprintState:
    """One iteration on one deal.

    Args:
      state: before it; its arrays are used up.
      deal: a board with all hands.
      game: of the tables. Static.
      minimizer: whose policies follow from regrets alone, by regret matching. Static.
      averaging_power: policies of iteration t count t to this power. Static.

    Returns:
      The state after it.

    Raises:
      ValueError: the minimizer's policies do not follow from regrets alone.
    """
    return _iterated(state, deal, (), game, minimizer, averaging_power)


@functools.partial(
    jax.jit,
    static_argnames=("game", "minimizer", "averaging_power", "mesh"),
    donate_argnames="state",
)
def iterate_on_many(
    state: BlueprintState,
    deals: Deal,
    *,
    game: BucketGame,
    minimizer: RegretMinimizer = LINEAR,
    averaging_power: float = 1.0,
    mesh: Mesh | None = None,
) -> BlueprintState:
    """One iteration on D deals at once, whose regrets and policies are summed.

    Each device has whole tables and its share of the deals. An accelerator takes many deals well; a
    core of a CPU is fastest with one.

    Args:
      state: before it, the same on all devices; its arrays are used up.
      deals: with a leading axis D, a multiple of the number of devices.
      game: as for `iterate`, like the others.
      minimizer: see there.
      averaging_power: see there.
      mesh: devices with one axis, `device_batches.DATA`; None: one device. Static.

    Returns:
      The state after it.

    Raises:
      ValueError: D is no multiple of the number of devices; or as `iterate`.
    """
    iterated = functools.partial(
        _iterated, game=game, minimizer=minimizer, averaging_power=averaging_power
    )
    return over_deals(iterated, state, deals, mesh=mesh)


@functools.partial(jax.jit, static_argnames="game")
def average_policy(game: BucketGame, average: Tables) -> Tables:
    """The average policies, from sums of policies; uniform where the sums are 0."""
    result = [[] for _ in game.rounds.streets]
    tables = iter([table for street in average for table in street])
    for street, family, _ in game.shapes():
        table = next(tables)
        parts = [
            match(rows, uniform_like(rows)) for rows in by_node(family.template, table, axis=1)
        ]
        result[street].append(jnp.concatenate(parts).swapaxes(0, 1))
    return tuple(map(tuple, result))


def check_minimizer(minimizer: RegretMinimizer) -> None:
    """Refuses a minimizer whose policies do not follow from regrets alone.

    Raises:
      ValueError: they do not follow from regrets alone.
    """
    if not isinstance(minimizer, _MINIMIZERS):
        allowed = ", ".join(kind.__name__ for kind in _MINIMIZERS)
        raise ValueError(
            f"minimizer={minimizer} must be one whose policies follow from regrets: {allowed}"
        )


def _iterated(state, deal, axes, game, minimizer, averaging_power):
    """The state after an iteration on all deals of some axes, of which this is one."""
    check_minimizer(minimizer)
    step = (state.iteration + 1).astype(deal.size.dtype)
    reaches = reaches_at_rounds(game, state.regret, deal, read=matched_columns)
    regret, average = [list(x) for x in state.regret], [list(x) for x in state.average]
    below = None
    for street in reversed(range(len(game.rounds.streets))):
        values = []
        for number, family in enumerate(game.rounds.streets[street]):
            update = functools.partial(
                _updated_round,
                family.template,
                deal,
                deal.bucket[street],
                minimizer=minimizer,
                step=step,
                share=step**averaging_power,
                axes=axes,
            )
            tables = regret[street][number], average[street][number]
            *tables, worth = over_chunks(family, tables, reaches[street][number], below, update)
            regret[street][number], average[street][number] = tables
            values.append(worth)
        below = values
    return BlueprintState(
        regret=tuple(map(tuple, regret)),
        average=tuple(map(tuple, average)),
        iteration=state.iteration + 1,
    )


def _updated_round(
    template,
    deal,
    bucket,
    regret,
    average,
    reach,
    below,
    fold_chips,
    end_chips,
    *,
    minimizer,
    step,
    share,
    axes,
):
    """The tables of a chunk of rounds after the iteration, and both players' values `[G, E]`."""
    # 1. The policies of buckets, and their own probabilities of folds and ends.
    count, groups = regret.shape[1], len(bucket)
    used = widest(jnp.sum(deal.size > 0, dtype=jnp.int32))
    policy = matched_columns(template, regret)
    played = played_in_round(template, policy)
    # 2. Values of folds and ends: the opponent's reach, and who wins; then times chips and the own
    # probability for groups, and summed for buckets.
    showdown = np.array(template.shown)
    loses = [np.array(template.loser)[:, None] == p for p in range(2)]
    chips = {
        FOLDED: _both([jnp.where(mine, -fold_chips, fold_chips) for mine in loses]),
        END: _both([jnp.where(showdown[:, None], end_chips, 1)] * 2),
    }
    opponents = _both(reach[::-1])
    values, at = jnp.zeros_like(opponents), {}
    for kind in (END, FOLDED):
        if not played[kind]:
            continue
        own, other = (_of_players(played[kind], policy[0], order) for order in ((0, 1), (1, 0)))
        own, other, stake = written((own, other, chips[kind][None]))
        if kind == END and not showdown.any():
            worth = _both(below)
        else:
            rule = showdowns if kind == END else folds
            met = meet(other, opponents, bucket, used).reshape(groups, -1)
            worth = rule(deal, met).reshape(groups, *own.shape[1:])
            if kind == END and not showdown.all():
                worth = jnp.where(showdown[None, :, None], worth, _both(below))
        sums, values = sums_and_values(worth, own * stake, values, bucket, used)
        sums = summed_over_deals(written(sums * stake), axes).reshape(count, own.shape[1], 2, -1)
        at[kind] = [(sums[:, n, 0], sums[:, n, 1]) for n in range(own.shape[1])]
    # 3. The reaches of buckets, times the number of hands.
    size = share * deal.size[:, None]
    mass = summed_over_deals(sum_by_bucket(size * _both(reach), bucket, used, count), axes)
    mass = jnp.split(mass, 2, axis=1)
    # 4. Decisions from the last to the first: regrets, and reaches times policies.
    at[NODE] = [None] * len(template.actor)
    regrets, averages = [None] * template.columns, [None] * template.columns
    for node in reversed(range(len(template.actor))):
        actor, first = template.actor[node], template.first_column[node]
        columns = range(first, first + len(template.actions[node]))
        actions = [at[edge.kind][edge.target] for edge in template.actions[node]]
        own = sum(policy[c] * x[actor] for c, x in zip(columns, actions, strict=True))
        own, other = written((own, sum(x[1 - actor] for x in actions)))
        at[NODE][node] = (own, other) if actor == 0 else (other, own)
        arrived = played[NODE][node][actor]
        arrived = mass[actor] if arrived is None else mass[actor] * arrived
        old = RegretState(
            regret=regret[first : columns.stop], policy=jnp.stack([policy[c] for c in columns])
        )
        instant = jnp.stack([x[actor] - own for x in actions])
        new = minimizer.update(old, instant, uniform_like(instant), step)
        for action, column in enumerate(columns):
            regrets[column] = new.regret[action]
            averages[column] = average[column] + arrived * policy[column]
    regrets, averages = (stacked(x) for x in (regrets, averages))
    return regrets, averages, tuple(written(jnp.split(values, 2, axis=1)))


def _both(values):
    """Both players' values side by side, `[..., 2 E]`."""
    return jnp.concatenate(list(values), axis=-1)


def _of_players(places, like, order):
    """Products `[B, n, 2 E]` of two players at n places, in an order; 1 where they did not act."""
    one = lambda x: jnp.ones_like(like) if x is None else x  # noqa: E731
    return jnp.stack([_both([one(pair[p]) for p in order]) for pair in places], axis=1)
