"""Random games, and slow, plain code to compare the solvers with.

The reference walks histories, as textbooks do, and knows no sequences. Everything is float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxgames import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree, levels, make_game_tree

Policies = tuple[np.ndarray, ...]


def random_tree(seed: int, *, players: int = 2, depth: int = 5, zero_sum: bool = False) -> GameTree:
    """A random game of perfect recall with 3 actions, which begins with chance.

    Each move shows everybody one random signal, and each player another in private. Who acts is
    public; which actions are legal depends on the information state.
    """
    generator, drawn = np.random.default_rng(seed), {}

    def draw(number, *key):  # a random function of `key`
        return drawn.setdefault(key, int(generator.integers(number)))

    def number(*key):  # keys in order of appearance
        return numbers.setdefault(key, len(numbers))

    numbers: dict[tuple, int] = {}
    rows, level = [], [(-1, -1, 1.0, ((),) * players, ())]
    for step in range(depth + 1):
        below = []
        for parent, parent_action, chance_prob, known, public in level:
            actor = draw(players + 1, "actor", public) - 1 if step else CHANCE
            if step == depth or (step > 2 and draw(6, "over", public) == 0):
                actor = TERMINAL
            moves = {CHANCE: range(3), TERMINAL: range(0)}.get(actor)
            if moves is None:
                subset = 1 + draw(7, "legal", actor, known[actor])
                moves = [action for action in range(3) if subset >> action & 1]
            payoff = generator.normal(size=players) * (actor == TERMINAL)
            row = dict(parent=parent, parent_action=parent_action, chance_prob=chance_prob)
            row |= dict(actor=actor, legal=[actor >= 0 and action in moves for action in range(3)])
            row |= dict(returns=payoff - payoff.mean() if zero_sum else payoff)
            states = [number(player, key) for player, key in enumerate(known)]
            row |= dict(information_state=states, public_state=number("public", public))
            odds = generator.dirichlet([1, 1, 1]) if actor == CHANCE else np.ones(3)
            for move in moves:
                shown = (actor, draw(6, "public", len(rows), move) // 5)
                seen = [
                    (*own, shown, draw(6, p, len(rows), move) // 5, move if p == actor else None)
                    for p, own in enumerate(known)
                ]
                below.append((len(rows), move, odds[move], tuple(seen), (*public, shown)))
            rows.append(row)
        level = below
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return make_game_tree(**columns, game=f"random {seed}")


def random_policies(tree: GameTree, seed: int, *, num_pure: float = 0.0) -> Policies:
    """Random policies, a share `num_pure` of whose decisions is deterministic."""
    generator = np.random.default_rng(seed)
    policies = []
    for player, count in enumerate(tree.num_decisions):
        legal = tree.legal_actions(player)
        weight = generator.exponential(size=legal.shape) * legal
        pure = np.eye(legal.shape[1])[weight.argmax(axis=1)]
        weight = np.where(generator.random(count)[:, None] < num_pure, pure, weight)
        policies.append(weight / weight.sum(axis=1, keepdims=True))
    return tuple(policies)


def uniform_policies(tree: GameTree) -> Policies:
    """Uniform over legal actions."""
    legal = [tree.legal_actions(player) for player in range(tree.num_players)]
    return tuple(rows / rows.sum(axis=1, keepdims=True) for rows in legal)


def reach(tree: GameTree, policies: Sequence[np.ndarray]) -> np.ndarray:
    """[P + 1, H]: each player's own reach of the histories, last chance's."""
    reaches = np.ones((tree.num_players + 1, tree.num_histories))
    for rows in levels(tree.parent):
        above, action = tree.parent[rows], tree.parent_action[rows]
        reaches[:, rows] = reaches[:, above]
        reaches[-1, rows] *= tree.chance_prob[rows]
        for player, policy in enumerate(policies):
            acted = tree.actor[above] == player
            state = np.where(acted, tree.information_state[above, player], 0)
            if acted.any():
                probability = policy[state, np.where(acted, action, 0)]
                reaches[player, rows] *= np.where(acted, probability, 1)
    return reaches


def history_values(tree: GameTree, policies: Sequence[np.ndarray]) -> np.ndarray:
    """[H, P]: expected returns below each history."""
    values, chosen = tree.returns.copy(), np.ones(tree.num_histories)
    for row in range(tree.num_histories - 1, 0, -1):
        above, action = tree.parent[row], tree.parent_action[row]
        player = tree.actor[above]
        chosen[row] = tree.chance_prob[row]
        if player != CHANCE:
            chosen[row] = policies[player][tree.information_state[above, player], action]
        values[above] += chosen[row] * values[row]
    return values


def counterfactual_values(
    tree: GameTree, policies: Sequence[np.ndarray], player: int
) -> tuple[np.ndarray, np.ndarray]:
    """[D, A] and [D]: by definition, over the histories of every information state."""
    values = history_values(tree, policies)[:, player]
    others = np.prod(np.delete(reach(tree, policies), player, axis=0), axis=0)
    decides = tree.actor == player
    actions = np.zeros((tree.num_decisions[player], tree.num_actions))
    states = np.zeros(tree.num_decisions[player])
    np.add.at(states, tree.information_state[decides, player], (others * values)[decides])
    child = np.flatnonzero(decides[tree.parent] & (tree.parent >= 0))
    above = tree.parent[child]
    where = (tree.information_state[above, player], tree.parent_action[child])
    np.add.at(actions, where, others[above] * values[child])
    return actions, states


def best_response_value(tree: GameTree, policies: Sequence[np.ndarray], player: int) -> float:
    """By backward induction over the depths of the tree."""
    policies = [policy.copy() for policy in policies]
    legal = tree.legal_actions(player)
    for depth in range(tree.depth.max(), -1, -1):
        here = np.unique(
            tree.information_state[(tree.depth == depth) & (tree.actor == player), player]
        )
        actions, _ = counterfactual_values(tree, policies, player)
        best = np.where(legal, actions, -np.inf)[here].argmax(axis=1)
        policies[player][here] = np.eye(tree.num_actions)[best]
    return float(history_values(tree, policies)[0, player])


def match(regret: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Regret matching [D, A]."""
    positive = np.where(legal, np.maximum(regret, 0), 0)
    total = positive.sum(axis=1, keepdims=True)
    uniform = legal / legal.sum(axis=1, keepdims=True)
    return np.where(total > 0, positive / np.where(total > 0, total, 1), uniform)


