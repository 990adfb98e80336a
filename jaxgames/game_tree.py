"""Explicit game trees: every history of a game as one row of a table, in breadth-first order.

Built here from any game by a vectorised breadth-first search, and by the adapters from other
libraries. Lives on the host as NumPy arrays; solvers compile it into a sequence form
(`solvers.sequence_form`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.core import CHANCE, Game, State, record

MAX_HISTORIES = 5_000_000  # the default limit on the size of a tree
NO_PARENT = -1
_ESTIMATE_FROM = 100_000  # smaller trees are built sooner than estimated
_BLOCKS = (256, 16_384)  # histories expanded at once: two compilations serve every tree


class TreeTooLargeError(ValueError):
    """The tree has more histories than the limit allows; the message tells the estimated size."""


@record
class GameTree:
    """H histories in breadth-first order, row 0 the root; the children of a history are adjacent.

    P players, A actions. Player p's information states are numbered from 0, those where p acts
    first (`num_decisions[p]` of them); a policy of p is an array `[num_decisions[p], A]`.
    """

    parent: np.ndarray  # [H] int32, NO_PARENT at the root
    parent_action: np.ndarray  # [H] int32 action or chance outcome leading here, -1 at the root
    depth: np.ndarray  # [H] int32
    actor: np.ndarray  # [H] int32: 0..P-1, CHANCE or TERMINAL
    legal: np.ndarray  # [H, A] bool: legal actions of the acting player
    chance_prob: np.ndarray  # [H] float64 probability that chance leads here; 1 below players
    returns: np.ndarray  # [H, P] float64, 0 off the terminals
    information_state: np.ndarray  # [H, P] int32
    public_state: np.ndarray  # [H] int32, numbered in breadth-first order
    num_decisions: tuple[int, ...]  # [P] information states in which the player acts
    num_information_states: tuple[int, ...]  # [P]
    game: str  # the name it was built from

    @property
    def num_histories(self) -> int:
        """H."""
        return len(self.actor)

    @property
    def num_players(self) -> int:
        """P."""
        return self.returns.shape[1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.legal.shape[1]

    def representative(self, player: int) -> Int[np.ndarray, " I"]:
        """The first history of each information state of `player`."""
        found = np.full(self.num_information_states[player], -1, np.int64)
        rows = np.arange(self.num_histories - 1, -1, -1)
        found[self.information_state[rows, player]] = rows
        return found

    def chance_reach(self) -> Float[np.ndarray, " H"]:
        """Chance's probability of each history."""
        reach = self.chance_prob.copy()
        for rows in levels(self.parent):
            reach[rows] *= reach[self.parent[rows]]
        return reach

    def legal_actions(self, player: int) -> Bool[np.ndarray, "D A"]:
        """Legal actions in each information state where `player` acts."""
        return self.legal[self.representative(player)[: self.num_decisions[player]]]


def enumerate_game(game: Game, *, max_histories: int = MAX_HISTORIES) -> GameTree:
    """Every history of `game`, by vectorised breadth-first search, in float64.

    A game that has its tree already, in an attribute `tree`, gives it as it is.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: a rule of the game contract is broken (perfect recall, public actor, payoffs).
    """
    tree = getattr(game, "tree", None)
    if isinstance(tree, GameTree):
        if tree.num_histories > max_histories:
            raise too_large(game, tree.num_histories, max_histories)
        return tree
    with jax.enable_x64(True):
        states, view = _root(game)
        level = dict(view, parent=np.array([NO_PARENT]), parent_action=np.array([-1]))
        found, total = [level], 1
        while True:
            parents, actions = np.nonzero(_moves(level))
            if not len(parents):
                return _assemble(found, str(game))
            total = _checked_total(game, total, len(parents), max_histories)
            states, view = _expand(game, states, parents, actions)
            level = dict(view, parent=parents, parent_action=actions)
            found.append(level)


