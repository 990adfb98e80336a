"""Scotland Yard (Ravensburger 1983) on any map, as in Schmid et al. 2023.

Mr X (player 0) flees unseen from detectives, who are one player (1) and move one after the other.
Every move costs a ticket; the detectives' tickets go to Mr X. All players see the detectives, the
tickets that Mr X uses, and his station after some of his moves. Mr X loses (-1) if a detective
comes to his station or if he cannot move in his turn, and wins (1) if the detectives have not
caught him after their turn in the last round. Nobody may go to a station with a detective. A double
card lets Mr X move twice in one turn. A detective that cannot move passes.

Actions are the moves of a station's row of `maps.Moves`. The last action is to play a double card,
or for a detective to pass. Start cards are dealt to the detectives openly, then to Mr X secretly.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import choose
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, record
from jaxgames.registry import register
from jaxgames.scotland_yard import editions
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
    open_tickets,
    outcome,
)
from jaxgames.scotland_yard.editions import AS_EDITION, PARAMETERS
from jaxgames.scotland_yard.maps import BLACK, NOWHERE, TICKETS, Map, Moves, load_map, moves

_UNSEEN = 1  # what the detectives see of Mr X's start


@record
class ScotlandYardState(State):
    """Scotland Yard; T is `max_depth`."""

    board: Board
    mr_x: Array  # [] int32 his station, NOWHERE before the deal
    shown: Array  # [] int32 his station when last shown, NOWHERE before
    result: Array  # [] int32 RUNNING, LOST or WON, for Mr X
    num_steps: Array  # [] int32
    moves_made: Array  # [T] int32 all actions and outcomes of chance plus 1, 0 where none yet
    moves_seen: Array  # [T] int32 what the detectives saw of them, 0 where none yet


@register("scotland_yard")
@dataclasses.dataclass(frozen=True)
class ScotlandYard(Game):
    """Parameters: `map` (london, glasses, district or an added one) and `edition`, which sets the
    others.

    The default edition is that of the map's name on glasses and district, and student_of_games on
    all others; see `editions.Edition` for the other parameters. Start cards are station numbers.
    With `reveals=0` Mr X never shows himself.
    """

    map: str = "london"
    edition: str = ""
    detectives: int = AS_EDITION
    rounds: int = AS_EDITION
    reveals: tuple[int, ...] = (AS_EDITION,)
    detective_tickets: tuple[int, ...] = (AS_EDITION,)
    mr_x_tickets: tuple[int, ...] = (AS_EDITION,)
    black: int = AS_EDITION
    doubles: int = AS_EDITION
    detective_starts: tuple[int, ...] = (AS_EDITION,)
    mr_x_starts: tuple[int, ...] = (AS_EDITION,)

    def __post_init__(self):
        load_map(self.map)
        edition = self.edition or editions.edition_of(self.map)
        values = editions.complete_parameters(
            edition, {name: getattr(self, name) for name in PARAMETERS}
        )
        editions.check(self.map, values)
        for name, value in (values | {"edition": edition}).items():
            object.__setattr__(self, name, value)

    def parameters(self) -> dict[str, object]:
        """The map, and the parameters that differ from those of its edition."""
        sizes = {"detectives": self.detectives, "rounds": self.rounds}
        edition = editions.EDITIONS[self.edition]
        usual = editions.complete_parameters(self.edition, sizes)
        usual |= {name: getattr(edition, name) for name in sizes}
        usual |= {"edition": editions.edition_of(self.map)}
        named = {name: getattr(self, name) for name in ("edition", *PARAMETERS)}
        return {"map": self.map} | {k: v for k, v in named.items() if v != usual[k]}

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return self.moves.to.shape[1] + 1

    @property
    def num_open(self) -> int:
        """The most moves that a detective has anywhere; then comes the action to pass."""
        table = self.moves
        return int(np.max(np.sum((table.to != NOWHERE) & (table.ticket < BLACK), axis=1)))

    @property
    def num_chance_outcomes(self) -> int:
        return self._cards.shape[1]

    @property
    def max_depth(self) -> int:
        doubles = min(self.doubles, self.rounds // 2)
        return self.num_deals + self.rounds * (1 + self.detectives) + doubles

    @property
    def layout(self) -> Map:
        """The stations and lines of the map."""
        return load_map(self.map)

    @property
    def num_stations(self) -> int:
        """N."""
        return len(self.layout.numbers)

    @property
    def moves(self) -> Moves:
        """The moves on the map, as NumPy arrays."""
        return moves(self.map, black=self.black > 0)

    @property
    def reveal_mask(self) -> np.ndarray:
        """Whether Mr X shows himself after each number of moves `[rounds + 1]`."""
        return np.isin(np.arange(self.rounds + 1), [r for r in self.reveals if r > 0])

    @property
    def num_deals(self) -> int:
        """The number of start cards that chance deals; 0 if there is no choice of cards."""
        return self._num_detective_deals + (len(self.mr_x_starts) > 1)

    @property
    def _num_detective_deals(self) -> int:
        return self.detectives if len(self.detective_starts) > self.detectives else 0

    @property
    def _cards(self) -> np.ndarray:
        """Stations on the cards of the detectives and of Mr X `[2, C]`, NOWHERE at padding."""
        decks = (self.detective_starts, self.mr_x_starts)
        cards = np.full((2, max(map(len, decks))), NOWHERE, np.int32)
        for row, deck in zip(cards, decks, strict=True):
            row[: len(deck)] = np.searchsorted(self.layout.numbers, deck)
        return cards

    def initial_board(self) -> Board:
        """The board before the deal, or after it where nothing is dealt to the detectives."""
        starts = self._cards[0, : self.detectives]
        if self._num_detective_deals:
            starts = np.full_like(starts, NOWHERE)
        tickets = [(*self.mr_x_tickets, self.black)]
        tickets += [(*self.detective_tickets, 0)] * self.detectives
        return Board(
            detectives=jnp.asarray(starts, jnp.int32),
            tickets=jnp.asarray(tickets, jnp.int32),
            doubles=jnp.int32(self.doubles),
            moves=jnp.int32(0),
            turn=jnp.int32(0),
            doubling=jnp.int32(0),
        )

    def init(self) -> ScotlandYardState:
        mr_x = NOWHERE if len(self.mr_x_starts) > 1 else int(self._cards[1, 0])
        none = jnp.zeros(self.max_depth, jnp.int32)
        return self._state(
            self.initial_board(), jnp.int32(mr_x), jnp.int32(NOWHERE), jnp.int32(0), none, none
        )

    def step(self, state: ScotlandYardState, action: Int[Array, ""]) -> ScotlandYardState:
        board, mr_x, seen = self._move(state, action)
        if self.num_deals:
            dealt = self._deal(state, action)
            board, mr_x, seen = choose(state.actor == CHANCE, dealt, (board, mr_x, seen))
        moved = board.moves > state.board.moves
        shows = moved & jnp.asarray(self.reveal_mask)[board.moves]
        seen = seen + jnp.where(shows, (BLACK + 2) * (mr_x + 1), 0)
        now = jnp.arange(self.max_depth, dtype=jnp.int32) == state.num_steps
        after = self._state(
            board,
            mr_x,
            jnp.where(shows, mr_x, state.shown),
            state.num_steps + 1,
            jnp.where(now, action + 1, state.moves_made),
            jnp.where(now, seen, state.moves_seen),
        )
        return absorb(state, after)

    def _move(self, state, action):
        """Board, Mr X's station and what is seen after a player's action."""
        board, last = state.board, self.num_actions - 1
        table, his = self._table(), board.turn == 0
        special = action == jnp.where(his, last, self.num_open)
        slot = jnp.minimum(action, last - 1)
        station = jnp.where(his, state.mr_x, board.detectives[board.turn - 1])
        to, ticket = table.to[station, slot], table.ticket[station, slot]
        mr_x = jnp.where(his & ~special, to, state.mr_x)
        seen = jnp.where(his, jnp.where(special, BLACK + 1, ticket), action) + 1
        return advance(board, to, ticket, special), mr_x, seen

    def _deal(self, state, card):
        """The same after chance has dealt a card."""
        stations, number = jnp.asarray(self._cards), state.num_steps
        to_detective = number < self._num_detective_deals
        players = jnp.arange(self.detectives, dtype=jnp.int32)
        station = jnp.where(to_detective, stations[0, card], stations[1, card])
        gets = to_detective & (players == number)
        board = state.board.replace(detectives=jnp.where(gets, station, state.board.detectives))
        mr_x = jnp.where(to_detective, state.mr_x, station)
        return board, mr_x, jnp.where(to_detective, card + 1, _UNSEEN)

    def _state(self, board, mr_x, shown, num_steps, moves_made, moves_seen) -> ScotlandYardState:
        dealing = num_steps < self.num_deals
        end = outcome(self._table(), board, mr_x, self.rounds)
        result = jnp.where(dealing, RUNNING, end).astype(jnp.int32)
        player = jnp.where(board.turn == 0, 0, 1)
        actor = jnp.where(dealing, CHANCE, jnp.where(result == RUNNING, player, TERMINAL))
        payoff = (result == WON).astype(float) - (result == LOST).astype(float)
        return ScotlandYardState(
            actor=actor.astype(jnp.int32),
            legal=self._legal(board, mr_x) & (actor >= 0),
            chance_probs=self._chance_probs(board, num_steps),
            returns=jnp.stack([payoff, -payoff]),
            board=board,
            mr_x=mr_x,
            shown=shown,
            result=result,
            num_steps=num_steps,
            moves_made=moves_made,
            moves_seen=moves_seen,
        )

    def _legal(self, board, mr_x):
        table = self._table()
        opens = open_tickets(table, board, table.to[mr_x])
        goes_on = can_pay_on(board.tickets[0], opens, table.ticket[mr_x])
        his = mr_x_legal(table, board, mr_x, goes_on, self.rounds)
        theirs = detective_legal(table, board, self.num_open)
        theirs = jnp.pad(theirs, (0, self.num_actions - len(theirs)))
        return jnp.where(board.turn == 0, his, theirs)

    def _chance_probs(self, board, num_steps):
        cards = jnp.asarray(self._cards)
        cards = jnp.where(num_steps < self._num_detective_deals, cards[0], cards[1])
        free = ~jnp.any(cards[:, None] == board.detectives[None, :], axis=1) & (cards != NOWHERE)
        free = (free & (num_steps < self.num_deals)).astype(float)
        return free / jnp.maximum(jnp.sum(free), 1.0)

    def _table(self) -> Moves:
        return jax.tree.map(jnp.asarray, self.moves)

    def information_state(self, state: ScotlandYardState, player: int) -> Int[Array, " L"]:
        """Number of steps, result, then all moves: as made for Mr X, as seen for the detectives."""
        log = state.moves_made if player == 0 else state.moves_seen
        return jnp.concatenate([state.num_steps[None], state.result[None], log])

    def public_state(self, state: ScotlandYardState) -> Int[Array, " M"]:
        """Number of steps, result, then all moves as the detectives saw them."""
        return self.information_state(state, 1)

    def features(self, state: ScotlandYardState, player: int) -> Float[Array, " F"]:
        """The one-hot station of Mr X (all 0 for the detectives), the one-hot station where he was
        last shown, and the public board (see `board.encode`).
        """
        stations = jnp.arange(self.num_stations, dtype=jnp.int32)
        own = (stations == state.mr_x) & (player == 0)
        running = state.actor >= 0
        shared = encode(state.board, running, self.num_stations, self.rounds)
        return jnp.concatenate([own.astype(float), (stations == state.shown).astype(float), shared])

    def belief_game(self) -> BeliefGame:
        """The game by public states and Mr X's stations; see `scotland_yard_beliefs`."""
        from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs  # which imports the rules

        return scotland_yard_beliefs(self)

    def render(self, state: ScotlandYardState) -> str:
        board, result = state.board, ("", ": Mr X has lost", ": Mr X has won")[int(state.result)]
        shown = "" if int(state.shown) == NOWHERE else f", last shown at {self._at(state.shown)}"
        stations = [state.mr_x, *board.detectives]
        names = ["Mr X", *(f"detective {d + 1}" for d in range(self.detectives))]
        cards = [
            " ".join(f"{n} {t}" for n, t in zip(TICKETS, own, strict=True) if t)
            for own in np.asarray(board.tickets)
        ]
        cards[0] += f" double {int(board.doubles)}" if int(board.doubles) else ""
        rows = [
            f"{name} at {self._at(station)}: {own or 'no ticket'}"
            for name, station, own in zip(names, stations, cards, strict=True)
        ]
        title = f"after {int(board.moves)} of {self.rounds} rounds{shown}{result}"
        return "\n".join([title, *rows])

    def action_name(self, state: ScotlandYardState, action: int) -> str:
        if int(state.actor) == CHANCE:
            deal = int(state.num_steps)
            theirs = deal < self._num_detective_deals
            who = f"detective {deal + 1}" if theirs else "Mr X"
            return f"{who} starts at {self._at(self._cards[0 if theirs else 1, action])}"
        turn = int(state.board.turn)
        if action == (self.num_open if turn else self.num_actions - 1):
            return "pass" if turn else "double"
        station = int(state.board.detectives[turn - 1] if turn else state.mr_x)
        ticket = TICKETS[self.moves.ticket[station, action]]
        return f"{ticket} to {self._at(self.moves.to[station, action])}"

    def _at(self, station) -> str:
        """The number printed at a station."""
        return "?" if int(station) == NOWHERE else str(self.layout.numbers[int(station)])
