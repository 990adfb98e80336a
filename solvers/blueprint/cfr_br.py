"""CFR-BR: an abstracted player learns against an opponent who responds as is best in the real game
(Johanson, Bard, Burch and Bowling 2012, "Finding optimal abstract strategies in extensive-form
games").

For games of two streets. An iteration draws a flop. There the opponent knows its hand and answers
the abstracted player's current policy with a best response; before the flop, which all flops
share, it plays by regret matching without abstraction (the paper's hybrid opponent). The average
policy of the abstracted player tends to the least exploitable one that its buckets can express.
Each player is the abstracted one in a half of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.core import record
from jaxgames.holdem.ranges import CLASSES, class_numbers
from solvers.blueprint.betting_rounds import END, FOLDED, NODE, Family, Template
from solvers.blueprint.board_sampled_cfr import LINEAR, BlueprintState, init
from solvers.blueprint.bucket_game import BucketGame
from solvers.blueprint.deals import Deal, hand_numbers
from solvers.blueprint.rounds_played import matched_columns, played_in_round
from solvers.blueprint.showdowns import folds, showdowns
from solvers.regret import RegretMinimizer, RegretState, match


@record
class CfrBrState:
    """The tables of both abstracted players, and their opponents' regrets before the flop."""

    blueprint: BlueprintState
    trunk: Array  # [C, 169, 1] by class of hands: a player's columns are those of who responds


def init_cfr_br(game: BucketGame) -> CfrBrState:
    """Tables before the first iteration.

    Raises:
      ValueError: the game has not two streets of one family each.
    """
    if [len(families) for families in game.rounds.streets] != [1, 1]:
        raise ValueError(
            f"CFR-BR is for two streets with one shape of rounds each, not for"
            f" {[len(families) for families in game.rounds.streets]}"
        )
    template = game.rounds.streets[0][0].template
    return CfrBrState(blueprint=init(game), trunk=jnp.zeros((template.columns, len(CLASSES), 1)))


@functools.partial(jax.jit, static_argnames=("game", "minimizer"), donate_argnames="state")
def iterate(
    state: CfrBrState,
    deal: Deal,
    *,
    game: BucketGame,
    minimizer: RegretMinimizer = LINEAR,
) -> CfrBrState:
    """One iteration of both abstracted players on one flop.

    Args:
      state: before it; its arrays are used up.
      deal: a flop on which each hand is a group of its own.
      game: of the tables. Static.
      minimizer: whose policies follow from regrets alone, by regret matching. Static.

    Returns:
      The state after it.
    """
    old = state.blueprint
    step = (old.iteration + 1).astype(deal.size.dtype)
    before, flop = (families[0] for families in game.rounds.streets)
    regret, average = ([street[0][0] for street in x] for x in (old.regret, old.average))
    by_bucket = [
        matched_columns(f.template, x) for f, x in zip((before, flop), regret, strict=True)
    ]
    responding = matched_columns(before.template, state.trunk)
    classes = jnp.asarray(class_numbers(), jnp.int32)[hand_numbers(deal)]
    add = functools.partial(_with_regrets, minimizer=minimizer, step=step)
    trunk, after = state.trunk, ([*regret], [*average])
    for player in range(2):
        opponent = 1 - player
        # 1. Before the flop: the player by its buckets, the opponent by its regrets.
        columns = [
            by_bucket[0][c][deal.bucket[0]] if actor == player else responding[c][classes]
            for c, actor in enumerate(actors(before.template))
        ]
        ones = (jnp.ones((len(classes), 1), deal.size.dtype),) * 2
        played = played_in_round(before.template, columns)
        reach = tuple(
            jnp.concatenate([_product(pair, p, ones) for pair in played[END]], axis=1)
            for p in range(2)
        )
        # 2. On the flop: the opponent's best response, and what the player makes of it.
        mine = [x[deal.bucket[1]] for x in by_bucket[1]]
        columns_there, won = best_response_columns(deal, flop, mine, reach, player=player)
        there = played_in_round(flop.template, columns_there)
        at = _terminals(deal, flop, there, reach, player)
        at[END] = _showdowns(deal, flop, there, reach, player)
        worth, regrets = _backward(flop.template, columns_there, at, player)
        averages = _averages(flop.template, columns_there, there, reach, player)
        after[0][1] = add(flop.template, after[0][1], regrets, deal.bucket[1], player)
        after[1][1] += step * _summed(averages, deal.bucket[1], len(after[1][1][0]))
        # 3. Before the flop again, for both.
        for p, below in ((player, worth), (opponent, won)):
            at = _terminals(deal, before, played, ones, p)
            at[END] = [below[:, k : k + 1] for k in range(len(played[END]))]
            _, regrets = _backward(before.template, columns, at, p)
            if p == player:
                averages = _averages(before.template, columns, played, ones, p)
                after[0][0] = add(before.template, after[0][0], regrets, deal.bucket[0], p)
                after[1][0] += step * _summed(averages, deal.bucket[0], len(after[1][0][0]))
            else:
                trunk = add(before.template, trunk, regrets, classes, p)
    blueprint = BlueprintState(
        regret=tuple((x[None],) for x in after[0]),
        average=tuple((x[None],) for x in after[1]),
        iteration=old.iteration + 1,
    )
    return CfrBrState(blueprint=blueprint, trunk=trunk)