def estimate_num_histories(game: Game, key: Key[Array, ""], *, num_probes: int = 256) -> float:
    """Unbiased estimate of the number of histories by random probes (Knuth 1975).

    A probe walks to a terminal, choosing children uniformly; the product of the numbers of
    children along the way estimates the number of histories at each depth. `key` is consumed.
    """
    return float(np.mean(_probe(jax.random.split(key, num_probes), game)))


@functools.partial(jax.jit, static_argnums=1)
@functools.partial(jax.vmap, in_axes=(0, None))
def _probe(key: Key[Array, ""], game: Game) -> Float[Array, ""]:
    def step(carry, noise):
        state, width, total = carry
        legal = jnp.concatenate([state.legal, state.chance_probs > 0])
        count = jnp.sum(legal.astype(float))
        move = jnp.argmax(jnp.where(legal, noise, -1.0)).astype(jnp.int32)
        move = jnp.where(move >= game.num_actions, move - game.num_actions, move)
        width = width * count
        return (game.step(state, move), width, total + width), None

    start = (game.init(), jnp.ones((), float), jnp.ones((), float))
    # drawn before the loop: jax_debug_key_reuse rejects a scan over keys under vmap
    num_moves = game.num_actions + game.num_chance_outcomes
    noise = jax.random.uniform(key, (game.max_depth, num_moves), jnp.float32)
    (_, _, total), _ = jax.lax.scan(step, start, noise)
    return total


def _moves(level):
    """Legal actions and possible chance outcomes `[n, max(A, C)]` of a level's histories."""
    chance = (level["actor"] == CHANCE)[:, None] & (level["chance_probs"] > 0)
    width = max(level["legal"].shape[1], chance.shape[1])
    pad = lambda mask: np.pad(mask, ((0, 0), (0, width - mask.shape[1])))  # noqa: E731
    return pad(level["legal"]) | pad(chance)


def _checked_total(game, before, new, limit):
    """Histories so far. Trees that outgrow `_ESTIMATE_FROM` are refused by an estimate first."""
    total = before + new
    if total > _ESTIMATE_FROM >= before or total > limit:
        estimate = estimate_num_histories(game, jax.random.key(0))
        # The estimate is noisy: near the limit the tree is built and counted.
        if total > limit or estimate > 4 * limit:
            raise too_large(game, max(estimate, total), limit)
    return total


def too_large(game: object, estimate: float | int, limit: int) -> TreeTooLargeError:
    """The error of a tree with more histories than `limit`."""
    return TreeTooLargeError(
        f"the tree of {game} has about {estimate:.2g} histories, more than the limit of {limit:,}"
        " (argument max_histories)"
    )


def _view(game: Game, state: State) -> dict[str, Array]:
    players = range(game.num_players)
    return dict(
        actor=state.actor,
        legal=state.legal,
        chance_probs=state.chance_probs,
        returns=state.returns,
        information_state=jnp.stack([game.information_state(state, p) for p in players]),
        public_state=game.public_state(state),
    )


@functools.partial(jax.jit, static_argnums=0)
def _init(game):
    state = game.init()
    return state, _view(game, state)


def _root(game):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], _init(game))


@functools.partial(jax.jit, static_argnums=0)
def _expand_block(game, states, actions):
    def one(state, action):
        after = game.step(state, action)
        return after, _view(game, after)

    return jax.vmap(one)(states, actions)


def _expand(game, states, parents, actions):
    """All children of a level, in blocks: every array that is compiled for has a block's size."""
    block = _BLOCKS[len(parents) > _BLOCKS[0]]
    parts = []
    for begin in range(0, len(parents), block):
        rows = _pad(parents[begin : begin + block], block)
        moves = jnp.asarray(_pad(actions[begin : begin + block], block), jnp.int32)
        near = jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], states)
        count = min(block, len(parents) - begin)
        parts.append(
            jax.tree.map(
                lambda leaf, count=count: np.asarray(leaf)[:count],
                _expand_block(game, near, moves),
            )
        )
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _pad(values, size):
    return np.concatenate([values, np.repeat(values[-1:], size - len(values))])


