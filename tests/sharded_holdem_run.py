"""A small hold'em game, solved on one device and sharded over all of them; a process of its own."""

import argparse
import functools
import itertools

import jax
import numpy as np
from jax.sharding import Mesh

from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from solvers import cfr, evaluation
from solvers.holdem.board_sharding import BOARDS, shard_holdem_tree
from solvers.holdem.subgame_tree import build_holdem_tree
from solvers.sequence_form import uniform, unpack

# by name: the deck, the board, cards of a hand, cards dealt before each later street
GAMES = {
    "two streets": (tuple(4 * r + s for r in range(4) for s in range(3)), (0, 5), 2, (1,)),
    "three streets": (tuple(4 * r + s for r in range(3) for s in range(3)), (), 1, (1, 1)),
}


def bytes_on_first(arrays):
    """Bytes of arrays on the first device."""
    first = jax.devices()[0]
    return sum(
        shard.data.nbytes
        for leaf in jax.tree.leaves(arrays)
        for shard in leaf.addressable_shards
        if shard.device == first
    )


def main():
    """Writes the policies, exploitabilities and bytes of the state of both solves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--game")
    parser.add_argument("--isomorphism", action="store_true")
    parser.add_argument("--storage", default="full")
    parser.add_argument("--out")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    deck, board, size, deals = GAMES[options.game]
    hands = np.array(list(itertools.combinations(deck, size)))
    ranges = np.ones((2, len(hands)))
    if not options.isomorphism:
        ranges = np.random.default_rng(0).uniform(0.2, 1, ranges.shape)
    betting = build_betting_tree(
        pot=4, stack=12, streets=1 + len(deals), sizes=BetSizes.parse("100%", "")
    )
    arguments = board, hands, tuple(ranges), betting
    common = dict(deals=deals, deck=deck, isomorphism=options.isomorphism, dtype="float64")
    run = functools.partial(cfr.run, solver=cfr.cfr(), num_iterations=20)

    def start(tree, root_reach):
        """A state with positive regrets: rounding would decide between regrets that tie at zero."""
        policy = unpack(tree, uniform(tree))
        return cfr.init(
            tree,
            root_reach=root_reach,
            policy=policy,
            policy_weight=1000.0,
            storage=options.storage,
        )

    whole = build_holdem_tree(*arguments, showdowns="products", **common)
    reach = whole.root_reach
    alone = run(whole.sequence_form, start(whole.sequence_form, reach))
    policy = cfr.average_policy(whole.sequence_form, alone)
    results = {
        "exploitability": evaluation.exploitability(whole.sequence_form, policy, reach),
        "bytes": bytes_on_first((alone.reach, alone.minimizers)),
    }

    mesh = Mesh(np.array(jax.devices()), (BOARDS,))
    sharded = shard_holdem_tree(board, tuple(ranges), betting, mesh=mesh, hands=hands, **common)
    state = sharded.call(lambda tree: start(tree, sharded.root_reach))
    state = sharded.call(run, state)
    parts = sharded.call(cfr.average_policy, state)
    gain = sharded.call(
        lambda tree, policy: evaluation.exploitability(tree, policy, sharded.root_reach), parts
    )
    results["sharded_exploitability"] = gain
    results["sharded_bytes"] = bytes_on_first((state.reach, state.minimizers))
    for player, rows in enumerate(sharded.gathered(parts, whole)):
        results[f"policy_{player}"], results[f"sharded_policy_{player}"] = policy[player], rows
    np.savez(options.out, **jax.tree.map(np.asarray, results))


if __name__ == "__main__":
    main()
