"""Scotland Yard as a belief-level game: Mr X's rows are the stations at which he may be.

Information states are merged: how Mr X came to a station does not matter for the rest of the game,
so his own reach of a station is the sum over his routes. The detectives know everything but his
station; they have one row.

Public children, by actor:
- Mr X: one for each ticket, then one for the double card.
- A detective: two for each move (the last move is to pass). In the first of the two the game goes
  on, or Mr X has survived the last round; in the second he has lost, because he was caught or
  cannot move. Which of the two happened is public.
- Mr X shows himself: a public event with one outcome for each of the N stations. To keep the number
  of children small it is split into two CHANCE nodes at which nothing is drawn: first the block of
  about sqrt(N) stations that he is in is shown, then his station in it. In London this takes
  K = 28 children instead of 199.
"""

from __future__ import annotations

from collections.abc import Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import at, choose
from jaxgames.beliefs.contract import BeliefGame, Policy, Reach, Rows, Values
from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.game_tree import GameTree
from jaxgames.scotland_yard.board import (
    LOST,
    RUNNING,
    WON,
    Board,
    advance,
    can_pay_on,
    detective_legal,
    encode,
    mr_x_legal,
)
from jaxgames.scotland_yard.late_starts import late_start, reveals_before_the_end
from jaxgames.scotland_yard.maps import BLACK, NOWHERE, Moves
from jaxgames.scotland_yard.places import history_places
from jaxgames.scotland_yard.rules import ScotlandYard

NOT_SHOWING, BLOCK_NEXT, STATION_NEXT = 0, 1, 2
_DOUBLE = BLACK + 1  # Mr X's child after a double card


@record
class YardPublicState:
    """What everybody knows of a position."""

    board: Board
    possible: Array  # [N] bool stations at which Mr X may be
    result: Array  # [] int32 RUNNING, LOST or WON, for Mr X
    showing: Array  # [] int32 NOT_SHOWING, or what of Mr X's station is shown next
    block: Array  # [] int32 the block that was shown, at STATION_NEXT