def _assemble(found: list[dict[str, np.ndarray]], name: str) -> GameTree:
    sizes = [len(level["actor"]) for level in found]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    num_players = found[0]["returns"].shape[1]
    actor = np.concatenate([level["actor"] for level in found]).astype(np.int32)
    chance = [np.ones(1)]
    parent = [np.array([NO_PARENT])]
    for above, level, start in zip(found, found[1:], starts, strict=False):
        by_chance = above["actor"][level["parent"]] == CHANCE
        column = np.where(by_chance, level["parent_action"], 0)
        chance.append(np.where(by_chance, above["chance_probs"][level["parent"], column], 1.0))
        parent.append(level["parent"] + start)
    states = [
        _number([level["information_state"][:, p] for level in found]) for p in range(num_players)
    ]
    return make_game_tree(
        parent=np.concatenate(parent),
        parent_action=np.concatenate([level["parent_action"] for level in found]),
        actor=actor,
        legal=np.concatenate([level["legal"] for level in found]),
        chance_prob=np.concatenate(chance),
        returns=np.concatenate([level["returns"] for level in found]),
        information_state=np.stack(states, axis=1),
        public_state=_number([level["public_state"] for level in found]),
        game=name,
    )


def _number(keys_by_level: list[np.ndarray]) -> np.ndarray:
    """Dense numbers of the distinct keys (rows), level by level: keys never span levels."""
    numbers, first = [], 0
    for keys in keys_by_level:
        rows = np.ascontiguousarray(keys.astype(np.int32))
        void = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        _, index, inverse = np.unique(void, return_index=True, return_inverse=True)
        order = np.empty(len(index), np.int64)
        order[np.argsort(index)] = np.arange(len(index))  # number by first occurrence
        numbers.append(order[inverse] + first)
        first += len(index)
    return np.concatenate(numbers)


