"""Linear CFR on one board, decision by decision and hand by hand: what the blueprint engine's
iteration must equal. Written from the definition, in float64, without rounds, groups or chunks."""

import numpy as np

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN


def pairs_of_hands(cards, strength):
    """Which hands share no card `[H, H]`, and 1, 0 or -1 where the first wins, ties or loses; in
    bytes."""
    shared = (cards[:, None, :, None] == cards[None, :, None, :]).any(axis=(2, 3))
    sign = np.sign(strength[:, None].astype(int) - strength[None].astype(int))
    return (~shared).astype(np.int8), np.where(shared, 0, sign).astype(np.int8)


def new_tables(tree, num_buckets):
    """A table of zeros `[B, A]` for each decision."""
    return {
        node: np.zeros((num_buckets[tree.street[node]], len(tree.actions[node])))
        for node in np.flatnonzero(tree.actor >= 0)
    }


def matched(regret):
    """Regret matching by row."""
    positive = np.maximum(regret, 0)
    mass = positive.sum(axis=1, keepdims=True)
    even = np.full_like(regret, 1 / regret.shape[1])
    return np.where(mass > 0, positive / np.where(mass > 0, mass, 1), even)


def iterate(tree, regret, average, bucket, cards, strength, weight):
    """Adds an iteration of this weight to the tables; `bucket` is `[S, H]`."""
    meets, beats = (x.astype(float) for x in pairs_of_hands(cards, strength))
    old = {node: matched(table) for node, table in regret.items()}

    def values(node, reach):
        actor = tree.actor[node]
        if actor == CHANCE:
            return values(tree.child[node, 0], reach)
        if actor in (FOLD, SHOWDOWN):
            chips = tree.paid[node].min() + tree.pot / 2
            if actor == SHOWDOWN:
                return [chips * (beats @ reach[1 - p]) for p in range(2)]
            sign = 1 if tree.winner[node] == 0 else -1
            return [chips * s * (meets @ reach[1 - p]) for p, s in enumerate((sign, -sign))]
        rows = bucket[tree.street[node]]
        policy = old[node][rows]
        below = []
        for action in range(policy.shape[1]):
            after = list(reach)
            after[actor] = reach[actor] * policy[:, action]
            below.append(values(tree.child[node, action], after))
        own = sum(policy[:, a] * x[actor] for a, x in enumerate(below))
        for action, x in enumerate(below):
            np.add.at(regret[node][:, action], rows, weight * (x[actor] - own))
            np.add.at(average[node][:, action], rows, weight * reach[actor] * policy[:, action])
        result = [None, None]
        result[actor], result[1 - actor] = own, sum(x[1 - actor] for x in below)
        return result

    return values(0, [np.ones(len(cards))] * 2)


def iterate_cfr_br(
    tree,
    regret,
    average,
    trunk,
    bucket,
    responding,
    cards,
    strength,
    weight,
    regret_weight,
):
    """Adds an iteration of CFR-BR to the tables, and to the regrets of responding players before
    the last street, whose rows are `responding` `[S, H]`. Averages and regrets have own weights."""
    last = len(bucket) - 1
    meets, beats = (x.astype(float) for x in pairs_of_hands(cards, strength))
    old, answers = ({n: matched(x) for n, x in tables.items()} for tables in (regret, trunk))

    def at_end(node, reach, player):
        chips = tree.paid[node].min() + tree.pot / 2
        if tree.actor[node] == SHOWDOWN:
            return chips * (beats @ reach)
        return (chips if tree.winner[node] == player else -chips) * (meets @ reach)

    def respond(node, reach, policy, player):
        """The values of a player whose policy on the last street becomes the best response to a
        reach."""
        actor = tree.actor[node]
        if actor == CHANCE:
            return respond(tree.child[node, 0], reach, policy, player)
        if actor in (FOLD, SHOWDOWN):
            return at_end(node, reach, player)
        below = []
        for action in range(len(tree.actions[node])):
            after = reach if actor == player else reach * policy[node][:, action]
            below.append(respond(tree.child[node, action], after, policy, player))
        if actor != player:
            return sum(below)
        if tree.street[node] == last:
            policy[node] = np.eye(len(below))[np.argmax(below, axis=0)]
        return sum(policy[node][:, a] * x for a, x in enumerate(below))

    def update(node, reach, policy, abstracted):
        """The values of both; adds to the tables."""
        actor = tree.actor[node]
        if actor == CHANCE:
            return update(tree.child[node, 0], reach, policy, abstracted)
        if actor in (FOLD, SHOWDOWN):
            return [at_end(node, reach[1 - p], p) for p in range(2)]
        below = []
        for action in range(len(tree.actions[node])):
            after = list(reach)
            after[actor] = reach[actor] * policy[node][:, action]
            below.append(update(tree.child[node, action], after, policy, abstracted))
        own = sum(policy[node][:, a] * x[actor] for a, x in enumerate(below))
        rows = (bucket if actor == abstracted else responding)[tree.street[node]]
        for action, x in enumerate(below):
            gained = regret_weight * (x[actor] - own)
            if actor == abstracted:
                np.add.at(regret[node][:, action], rows, gained)
                arrived = weight * reach[actor] * policy[node][:, action]
                np.add.at(average[node][:, action], rows, arrived)
            elif tree.street[node] < last:
                np.add.at(trunk[node][:, action], rows, gained)
        result = [None, None]
        result[actor], result[1 - actor] = own, sum(x[1 - actor] for x in below)
        return result

    for abstracted in range(2):
        policy = {n: x[responding[tree.street[n]]] for n, x in answers.items()}
        for node, table in old.items():
            if tree.actor[node] == abstracted:
                policy[node] = table[bucket[tree.street[node]]]
        ones = np.ones(len(cards))
        respond(0, ones, policy, 1 - abstracted)
        update(0, [ones, ones], policy, abstracted)