def best_response_columns(
    deal: Deal,
    family: Family,
    columns: Sequence[Float[Array, "H E"]],
    reach: tuple[Float[Array, "H E"], Float[Array, "H E"]],
    *,
    player: int,
) -> tuple[list[Float[Array, "H E"]], Float[Array, "H E"]]:
    """The policies of both in the last round: a player's, and the best response to it.

    Args:
      deal: a last board on which each hand is a group of its own.
      family: of the last street.
      columns: policies by action, of which the player's count.
      reach: of both at the beginning of the round, of which the player's counts.
      player: who does not respond.

    Returns:
      The policies, in which the opponent takes the first of its best actions, and the opponent's
      values at the beginning of the round.
    """
    template, opponent = family.template, 1 - player
    played = played_in_round(template, columns)
    at = _terminals(deal, family, played, reach, opponent)
    at[END] = _showdowns(deal, family, played, reach, opponent)
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


def _product(pair, player, reach):
    """A player's reach of a place, from that of the round."""
    return reach[player] if pair[player] is None else reach[player] * pair[player]


def _met(deal, rule, places, reach, player):
    """What a rule makes of the opponent's reaches of some places, `[n]` arrays `[H, E]`."""
    met = jnp.stack([_product(pair, 1 - player, reach) for pair in places])
    flat = jnp.moveaxis(met, 0, 1).reshape(met.shape[1], -1)
    return jnp.moveaxis(rule(deal, flat).reshape(met.shape[1], len(met), -1), 1, 0)


def _terminals(deal, family, played, reach, player):
    """A player's values of the folds of a round, by kind."""
    if not played[FOLDED]:
        return {}
    sign = np.where(np.array(family.template.loser) == player, -1, 1)
    chips = jnp.asarray(sign[:, None] * family.fold_chips, reach[0].dtype)
    return {FOLDED: _met(deal, folds, played[FOLDED], reach, player) * chips[:, None]}


def _showdowns(deal, family, played, reach, player):
    """A player's values of the showdowns of a round."""
    chips = jnp.asarray(family.end_chips, reach[0].dtype)
    return _met(deal, showdowns, played[END], reach, player) * chips[:, None]


def _backward(template, columns, at, player):
    """A player's values at the beginning of a round, and its regrets by action, 0 for actions of
    the other."""
    at = at | {NODE: [None] * len(template.actor)}
    regrets = [jnp.zeros_like(columns[0])] * template.columns
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


def _averages(template, columns, played, reach, player):
    """A player's reaches times policies, by action; 0 for actions of the other."""
    found = []
    for node, (actor, actions) in enumerate(zip(template.actor, template.actions, strict=True)):
        arrived = _product(played[NODE][node], player, reach)
        for action in range(len(actions)):
            own = arrived * columns[template.first_column[node] + action]
            found.append(own if actor == player else jnp.zeros_like(own))
    return found


def _summed(columns, rows, count):
    """Sums of `[C]` arrays `[H, E]` over the hands of each row, `[C, count, E]`."""
    values = jnp.stack(columns, axis=1)
    sums = jnp.zeros((count, *values.shape[1:]), values.dtype).at[rows].add(values)
    return jnp.moveaxis(sums, 0, 1)


def _with_regrets(template, table, regrets, rows, player, *, minimizer, step):
    """A table of regrets `[C, B, E]` after the iteration, a player's actions."""
    instant = _summed(regrets, rows, table.shape[1])
    parts = []
    for actor, first, actions in zip(
        template.actor, template.first_column, template.actions, strict=True
    ):
        columns = slice(first, first + len(actions))
        if actor != player:
            parts.append(table[columns])
            continue
        uniform = jnp.full(len(actions), 1 / len(actions), table.dtype)
        old = RegretState(regret=table[columns], policy=match(table[columns], uniform))
        parts.append(minimizer.update(old, instant[columns], uniform, step).regret)
    return jnp.concatenate(parts)
