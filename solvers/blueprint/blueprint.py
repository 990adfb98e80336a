"""Blueprints: policies of whole two-player games by buckets, and how they are kept in a folder."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxgames.core import record
from jaxgames.files import DAMAGED_ARRAYS, cache_folder, write_arrays, write_file
from jaxgames.holdem import betting_of_rules
from jaxgames.holdem.betting_graph import BettingGraph
from jaxgames.holdem.betting_tree import BettingTree
from jaxgames.holdem.card_abstraction import (
    CACHE,
    BucketTables,
    CardAbstraction,
    bucket_tables,
    fingerprint,
)
from jaxgames.holdem.cards import RANKS, SUITS
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make
from solvers.blueprint.betting_rounds import betting_rounds
from solvers.blueprint.betting_walk import in_all_buckets, policy_tables
from solvers.blueprint.board_sampled_cfr import average_policy
from solvers.blueprint.bucket_game import BucketGame, Tables

DESCRIPTION_FILE, POLICY_FILE = "blueprint.json", "blueprint.npz"
_VERSION = 2  # of both files
# what a description of each version that is read must have; the first does not know its buckets
_ENTRIES = {1: {"game": str, "abstraction": str}}
_ENTRIES[_VERSION] = _ENTRIES[1] | {"strength_cards": int, "buckets": str}


@record
class Blueprint:
    """What both players do with the hands of each bucket, and in which bucket each hand is."""

    policy: Tables  # as `board_sampled_cfr.average_policy` makes it
    buckets: BucketTables
    game: BucketGame = flax.struct.field(pytree_node=False)


def bucket_game(poker: Poker, abstraction: CardAbstraction) -> BucketGame:
    """The betting of a game with the buckets of an abstraction.

    Raises:
      ValueError: the abstraction is of another number of streets, or the game is not for two
        players with hands of two cards from the whole deck.
    """
    if (poker.hole, poker.ranks, poker.suits) != (2, len(RANKS), len(SUITS)):
        raise ValueError(
            f"hole={poker.hole}, ranks={poker.ranks} and suits={poker.suits} must be 2, 13 and 4:"
            " buckets are of hold'em"
        )
    return _bucket_game(poker, abstraction.num_buckets)


@functools.lru_cache(maxsize=16)
def _bucket_game(poker, num_buckets):
    """One for all blueprints of a game with the same buckets, so that programs compile once."""
    return BucketGame(betting_rounds(betting_of_rules(poker)), num_buckets)


def fixed_policy(
    tree: BettingTree | BettingGraph, weights: Mapping[str, float]
) -> Float[np.ndarray, "X A"]:
    """A policy that does not look at cards: by node, actions in proportion to weights.

    Args:
      tree: the betting.
      weights: of actions, by the tree's names for them: `{"call": 1.0}` always calls. Where none of
        the actions has a weight, all are taken alike.
    """
    policy = np.zeros(tree.child.shape)
    for node, names in enumerate(tree.actions):
        own = np.array([weights.get(name, 0.0) for name in names])
        policy[node, : len(names)] = own / own.sum() if own.any() else 1 / max(len(names), 1)
    return policy


def fixed_blueprint(poker: Poker, weights: Mapping[str, float]) -> Blueprint:
    """The blueprint of `fixed_policy`, with all hands in one bucket."""
    abstraction = CardAbstraction.parse("/".join(["all:1"] * len(poker.board)))
    game = bucket_game(poker, abstraction)
    policy = in_all_buckets(game, fixed_policy(game.rounds.tree, weights))
    return Blueprint(
        policy=policy_tables(game, jnp.asarray(policy, jnp.float32)),
        buckets=bucket_tables(abstraction, board=poker.board),
        game=game,
    )


def write_blueprint(
    folder: pathlib.Path,
    policy: Tables,
    *,
    poker: Poker,
    abstraction: CardAbstraction,
    buckets: BucketTables,
) -> None:
    """Writes a policy into a folder, with three digits of each probability.

    Args:
      folder: exists.
      policy: as `board_sampled_cfr.average_policy` makes it.
      poker: the game.
      abstraction: of its cards.
      buckets: the abstraction's tables, of which the folder keeps a hash.

    Raises:
      OSError: it cannot be written.
    """
    leaves = [np.asarray(table, np.float16) for street in policy for table in street]
    write_arrays(folder / POLICY_FILE, *leaves)
    write_description(folder, poker=poker, abstraction=abstraction, buckets=buckets)


def read_blueprint(folder: pathlib.Path) -> tuple[Blueprint, Poker]:
    """Reads a blueprint, and makes its tables of buckets where they are not in the cache.

    Returns:
      The blueprint, and the game it plays.

    Raises:
      ValueError: the folder holds no blueprint, a damaged one, or one of another version; or the
        buckets here are not those of the blueprint.
      OSError: a file cannot be read.
    """
    description = read_description(folder)
    poker, abstraction, game = _game(folder / DESCRIPTION_FILE, description)
    try:
        with np.load(folder / POLICY_FILE) as arrays:
            leaves = [arrays[name] for name in arrays.files]
    except (*DAMAGED_ARRAYS, FileNotFoundError) as error:
        reason = str(error) or "it ends early"
        raise ValueError(f"{folder / POLICY_FILE} holds no policy: {reason}") from None
    shapes = [shape for _, _, shape in game.shapes()]
    if [leaf.shape for leaf in leaves] != shapes:
        raise ValueError(
            f"{folder / POLICY_FILE} has tables of shapes {[leaf.shape for leaf in leaves]}; the"
            f" game {poker} with buckets {abstraction} needs {shapes}"
        )
    buckets = described_buckets(folder, description, abstraction, poker)
    return Blueprint(policy=_normalised(game, leaves), buckets=buckets, game=game), poker


def write_description(
    folder: pathlib.Path, *, poker: Poker, abstraction: CardAbstraction, buckets: BucketTables
) -> None:
    """Writes into a folder what game its policy plays, and with which buckets.

    Args:
      folder: exists.
      poker: the game.
      abstraction: of its cards.
      buckets: the abstraction's tables, of which the folder keeps a hash.

    Raises:
      OSError: it cannot be written.
    """
    description = {
        "version": _VERSION,
        "game": str(poker),
        "abstraction": str(abstraction),
        "strength_cards": buckets.strength_cards,
        "buckets": fingerprint(buckets),
    }
    write_file(folder / DESCRIPTION_FILE, json.dumps(description, indent=1) + "\n")


def described_buckets(
    folder: pathlib.Path, description: dict[str, Any], abstraction: CardAbstraction, poker: Poker
) -> BucketTables:
    """The tables of buckets that a policy was trained with.

    Args:
      folder: of the policy.
      description: as `read_description` has read it.
      abstraction: of the cards.
      poker: the game.

    Raises:
      ValueError: the buckets here are others.
    """
    cards = description.get("strength_cards")
    buckets = bucket_tables(abstraction, board=poker.board, strength_cards=cards)
    expected = description.get("buckets")
    if expected is not None and expected != fingerprint(buckets):
        raise ValueError(
            f"{folder} was trained with other buckets {abstraction} than those here, as another"
            " version of the program makes them, or k-means on another machine: copy"
            f" {cache_folder(CACHE)} from where it was trained, or train it again"
        )
    return buckets


def read_description(folder: pathlib.Path) -> dict[str, Any]:
    """What a folder tells of its policy.

    Raises:
      ValueError: the folder holds no policy, a damaged one, or one of another version.
      OSError: the file cannot be read.
    """
    path = folder / DESCRIPTION_FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no blueprint: it has no {DESCRIPTION_FILE}") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it must hold an object, not {found!r:.40}")
    version = found.get("version")
    if version not in list(_ENTRIES):
        raise ValueError(
            f"{folder} holds a blueprint of version {version}; this is version {_VERSION}: make it"
            " again"
        )
    for name, kind in _ENTRIES[version].items():
        if not isinstance(found.get(name), kind):
            value = found.get(name)
            raise ValueError(f"{path} is damaged: {name}={value!r:.40} must be {kind.__name__}")
    return found


def _game(path, description) -> tuple[Poker, CardAbstraction, BucketGame]:
    """What a description says is played, and in which buckets."""
    try:
        poker = make(description["game"])
        if not isinstance(poker, Poker):
            raise ValueError(f"game={description['game']!r} must be hold'em by `Poker`")
        abstraction = CardAbstraction.parse(description["abstraction"])
        return poker, abstraction, bucket_game(poker, abstraction)
    except ValueError as error:
        raise ValueError(f"{path} is of no use: {error}") from None


def _normalised(game, leaves) -> Tables:
    """Tables of probabilities that sum to 1 again after they were rounded."""
    given, rest = [], iter(leaves)
    for families in game.rounds.streets:
        given.append(tuple(jnp.asarray(next(rest), jnp.float32) for _ in families))
    return average_policy(game, tuple(given))