def _cfr(regret, instant, t):
    return regret + instant, regret + instant


def _linear(regret, instant, t):
    return regret + t * instant, regret + t * instant


def _plus(regret, instant, t):
    regret = np.maximum(regret + instant, 0)
    return regret, regret


def _discounted(regret, instant, t):
    regret = regret + instant
    regret = np.where(regret > 0, regret * t**1.5 / (t**1.5 + 1), regret / 2)
    return regret, regret


def _predictive(regret, instant, t):
    regret = np.maximum(regret + instant, 0)
    return regret, regret + instant


# Of each solver at its defaults: (regrets, instantaneous regrets, t) -> (new regrets, what regret
# matching plays from); and the power of t that weighs iteration t in the average.
RULES = {
    "cfr": (_cfr, 0),
    "cfr_plus": (_plus, 1),
    "linear_cfr": (_linear, 1),
    "dcfr": (_discounted, 2),
    "pcfr_plus": (_predictive, 2),
}


def reference_solve(
    tree: GameTree, solver: str, num_iterations: int, *, alternating: bool = True, delay: int = 0
) -> tuple[Policies, Policies]:
    """Current and average policies of a solver, by its definition over histories."""
    rule, power = RULES[solver]
    legal = [tree.legal_actions(player) for player in range(tree.num_players)]
    regrets = [np.zeros(rows.shape) for rows in legal]
    sums = [np.zeros(rows.shape) for rows in legal]
    policies = list(uniform_policies(tree))
    for t in range(1, num_iterations + 1):
        before = list(policies)
        for p in range(tree.num_players):
            seen = policies if alternating else before
            own = reach(tree, seen)[p][tree.representative(p)[: tree.num_decisions[p]]]
            sums[p] += max(t - delay, 0) ** power * (t > delay) * own[:, None] * policies[p]
            actions, states = counterfactual_values(tree, seen, p)
            instant = np.where(legal[p], actions - states[:, None], 0)
            regrets[p], plays = rule(regrets[p], instant, t)
            policies[p] = match(plays, legal[p])
    return tuple(policies), tuple(map(match, sums, legal))