def value(tree, players, cards, strength):
    """What player 0 wins of player 1, summed over all pairs of hands on a board; of each player, a
    table for each decision and the buckets `[S, H]`."""
    meets, beats = (x.astype(float) for x in pairs_of_hands(cards, strength))

    def values(node, reach):
        actor = tree.actor[node]
        if actor == CHANCE:
            return values(tree.child[node, 0], reach)
        if actor in (FOLD, SHOWDOWN):
            chips = tree.paid[node].min() + tree.pot / 2
            if actor == SHOWDOWN:
                return chips * reach[0] @ beats @ reach[1]
            return (chips if tree.winner[node] == 0 else -chips) * reach[0] @ meets @ reach[1]
        policy, bucket = players[actor]
        rows, total = policy[node][bucket[tree.street[node]]], 0.0
        for action in range(rows.shape[1]):
            after = list(reach)
            after[actor] = reach[actor] * rows[:, action]
            total += values(tree.child[node, action], after)
        return total

    return values(0, [np.ones(len(cards))] * 2)


def reach_of(tree, node, policy, bucket, player):
    """A player's reach `[H]` of a node."""
    reach = np.ones(bucket.shape[1])
    while (parent := tree.parent[node]) != NO_NODE:
        if tree.actor[parent] == player:
            action = list(tree.child[parent]).index(node)
            reach = reach * policy[parent][bucket[tree.street[parent]], action]
        node = parent
    return reach


def best_response(
    tree, node, policy, bucket, pairs, player, reach=None, after=None, times=1, best_from=0
):
    """The values `[H]` of a player who plays a best response with each hand on this board, below a
    node; `policy` has a table for each decision, and `pairs` are `pairs_of_hands`. On streets
    before `best_from` the player has the same policy.

    Where the next street is dealt, `after` has the values of a node and a reach, summed over
    `times` ways to deal it for each pair of hands.
    """
    meets, beats = pairs

    def values(node, reach):
        actor = tree.actor[node]
        if actor == CHANCE:
            return (after or values)(tree.child[node, 0], reach)
        if actor in (FOLD, SHOWDOWN):
            chips = times * (tree.paid[node].min() + tree.pot / 2)
            if actor == SHOWDOWN:
                return chips * beats @ reach
            return (chips if tree.winner[node] == player else -chips) * meets @ reach
        rows = policy[node][bucket[tree.street[node]]]
        children = [tree.child[node, action] for action in range(rows.shape[1])]
        if actor == player:
            below = np.array([values(child, reach) for child in children])
            if tree.street[node] < best_from:
                return np.sum(rows.T * below, axis=0)
            return np.max(below, axis=0)
        return sum(values(child, reach * rows[:, a]) for a, child in enumerate(children))

    return values(node, np.ones(len(meets)) if reach is None else reach)