@record
class ScotlandYardBeliefs(BeliefGame):
    """Scotland Yard from the deal of the detectives on, built by `scotland_yard_beliefs`.

    Actions are those of the `game`; the detectives have its first A1. Chance moves nothing after
    the start, so W is the same for all pairs of rows that exist.
    """

    name: str = flax.struct.field(pytree_node=False)
    num_rows: tuple[int, int] = flax.struct.field(pytree_node=False)
    num_actions: tuple[int, int] = flax.struct.field(pytree_node=False)
    num_children: int = flax.struct.field(pytree_node=False)
    max_depth: int = flax.struct.field(pytree_node=False)
    table: Moves
    start: YardPublicState
    deal: Array  # [] float chance's probability of each of Mr X's possible starts
    num_lines: Array  # [N, 4] int32 moves from each station by ticket
    game: ScotlandYard = flax.struct.field(pytree_node=False)
    num_blocks: int = flax.struct.field(pytree_node=False)
    late_starts: float = flax.struct.field(pytree_node=False, default=0.0)

    straight = (False, True, True)
    merges_rows = True  # how Mr X came to a station

    @property
    def action_of_child(self) -> tuple[int, ...]:
        return tuple(k // 2 for k in range(2 * self.num_actions[1]))

    def root(self) -> YardPublicState:
        return self.start

    def random_root(self, key: Key[Array, ""]) -> YardPublicState:
        """The root after a deal, or with probability `late_starts` a position later in the game.

        Args:
          key: consumed.

        Raises:
          ValueError: Mr X has more possible starts after some deals than after others.
        """
        if not self.late_starts:
            return self._random_deal(key)
        coin, deal, position = jax.random.split(key, 3)
        board, station = late_start(self.game, position)
        later = self.start.replace(board=board, possible=self._stations() == station)
        is_late = jax.random.bernoulli(coin, self.late_starts)
        return choose(is_late, later, self._random_deal(deal))

    def _random_deal(self, key):
        theirs, his = {*self.game.detective_starts}, {*self.game.mr_x_starts}
        if len(theirs) == self.game.detectives:
            return self.start
        if theirs & his not in (theirs, set()):
            raise ValueError(
                f"{self.name}: mr_x_starts={self.game.mr_x_starts} must contain all or none of"
                f" detective_starts={self.game.detective_starts}, for deals to weigh the same"
            )
        cards = jnp.asarray(_numbers_of(self.game, self.game.detective_starts), jnp.int32)
        return self.root_of(jax.random.permutation(key, cards)[: self.game.detectives])

    def root_of(self, detectives: Int[Array, " D"]) -> YardPublicState:
        """The root after a deal, by the numbers (from 0 on) of the detectives' stations."""
        his = _numbers_of(self.game, self.game.mr_x_starts)
        possible = jnp.zeros(self.num_rows[0], bool).at[his].set(True).at[detectives].set(False)
        board = self.start.board.replace(detectives=detectives)
        return self.start.replace(board=board, possible=possible)

    def actor(self, state: YardPublicState) -> Int[Array, ""]:
        player = jnp.where(state.board.turn == 0, 0, 1)
        player = jnp.where(state.showing == NOT_SHOWING, player, CHANCE)
        return jnp.where(state.result == RUNNING, player, TERMINAL).astype(jnp.int32)

    def rows(self, state: YardPublicState) -> Rows:
        return state.possible, jnp.any(state.possible, keepdims=True)

    def legal(self, state: YardPublicState) -> tuple[Bool[Array, "A0 N0"], Bool[Array, "A1 N1"]]:
        actor = self.actor(state)
        return self._his_legal(state) & (actor == 0), self._their_legal(state) & (actor == 1)

    @jax.jit  # as `children`
    def _his_legal(self, state):
        """Mr X's moves `[A0, N0]`, if it is his turn."""
        board, stations = state.board, self._stations()
        his = mr_x_legal(self.table, board, stations, self._goes_on(board), self.game.rounds)
        return his.T & state.possible[None]

    def _their_legal(self, state):
        """The detective's moves `[A1, N1]`, if it is a detective's turn."""
        return detective_legal(self.table, state.board, self.game.num_open)[:, None]

    @jax.jit  # several methods need it: traced once for all of them
    def children(self, state: YardPublicState) -> YardPublicState:
        actor = self.actor(state)
        others = choose(actor == 1, self._after_detective(state), self._after_showing(state))
        return choose(actor == 0, self._after_mr_x(state), others)

    def child_mask(self, state: YardPublicState) -> Bool[Array, " K"]:
        actor, k = self.actor(state), self._children()
        possible = jnp.any(self.children(state).possible, axis=1) & (actor != TERMINAL)
        move = jnp.minimum(k // 2, self.num_actions[1] - 1)
        played = self._their_legal(state)[move, 0] & (k < 2 * self.num_actions[1])
        return possible & ((actor != 1) | played)

    def down(
        self,
        state: YardPublicState,
        child: Int[Array, ""] | int,
        reach: Reach,
        policy: Policy,
    ) -> Reach:
        actor, mask = self.actor(state), self.child_mask(state)[child]
        legal = self.legal(state)
        his = self._arrivals(jnp.where(legal[0], reach[0][None] * policy[0], 0.0))[child]
        move = jnp.minimum(child // 2, self.num_actions[1] - 1)
        theirs = jnp.where(legal[1], reach[1][None] * policy[1], 0.0)[move]
        stays = self.children(state).possible[child]
        his = jnp.where(actor == 0, his, jnp.where(stays, reach[0], 0.0))
        theirs = jnp.where(actor == 1, theirs, reach[1])
        return jnp.where(mask, his, 0.0), jnp.where(mask, theirs, 0.0)

    def up(
        self,
        state: YardPublicState,
        values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]],
    ) -> tuple[Policy, Values]:
        legal, mask = self.legal(state), self.child_mask(state)[:, None]
        moves = 2 * self.num_actions[1]
        below = jnp.where(mask, values[1], 0.0)
        by_move = jnp.sum(below[:moves].reshape(-1, 2, 1), axis=1)  # two children after each move
        actions = jnp.where(legal[0], self._departures(values[0]), 0.0)
        stays = mask & self.children(state).possible
        seen = jnp.sum(jnp.where(stays, values[0], 0.0), axis=0), jnp.sum(below, axis=0)
        return (actions, jnp.where(legal[1], by_move, 0.0)), seen

    def known_down(
        self, actor: int, state: YardPublicState, reach: Reach, policy: Policy
    ) -> tuple[Float[Array, "K N0"], Float[Array, "K N1"]]:
        if actor != 0:
            return super().known_down(actor, state, reach, policy)
        his = self._arrivals(reach[0][None] * policy[0])
        return his, jnp.broadcast_to(reach[1], (self.num_children, 1))

    def known_up(
        self,
        actor: int,
        state: YardPublicState,
        values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        if actor != 0:
            return super().known_up(actor, state, values)
        return self._departures(values[0]), jnp.sum(values[1], axis=0)

    def known_follow(
        self, actor: int, state: YardPublicState, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        if actor != 0:
            return super().known_follow(actor, state, pair, action)
        row, child = self._after_his_move(pair[0], action)
        goes = (self._children() == child)[:, None]
        return jnp.where(goes, jnp.stack([row, jnp.int32(0)])[None], -1)

    def _after_his_move(self, station, action):
        """Where Mr X is after an action, and the child that it leads to."""
        last = self.num_actions[0] - 1
        slot, double = jnp.minimum(action, last - 1), action == last
        row = jnp.where(double, station, self.table.to[station, slot])
        return row, jnp.where(double, _DOUBLE, self.table.ticket[station, slot])

    def follow(
        self, state: YardPublicState, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        actor, k, station = self.actor(state), self._children(), pair[0]
        his_row, his_child = self._after_his_move(station, action)
        row = jnp.where(actor == 0, his_row, station)
        by_player = jnp.where(actor == 0, k == his_child, k // 2 == action)
        passing = self.num_actions[1] - 1
        his, theirs = self.legal(state)
        legal = his[action, station] | (
            theirs[jnp.minimum(action, passing), 0] & (action <= passing)
        )
        possible = self.children(state).possible[:, row] & self.child_mask(state)
        possible &= self._pair_exists(state, pair) & jnp.where(actor >= 0, by_player & legal, True)
        return jnp.where(possible[:, None], jnp.stack([row, jnp.int32(0)])[None, :], -1)

    def weight(self, state: YardPublicState, pair: Int[Array, "2"]) -> Float[Array, ""]:
        return jnp.where(self._pair_exists(state, pair), self.deal, 0.0)

    def compatible(
        self, state: YardPublicState, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        rows = self.rows(state)
        total = jnp.sum(jnp.where(rows[1 - player], opponent_reach, 0.0))
        return jnp.where(rows[player], total * self.deal.astype(total.dtype), 0.0)

    def terminal_values(
        self, state: YardPublicState, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        values = self.compatible(state, player, opponent_reach)
        return jnp.where((state.result == WON) == (player == 0), values, -values)

    def encode(self, state: YardPublicState) -> Float[Array, " F"]:
        """Features as in Schmid et al. 2023 (see `board.encode`).

        Where Mr X shows himself, and at the end, no player is marked as moving next.
        """
        running = self.actor(state) >= 0
        return encode(state.board, running, self.num_rows[0], self.game.rounds)

    def history_places(
        self, tree: GameTree, table: BeliefGame
    ) -> tuple[Int[np.ndarray, " H"], Int[np.ndarray, "H 2"]]:
        return history_places(self.game, tree, table)

    def _after_mr_x(self, state):
        """The children after each ticket and after the double card."""
        k = self._children()
        go = jax.vmap(advance, in_axes=(None, None, 0, 0))
        boards = go(state.board, jnp.int32(NOWHERE), jnp.minimum(k, BLACK), k == _DOUBLE)
        shows = jnp.asarray(self.game.reveal_mask)[boards.moves] & (k < _DOUBLE)
        return YardPublicState(
            board=boards,
            possible=self._arrivals(self._his_legal(state).astype(float)) > 0,
            result=jnp.full_like(k, RUNNING),
            showing=jnp.where(shows, BLOCK_NEXT, NOT_SHOWING).astype(jnp.int32),
            block=jnp.zeros_like(k),
        )

    def _after_detective(self, state):
        """Two children after each move: in the first the game goes on, or Mr X has survived the
        last round; in the second he has lost."""
        station, passing = state.board.detectives[state.board.turn - 1], self.num_actions[1] - 1
        move = jnp.arange(passing + 1, dtype=jnp.int32)
        slot = jnp.minimum(move, passing - 1)
        to, ticket = self.table.to[station, slot], self.table.ticket[station, slot]
        boards = jax.vmap(advance, (None, 0, 0, 0))(state.board, to, ticket, move == passing)
        through = (boards.turn == 0) & (boards.moves == self.game.rounds)
        lost = self._lost(state.board, boards, through)

        k = self._children()
        option, loses = jnp.minimum(k // 2, passing), k % 2 == 1
        goes_on = jnp.where(through, WON, RUNNING)[option]
        return YardPublicState(
            board=at(boards, option),
            possible=state.possible[None, :] & (lost[option] == loses[:, None]),
            result=jnp.where(loses, LOST, goes_on).astype(jnp.int32),
            showing=jnp.zeros_like(k),
            block=jnp.zeros_like(k),
        )

    def _lost(self, before, boards, through):
        """Stations `[C, N]` where Mr X has lost after each move: caught, or unable to move."""
        mover = before.turn - 1
        target = boards.detectives[:, mover]
        others = jnp.arange(self.game.detectives, dtype=jnp.int32) != mover
        opens = self.num_lines - self._lines_to(jnp.where(others, before.detectives, NOWHERE))
        opens = opens[None] - jax.vmap(self._lines_to)(target[:, None]) > 0
        moves = jnp.any(opens & (boards.tickets[:, 0] > 0)[:, None, :], axis=2)
        stuck = ((boards.turn == 0) & ~through)[:, None] & ~moves
        return stuck | (self._stations()[None, :] == target[:, None])

    def _goes_on(self, board):
        """Whether Mr X could move again at once after each of his moves `[N, M]`."""
        if not self.game.doubles:
            return jnp.zeros(self.table.to.shape, bool)
        opens = self.num_lines - self._lines_to(board.detectives) > 0
        after = [can_pay_on(board.tickets[0], opens, ticket) for ticket in range(BLACK + 1)]
        return jnp.stack(after)[self.table.ticket, self.table.to]

    def _lines_to(self, stations):
        """Numbers of moves into any of `stations` `[N, 4]`, by origin and ticket."""
        to, ticket = self.table.to[stations], self.table.ticket[stations]
        exists = (to != NOWHERE) & (stations != NOWHERE)[:, None]
        return jnp.zeros_like(self.num_lines).at[to, ticket].add(exists.astype(jnp.int32))

    def _after_showing(self, state):
        """The children after each block, or after each station of the block."""
        k, stations = self._children(), self._stations()
        block_next = state.showing == BLOCK_NEXT
        size = -(-self.num_rows[0] // self.num_blocks)
        shown = jnp.where(block_next, stations // size, stations - state.block * size)
        return YardPublicState(
            board=jax.tree.map(lambda leaf: _repeat(leaf, k), state.board),
            possible=state.possible[None, :] & (shown[None, :] == k[:, None]),
            result=jnp.full_like(k, RUNNING),
            showing=_repeat(jnp.where(block_next, STATION_NEXT, NOT_SHOWING), k).astype(jnp.int32),
            block=k,
        )

    def _arrivals(self, reach):
        """Sums `[K, N]` of `reach` `[A, N]` over Mr X's moves, by ticket and where they lead."""
        table = self.table
        arriving = jnp.where(table.to == NOWHERE, 0.0, reach[table.back, table.to])
        by_ticket = [
            jnp.sum(jnp.where(table.ticket == ticket, arriving, 0.0), axis=1)
            for ticket in range(BLACK + 1)
        ]
        by_child = jnp.stack([*by_ticket, reach[-1]])
        return jnp.pad(by_child, ((0, self.num_children - len(by_child)), (0, 0)))

    def _departures(self, values):
        """Values `[A0, N]` of Mr X's moves, from those `[K, N]` where they lead."""
        table = self.table
        moves = jnp.where(table.to == NOWHERE, 0.0, values[table.ticket, table.to])
        return jnp.concatenate([moves.T, values[_DOUBLE][None]])

    def _pair_exists(self, state, pair):
        his, theirs = self.rows(state)
        return (pair >= 0).all() & his[pair[0]] & theirs[pair[1]]

    def _stations(self):
        return jnp.arange(self.num_rows[0], dtype=jnp.int32)

    def _children(self):
        return jnp.arange(self.num_children, dtype=jnp.int32)


def scotland_yard_beliefs(
    game: ScotlandYard, *, detective_starts: Sequence[int] = (), late_starts: float = 0.0
) -> ScotlandYardBeliefs:
    """The belief-level game of Scotland Yard, from the deal of the detectives on.

    Args:
      game: the rules.
      detective_starts: the detectives' stations in `root()`; needed if the game deals them. Games
        that differ in nothing else differ in their arrays alone, so `jax.vmap` batches them.
      late_starts: probability that `random_root` is a position after Mr X has shown himself
        (`late_starts.late_start`).

    Returns:
      The game; its root is where Mr X makes his first move.

    Raises:
      ValueError: `detective_starts` is no possible deal, `late_starts` is no probability, or there
        are none, because Mr X does not show himself before the last round.
    """
    if not 0 <= late_starts <= 1:
        raise ValueError(f"late_starts={late_starts} must be from 0 to 1")
    if late_starts:
        reveals_before_the_end(game)
    starts = tuple(detective_starts) or game.detective_starts
    _check_deal(game, starts)
    table = game.moves
    num_stations, width = table.to.shape
    lines = [np.sum((table.to != NOWHERE) & (table.ticket == t), axis=1) for t in range(BLACK + 1)]
    num_blocks = int(np.ceil(np.sqrt(num_stations))) if game.reveal_mask.any() else 1
    free = [start for start in game.mr_x_starts if start not in starts]
    possible = np.isin(game.layout.numbers, free)
    detectives = jnp.asarray(_numbers_of(game, starts), jnp.int32)
    nothing = jnp.int32(0)
    shown = 2 * int(game.reveal_mask.sum())  # two states each
    return ScotlandYardBeliefs(
        name=str(game),
        num_rows=(num_stations, 1),
        num_actions=(width + 1, game.num_open + 1),
        num_children=max(2 * (game.num_open + 1), _DOUBLE + 1, num_blocks),
        max_depth=game.max_depth - game.num_deals + shown,
        table=jax.tree.map(jnp.asarray, table),
        start=YardPublicState(
            board=game.initial_board().replace(detectives=detectives),
            possible=jnp.asarray(possible),
            result=jnp.int32(RUNNING),
            showing=nothing,
            block=nothing,
        ),
        deal=jnp.asarray(1.0 / possible.sum(), float),
        num_lines=jnp.asarray(np.stack(lines, axis=1), jnp.int32),
        game=game,
        num_blocks=num_blocks,
        late_starts=late_starts,
    )


def _numbers_of(game, stations):
    return np.searchsorted(game.layout.numbers, stations)


def _check_deal(game, starts):
    dealt = len(game.detective_starts) > game.detectives
    cards = {*starts} <= {*game.detective_starts} and len({*starts}) == len(starts)
    fixed = dealt or starts == game.detective_starts
    if len(starts) != game.detectives or not cards or not fixed:
        among = "different stations of" if dealt else "exactly"
        first = "/".join(map(str, game.detective_starts[: game.detectives]))
        such = f", such as scotland_yard(detective_starts={first})" if dealt else ""
        raise ValueError(
            f"scotland_yard_beliefs: detective_starts={starts} must be {game.detectives} {among}"
            f" {game.detective_starts}{such}: beliefs begin after the detectives are dealt"
        )


def _repeat(leaf, like):
    return jnp.broadcast_to(leaf, (like.shape[0], *jnp.shape(leaf)))