def make_game_tree(
    *,
    parent: Int[np.ndarray, " H"],
    parent_action: Int[np.ndarray, " H"],
    actor: Int[np.ndarray, " H"],
    legal: Bool[np.ndarray, "H A"],
    chance_prob: Float[np.ndarray, " H"],
    returns: Float[np.ndarray, "H P"],
    information_state: Int[np.ndarray, "H P"],
    public_state: Int[np.ndarray, " H"],
    game: str,
) -> GameTree:
    """Checks a table of histories and numbers its information states (see `GameTree`).

    Histories are in breadth-first order, parents before children, the children of one history
    adjacent; the numbers of the information and public states are arbitrary.

    Raises:
      ValueError: a payoff or probability is not finite, chance does not sum to 1, the histories
        of an information state differ in actor or legal actions, or recall is imperfect.
    """
    depth = np.zeros(len(parent), np.int32)
    for row in levels(parent):
        depth[row] = depth[parent[row]] + 1
    columns, num_decisions, num_states = [], [], []
    for player in range(returns.shape[1]):
        column, decisions, count = _decisions_first(information_state[:, player], actor == player)
        columns.append(column)
        num_decisions.append(decisions)
        num_states.append(count)
    _, first, public = np.unique(public_state, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    tree = GameTree(
        parent=parent.astype(np.int32),
        parent_action=parent_action.astype(np.int32),
        depth=depth,
        actor=actor.astype(np.int32),
        legal=legal,
        chance_prob=chance_prob.astype(np.float64),
        returns=returns.astype(np.float64),
        information_state=np.stack(columns, axis=1).astype(np.int32),
        public_state=rank[public].astype(np.int32),
        num_decisions=tuple(num_decisions),
        num_information_states=tuple(num_states),
        game=game,
    )
    _check(tree)
    return tree


def levels(parent: Int[np.ndarray, " H"]) -> Iterator[slice]:
    """Slices of rows whose parents all lie in earlier slices, the root left out."""
    begin, count = 1, len(parent)
    while begin < count:
        end = int(np.searchsorted(parent, begin))  # parents are sorted in breadth-first order
        yield slice(begin, end)
        begin = end


def _decisions_first(states, acting):
    """Renumbers one player's information states, those where the player acts first."""
    _, first, dense = np.unique(states, return_index=True, return_inverse=True)
    decides = np.zeros(len(first), bool)
    decides[dense[acting]] = True
    order = np.lexsort((first, ~decides))
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return rank[dense], int(decides.sum()), len(first)


def _check(tree: GameTree) -> None:
    if not np.isfinite(tree.returns).all():
        row = int(np.argmin(np.isfinite(tree.returns).all(axis=1)))
        raise ValueError(f"{tree.game}: returns of history {row} are {tree.returns[row]}")
    by_chance = np.concatenate([[False], tree.actor[tree.parent[1:]] == CHANCE])
    total = np.bincount(tree.parent[by_chance], tree.chance_prob[by_chance], tree.num_histories)
    bad = (tree.actor == CHANCE) & ~(np.abs(total - 1) < 1e-6)
    if bad.any() or not (tree.chance_prob >= 0).all():
        row = int(np.argmax(bad))
        raise ValueError(f"{tree.game}: chance at history {row} has total probability {total[row]}")
    if np.any((tree.actor >= 0) & ~tree.legal.any(axis=1)):
        raise ValueError(f"{tree.game}: a player to act has no legal action")
    for player in range(tree.num_players):
        states = tree.information_state[:, player]
        representative = tree.representative(player)[states]
        acts = tree.actor == player
        _same(tree, acts, acts[representative], "turn", player)
        differs = (tree.legal != tree.legal[representative]).any(axis=1) & acts
        _same(tree, differs, np.zeros_like(differs), "legal actions", player)
        sequence = own_sequence(tree, player)
        _same(tree, sequence, sequence[representative], "own past (imperfect recall)", player)


def _same(tree, found, expected, what, player):
    if (found != expected).any():
        row = int(np.argmax(found != expected))
        raise ValueError(
            f"{tree.game}: histories of one information state of player {player} differ in {what}"
            f" (history {row}, information state {tree.information_state[row, player]})"
        )


def check_policies(tree: GameTree, policies: Sequence[Float[np.ndarray, "_ _"]]) -> None:
    """Refuses what is no policy of every player of the game, `[D_p, A]` each.

    Raises:
      ValueError: there are more or fewer, or of another shape; or probabilities do not sum to 1
        over the legal actions of an information state.
    """
    if len(policies) != tree.num_players:
        raise ValueError(f"{len(policies)} policies given; {tree.game} has {tree.num_players}")
    for player, policy in enumerate(policies):
        shape = (tree.num_decisions[player], tree.num_actions)
        if policy.shape != shape:
            raise ValueError(f"policy of player {player} has shape {policy.shape}, not {shape}")
        legal = tree.legal_actions(player)
        good = np.isclose(policy.sum(axis=1), 1, atol=1e-5) & (policy >= 0).all(axis=1)
        good &= (np.where(legal, 0, policy) == 0).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(
                f"policy of player {player} is {policy[row]} in information state {row}, where"
                f" the legal actions are {np.flatnonzero(legal[row])}"
            )


def own_sequence(tree: GameTree, player: int) -> Int[np.ndarray, " H"]:
    """Last own decision and action at each history: state * A + action, or -1 before any."""
    sequence = np.full(tree.num_histories, -1, np.int64)
    own = tree.information_state[:, player].astype(np.int64) * tree.num_actions
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted = tree.actor[above] == player
        sequence[rows] = np.where(acted, own[above] + tree.parent_action[rows], sequence[above])
    return sequence
