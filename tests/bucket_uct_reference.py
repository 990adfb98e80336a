"""Algorithm 1 of Heinrich and Silver 2015 episode by episode, in plain Python: what the learner of
the engine must equal. Episodes of a batch see the table as it was before the batch."""

import collections

import numpy as np

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN

one = np.float32(1)


def stakes(tree, node, potential):
    """Equation 3 without C: pot and remaining potential when the round of a node began."""
    while tree.parent[node] != NO_NODE and tree.actor[tree.parent[node]] != CHANCE:
        node = tree.parent[node]

    def most(node):
        below = [most(child) for child in tree.child[node] if child != NO_NODE]
        return max([tree.paid[node].sum(), *below])

    pot = tree.paid[node].sum()
    return np.float32(pot + potential * (most(node) - pot))


class Reference:
    """Visits and sums of winnings by decision of the tree and bucket."""

    def __init__(self, tree, settings, *, potential=None):
        self.tree, self.settings, self.potential = tree, settings, potential
        width = tree.child.shape[1]
        self.visits = collections.defaultdict(lambda: np.zeros(width, int))
        self.sums = collections.defaultdict(lambda: np.zeros(width, int))

    def play_batch(self, *drawn):
        """Episodes of deals with buckets `[S, 2, D]`, who wins `[D]`, and numbers `[2, T, D]` that
        decide whether to explore, and which action is taken."""
        deals = range(drawn[0].shape[-1])
        updates = [self.episode(*(numbers[..., d] for numbers in drawn)) for d in deals]
        for state, action, won in (update for each in updates for update in each):
            self.visits[state][action] += 1
            self.sums[state][action] += won

    def episode(self, bucket, winner, noise):
        tree, node, inside, path, step = self.tree, 0, [True, True], [], 0
        while tree.actor[node] not in (FOLD, SHOWDOWN):
            if tree.actor[node] == CHANCE:
                node = tree.child[node, 0]
                continue
            actor, state = (
                tree.actor[node],
                (node, int(bucket[tree.street[node], tree.actor[node]])),
            )
            legal = int((tree.child[node] != NO_NODE).sum())
            known = state in self.visits and self.visits[state].sum() > 0
            weights = np.ones(legal, np.float32)
            if inside[actor] and known:
                weights = self.select(state, node, legal, noise[0][step])
            bounds = np.cumsum(weights, dtype=np.float32)
            action = int((noise[1][step] * bounds[-1] >= bounds[:-1]).sum())
            if inside[actor]:
                path.append((state, action, actor))
                inside[actor] = known
            node, step = tree.child[node, action], step + 1
        chips = tree.paid[node].min()
        won = (
            chips * winner if tree.actor[node] == SHOWDOWN else chips * (1 - 2 * tree.winner[node])
        )
        return [(state, action, won if actor == 0 else -won) for state, action, actor in path]

    def select(self, state, node, legal, noise):
        """Weights of the actions: UCB (equation 1) or the average policy (equation 2)."""
        settings = self.settings
        count = self.visits[state][:legal].astype(np.float32)
        total = count.sum()
        share = settings.start / (one + np.float32(settings.decay) * np.sqrt(total))
        if noise >= max(settings.least, share):
            return count
        constant = np.float32(settings.exploration)
        if self.potential is not None:
            constant = min(constant, stakes(self.tree, node, self.potential))
        if (count == 0).any():
            return (count == 0).astype(np.float32)
        bound = self.sums[state][:legal].astype(np.float32) / count
        bound = bound + constant * np.sqrt(np.log(total) / count)
        return (bound == bound.max()).astype(np.float32)
