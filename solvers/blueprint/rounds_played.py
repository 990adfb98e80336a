"""Own reach probabilities inside betting rounds, by bucket and by group of hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import written
from jaxgames.holdem.betting_tree import NO_NODE
from solvers.blueprint.betting_rounds import END, FOLDED, NODE, Template
from solvers.blueprint.bucket_game import BucketGame, Tables, in_chunks
from solvers.blueprint.deals import Deal
from solvers.regret import match

# by kind of place (NODE, FOLDED, END of `betting_rounds`), then by number
Played = dict[str, list[tuple[Array | None, Array | None]]]
ReadColumns = Callable[[Template, Array], Sequence[Array]]


def reaches_at_rounds(
    game: BucketGame, tables: Tables, deal: Deal, *, read: ReadColumns
) -> list[list[tuple[Array, Array]]]:
    """Both players' reaches `[G, M]` at the beginning of each round, by street that has been dealt
    and family.

    Args:
      game: of the tables.
      tables: regrets, or policies.
      deal: the hands.
      read: makes policies `[B, E]` of the C columns of one of the tables.
    """
    mask = (deal.size > 0).astype(deal.size.dtype)[:, None]
    streets = [[(mask, mask)]]
    for street, families in enumerate(game.rounds.streets[: len(deal.bucket) - 1]):
        ends = [[], []]  # [G, K * M] of all families
        for number, family in enumerate(families):
            reach = streets[street][number]
            bucket = deal.bucket[street]
            chunks = [
                _reach_of_ends(family.template, read(family.template, table), bucket, part)
                for table, part in zip(
                    tables[street][number],
                    _both_in_chunks(reach, tables[street][number]),
                    strict=True,
                )
            ]
            for player in range(2):
                whole = jnp.concatenate([chunk[player] for chunk in chunks], axis=2)
                ends[player].append(whole[..., : family.entries].reshape(len(mask), -1))
        after = [jnp.concatenate(x, axis=1) for x in ends]
        columns = _columns_by_family(families, len(game.rounds.streets[street + 1]))
        streets.append([tuple(take_columns(x, c) for x in after) for c in columns])
    return streets


def _both_in_chunks(both, table):
    """Both players' chunks `[G, E]`."""
    return zip(*(in_chunks(x, table) for x in both), strict=True)


def _columns_by_family(families, count):
    """For each family of the next street, the columns of its rounds among all ends `[K * M]` of the
    families of this one."""
    begin, found = 0, [{} for _ in range(count)]
    for family in families:
        kind, entry = family.next_family.reshape(-1), family.next_entry.reshape(-1)
        for column, (k, e) in enumerate(zip(kind, entry, strict=True)):
            if k != NO_NODE:
                found[k][e] = begin + column
        begin += kind.size
    return [np.array([columns[e] for e in range(len(columns))], np.int32) for columns in found]


def take_columns(values: Float[Array, "G M"], columns: Int[np.ndarray, " n"]) -> Array:
    """Some columns `[G, n]` of a table; the table itself where they are all."""
    if len(columns) == values.shape[1] and (columns == np.arange(len(columns))).all():
        return values
    return jnp.take(values, columns, axis=1)


def _reach_of_ends(template, policy, bucket, reach):
    """Both players' reaches `[G, K, E]` at the ends of rounds."""
    played = played_in_round(template, policy)
    ends = [of_groups(played[END], p, bucket) for p in range(2)]
    return tuple(own * reach[p][:, None] for p, own in enumerate(ends))


def matched_columns(template: Template, regret: Float[Array, "C B E"]) -> list[Array]:
    """The policies `[B, E]` of each column by regret matching."""
    columns = []
    for rows in by_node(template, regret):
        columns += list(match(rows, uniform_like(rows)))
    return list(written(tuple(columns)))


def by_node(template: Template, table: Array, axis: int = 0) -> Iterator[Array]:
    """The actions of each decision, which become the first axis.

    Args:
      template: of the rounds.
      table: with the C actions of all decisions.
      axis: where these are.
    """
    for first, actions in zip(template.first_column, template.actions, strict=True):
        rows = jax.lax.slice_in_dim(table, first, first + len(actions), axis=axis)
        yield jnp.moveaxis(rows, axis, 0)


def uniform_like(rows: Float[Array, "A ..."]) -> Float[Array, " A"]:
    """The uniform policy of a decision with these actions."""
    return jnp.full(len(rows), 1 / len(rows), rows.dtype)


def played_in_round(template: Template, policy: Sequence[Array]) -> Played:
    """Both players' products of own probabilities `[B, E]` at nodes, folds and ends, by kind and
    number; None where a player has not acted."""
    at = {kind: {} for kind in (NODE, FOLDED, END)}
    at[NODE][0] = (None, None)
    for node, (actor, actions) in enumerate(zip(template.actor, template.actions, strict=True)):
        for action, edge in enumerate(actions):
            own = policy[template.first_column[node] + action]
            before = at[NODE][node]
            product = own if before[actor] is None else before[actor] * own
            at[edge.kind][edge.target] = tuple(
                product if p == actor else before[p] for p in range(2)
            )
    return {kind: [found[i] for i in range(len(found))] for kind, found in at.items()}


def of_groups(
    played: Sequence[tuple[Array | None, Array | None]], player: int, bucket: Int[Array, " G"]
) -> Float[Array, "G n E"]:
    """A player's products `[G, n, E]` at n places, from those of the groups' buckets."""
    some = next(x for pair in played for x in pair if x is not None)
    rows = [jnp.ones_like(some) if pair[player] is None else pair[player] for pair in played]
    return written(stacked(rows, axis=1)[bucket])


def stacked(arrays: Sequence[Array], axis: int = 0) -> Array:
    """The stacked arrays, each of which is computed first."""
    return written(jnp.stack(written(list(arrays)), axis=axis))
