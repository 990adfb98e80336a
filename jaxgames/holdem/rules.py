"""The rules of poker with the parameters of the ACPC's game definitions: hold'em and smaller games,
down to Kuhn poker.

Cards are dealt one by one, first every player's private cards, then each round's board cards. Card
`suits * rank + suit` has the rank and suit of `cards.py`. Money is in whole chips. The chips that a
player has *spent* count from the start of the hand, blinds included, and a raise is named by the
total that it raises them to. Details follow the ACPC's reference implementation
(project_acpc_server, `game.c`): players who are all-in do not act; when all players but one are,
the rest of the board is dealt at once; side pots go to the best hand that paid for them; a raise is
at least as large as the last one of its round, or all-in.

Actions: 0 folds (when facing a bet), 1 checks or calls. In limit games 2 raises. In no-limit games
1 + n raises to n chips; or, with `bets`, 2 + i makes the i-th of these: a fraction of the pot after
calling, "allin", or "random", a fraction of 0.5, 0.51, ..., 1 that chance draws for the whole hand
before the deal, so that agents learn about many sizes with few actions (Schmid et al. 2023,
"Student of Games").
"""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import choose
from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, no_legal, record
from jaxgames.holdem.cards import RANKS, SUITS
from jaxgames.holdem.hand_evaluator import in_full_deck, strength
from jaxgames.holdem.poker_parameters import MAX_STACK, UNLIMITED, check_parameters
from jaxgames.registry import register

FOLD, CALL = 0, 1
NOTHING = -1  # no card dealt, or no action taken yet
PERCENTS = range(50, 101)  # of the pot, from which "random" is drawn


@record
class PokerState(State):
    """A hand of poker."""

    hole: Array  # [P, H] int32, NOTHING before the deal
    board: Array  # [B] int32
    num_dealt: Array  # [] int32 cards, all players' and the board's
    spent: Array  # [P] int32
    folded: Array  # [P] bool
    called: Array  # [P] bool: has acted in this round, and nobody has raised since
    round: Array  # [] int32
    num_raises: Array  # [] int32 in this round
    least_raise: Array  # [] int32 chips that the next raise must raise to, unless all-in
    over: Array  # [] bool: no more betting
    num_taken: Array  # [] int32 number of actions
    history: Array  # [T] int32 these actions, NOTHING after them
    percent: Array  # [] int32 of the pot: the size of "random" bets, NOTHING before it is drawn


@register("poker")
@dataclasses.dataclass(frozen=True)
class Poker(Game):
    """A game of poker; by default two-player limit hold'em.

    Attributes:
      players: 2 to 10.
      limit: whether raises have fixed sizes.
      blinds: chips by player.
      stack: chips of every player; 0, in limit games only: any number.
      first: the player who acts first, by round.
      board: cards that are dealt to the board before each round.
      raise_sizes: chips by round, in limit games.
      max_raises: by round, bets included; 0: any number.
      hole: private cards of each player.
      ranks: of the deck.
      suits: of the deck.
      bets: in no-limit games, fractions of the pot, "random" and "allin"; empty: all raises.
    """

    players: int = 2
    limit: bool = True
    blinds: tuple[int, ...] = (10, 5)
    stack: int = 0
    first: tuple[int, ...] = (1, 0, 0, 0)
    board: tuple[int, ...] = (0, 3, 1, 1)
    raise_sizes: tuple[int, ...] = (10, 10, 20, 20)
    max_raises: tuple[int, ...] = (3, 4, 4, 4)
    hole: int = 2
    ranks: int = 13
    suits: int = 4
    bets: tuple[str, ...] = ()

    def __post_init__(self):
        check_parameters(self)

    @property
    def num_players(self) -> int:
        return self.players

    @property
    def num_actions(self) -> int:
        if self.limit:
            return 3
        return 2 + len(self.bets) if self.bets else 2 + self.stack

    @property
    def num_chance_outcomes(self) -> int:
        return max(self._num_cards, len(PERCENTS)) if self.draws_size else self._num_cards

    @property
    def max_depth(self) -> int:
        return self.draws_size + self._num_hole + sum(self.board) + self._most_taken

    @property
    def draws_size(self) -> bool:
        """Whether chance draws the size of bets before the deal."""
        return "random" in self.bets

    @property
    def _num_cards(self) -> int:
        return self.ranks * self.suits

    @property
    def _num_hole(self) -> int:
        return self.players * self.hole

    @property
    def _most_taken(self) -> int:
        """The most actions of a hand: in each round all players act, and all others once more after
        each raise."""
        rounds = len(self.board)
        step = max(*self.blinds, 1)
        if self.limit:
            step = min(step, *self.raise_sizes)
        by_stack = self.stack // step + self.players if self.stack else MAX_STACK
        limits = [count or by_stack for count in self.max_raises]
        raises = min(sum(limits), by_stack)
        return rounds * self.players + raises * (self.players - 1)

    @property
    def _stack(self) -> int:
        return self.stack or MAX_STACK

    def init(self) -> PokerState:
        players = self.players
        blinds = jnp.array(self.blinds, jnp.int32)
        state = PokerState(
            actor=jnp.int32(CHANCE),
            legal=no_legal(self.num_actions),
            chance_probs=jnp.zeros(self.num_chance_outcomes, float),
            returns=jnp.zeros(players, float),
            hole=jnp.full((players, self.hole), NOTHING, jnp.int32),
            board=jnp.full(sum(self.board), NOTHING, jnp.int32),
            num_dealt=jnp.int32(0),
            spent=blinds,
            folded=jnp.zeros(players, bool),
            called=jnp.zeros(players, bool),
            round=jnp.int32(0),
            num_raises=jnp.int32(0),
            least_raise=jnp.int32(max(2 * max(self.blinds), 1)),
            over=jnp.bool_(False),
            num_taken=jnp.int32(0),
            history=jnp.full(self._most_taken, NOTHING, jnp.int32),
            percent=jnp.int32(NOTHING),
        )
        return state.replace(chance_probs=self._chance(state))

    def step(self, state: PokerState, action: Int[Array, ""]) -> PokerState:
        dealing = state.actor == CHANCE
        dealt, bet = self._deal(state, action), self._bet(state, action)
        after = choose(dealing, dealt, bet)
        begins = dealing | (after.round > state.round)  # no card may be dealt in a later round
        last = jnp.where(begins, self._at_round(self.first, after.round) - 1, state.actor)
        after = after.replace(actor=self._actor(after, last))
        after = after.replace(
            legal=self._legal(after) & (after.actor >= 0),
            chance_probs=jnp.where(after.actor == CHANCE, self._chance(after), 0.0),
            returns=jnp.where(after.actor == TERMINAL, self._returns(after), 0.0),
        )
        return absorb(state, after)

    def _at_round(self, values, round):
        return jnp.array(values, jnp.int32)[round]

    def _deal(self, state, card):
        """Draws the size of bets, or deals the next card to a player or to the board."""
        sizing = self.draws_size & (state.percent == NOTHING)
        place = jnp.where(sizing, NOTHING, state.num_dealt)
        hole = jnp.arange(self._num_hole, dtype=jnp.int32).reshape(self.players, self.hole)
        board = self._num_hole + jnp.arange(sum(self.board), dtype=jnp.int32)
        return state.replace(
            hole=jnp.where(hole == place, card, state.hole),
            board=jnp.where(board == place, card, state.board),
            num_dealt=place + 1,
            percent=jnp.where(sizing, PERCENTS[0] + card, state.percent),
        )

    def _bet(self, state, action):
        """Makes an action of the actor, and begins the next round if it ends this one."""
        acting = jnp.arange(self.players, dtype=jnp.int32) == state.actor
        raising, stakes = action > CALL, jnp.max(state.spent)
        to = jnp.where(raising, self._raise_to(state, action), stakes)
        spent = jnp.minimum(to, self._stack)
        spent = jnp.where(acting & (action != FOLD), spent, state.spent)
        folded = state.folded | (acting & (action == FOLD))
        called = jnp.where(raising, acting, state.called | (acting & (action == CALL)))
        # the next raise must be as large as this one
        least = jnp.where(
            raising, jnp.maximum(state.least_raise, 2 * to - stakes), state.least_raise
        )
        can_act = ~folded & (spent < self._stack)
        alone = jnp.sum(~folded, dtype=jnp.int32) <= 1
        ends = alone | jnp.all(called | ~can_act)
        last = state.round == len(self.board) - 1
        over = ends & (alone | last | (jnp.sum(can_act, dtype=jnp.int32) <= 1))
        next_round = jnp.where(over, len(self.board) - 1, state.round + 1)
        first_raise = jnp.max(spent) + max(*self.blinds, 1)
        place = jnp.arange(self._most_taken, dtype=jnp.int32) == state.num_taken
        return state.replace(
            spent=spent,
            folded=folded,
            called=called & ~ends,
            round=jnp.where(ends, next_round, state.round),
            num_raises=jnp.where(ends, 0, state.num_raises + raising.astype(jnp.int32)),
            least_raise=jnp.where(ends, first_raise, least),
            over=over,
            num_taken=state.num_taken + 1,
            history=jnp.where(place, action, state.history),
        )

    def _actor(self, state, last):
        """The next actor: chance while cards of the round are missing, else the first player after
        `last` who can act."""
        needed = self._num_hole + self._at_round(
            tuple(itertools.accumulate(self.board)), state.round
        )
        alone = jnp.sum(~state.folded, dtype=jnp.int32) <= 1
        can_act = ~state.folded & (state.spent < self._stack)
        players = jnp.arange(self.players, dtype=jnp.int32)
        distance = (players - last - 1) % self.players
        turn = jnp.argmin(jnp.where(can_act, distance, self.players)).astype(jnp.int32)
        missing = (state.num_dealt < needed) & ~alone
        return jnp.where(missing, CHANCE, jnp.where(state.over, TERMINAL, turn))

    def _legal(self, state) -> Bool[Array, " A"]:
        own, stakes = self._of_actor(state, state.spent), jnp.max(state.spent)
        can_act = ~state.folded & (state.spent < self._stack)
        limit = self._at_round(self.max_raises, state.round)
        may_raise = (limit == UNLIMITED) | (state.num_raises < limit)
        may_raise = may_raise & (jnp.sum(can_act, dtype=jnp.int32) > 1)
        if self.limit:
            raises = jnp.stack([may_raise & (stakes < self._stack)])
        else:
            actions = jnp.arange(2, self.num_actions, dtype=jnp.int32)
            to = jax.vmap(lambda action: self._raise_to(state, action))(actions)
            least = jnp.minimum(state.least_raise, self._stack)
            enough = (to >= least) & (to <= self._stack)
            raises = may_raise & (stakes < self._stack) & enough
        return jnp.concatenate([jnp.stack([own < stakes, jnp.bool_(True)]), raises])

    def _raise_to(self, state, action):
        """The chips that an action raises to; in no-limit games also if that is not legal."""
        stakes = jnp.max(state.spent)
        if self.limit:
            size = self._at_round(self.raise_sizes, state.round)
            return jnp.minimum(stakes + size, self._stack)
        if not self.bets:
            return action - 1
        pot = jnp.sum(state.spent, dtype=jnp.int32) + stakes - self._of_actor(state, state.spent)
        special = {
            "allin": self._stack - stakes,
            "random": pot // 100 * state.percent + pot % 100 * state.percent // 100,
        }
        sizes = [special[bet] if bet in special else _share(pot, bet) for bet in self.bets]
        return stakes + jnp.stack(sizes)[jnp.clip(action - 2, 0, len(sizes) - 1)]

    def _of_actor(self, state, values):
        """The actor's entry of values `[P]`."""
        acts = jnp.arange(self.players, dtype=jnp.int32) == state.actor
        return jnp.sum(jnp.where(acts, values, 0), dtype=jnp.int32)

    def _chance(self, state) -> Float[Array, " C"]:
        """The probability of each card, or size of bets, to come next."""
        outcomes = jnp.arange(self.num_chance_outcomes, dtype=jnp.int32)
        seen = jnp.concatenate([state.hole.ravel(), state.board])
        possible = ~jnp.any(outcomes[:, None] == seen[None, :], axis=1)
        possible = possible & (outcomes < self._num_cards)
        if self.draws_size:
            possible = jnp.where(state.percent == NOTHING, outcomes < len(PERCENTS), possible)
        count = jnp.maximum(jnp.sum(possible, dtype=jnp.int32), 1)
        return possible.astype(float) / count.astype(float)

    def _returns(self, state) -> Float[Array, " P"]:
        """The chips that every player wins from all pots, less the chips that it has spent."""
        shared = jnp.broadcast_to(state.board, (self.players, len(state.board)))
        cards = jnp.maximum(jnp.concatenate([state.hole, shared], axis=1), 0)
        hands = strength(in_full_deck(cards, self.suits))
        hands = jnp.where(state.folded, NOTHING, hands)
        # one pot for each level of chips: players who paid up to the level may win it
        won, below = jnp.zeros(self.players, float), jnp.int32(0)
        for level in [jnp.sort(state.spent)[i] for i in range(self.players)]:
            paid = jnp.clip(state.spent, below, level) - below
            into = ~state.folded & (state.spent >= level)
            best = jnp.max(jnp.where(into, hands, NOTHING))
            wins = (into & (hands == best)).astype(float)
            pot = jnp.sum(paid, dtype=jnp.int32).astype(float)
            won = won + wins * (pot / jnp.maximum(jnp.sum(wins), 1))
            below = level
        return won - state.spent.astype(float)

    def information_state(self, state: PokerState, player: int) -> Int[Array, " L"]:
        """The player's own cards, then the public state; cards of a round are shown together."""
        return jnp.concatenate([self._own_cards(state, player), self.public_state(state)])

    def public_state(self, state: PokerState) -> Int[Array, " M"]:
        """The number of cards dealt, the board, all actions, and the size of "random" bets."""
        drawn = [state.percent[None]] if self.draws_size else []
        return jnp.concatenate([state.num_dealt[None], *self._boards(state), state.history, *drawn])

    def features(self, state: PokerState, player: int) -> Float[Array, " F"]:
        """Fractions of their stacks that players have spent; the own cards and the board by round,
        one-hot; who has folded; the actor and the round, one-hot; the size of bets if it is drawn.
        """
        cards = jnp.arange(self._num_cards, dtype=jnp.int32)
        parts = [self._own_cards(state, player), *filter(len, self._boards(state))]
        seen = [jnp.any(part[:, None] == cards[None, :], axis=0) for part in parts]
        players = jnp.arange(self.players, dtype=jnp.int32)
        rounds = jnp.arange(len(self.board), dtype=jnp.int32)
        money = state.spent.astype(float) / (self.stack or self._most_spent)
        known = [*seen, state.folded, players == state.actor, rounds == state.round]
        drawn = [state.percent[None].astype(float) / 100] if self.draws_size else []
        return jnp.concatenate([money, *(part.astype(float) for part in known), *drawn])

    def _own_cards(self, state, player):
        """A player's private cards in order, once all players have theirs."""
        return jnp.where(state.num_dealt >= self._num_hole, jnp.sort(state.hole[player]), NOTHING)

    def _boards(self, state):
        """The board's cards by round, in order, once all cards of the round are dealt."""
        ends = itertools.accumulate(self.board)
        return [
            jnp.where(
                state.num_dealt >= self._num_hole + end,
                jnp.sort(state.board[end - count : end]),
                NOTHING,
            )
            for end, count in zip(ends, self.board, strict=True)
        ]

    @property
    def _most_spent(self) -> int:
        """The most chips that a player can spend in a limit game without stacks."""
        sizes = zip(self.raise_sizes, self.max_raises, strict=True)
        return max(self.blinds) + sum(size * count for size, count in sizes)

    def render(self, state: PokerState) -> str:
        hands = " ".join(self._cards(hand) for hand in np.asarray(state.hole))
        actions = " ".join(self._action(int(a)) for a in np.asarray(state.history) if a != NOTHING)
        spent = " ".join(map(str, np.asarray(state.spent)))
        board = self._cards(np.asarray(state.board)) or "-"
        text = f"hands: {hands}  board: {board}  actions: {actions or '-'}  spent: {spent}"
        return f"{text}  random bets: {int(state.percent)}%" if self.draws_size else text

    def action_name(self, state: PokerState, action: int) -> str:
        if self.draws_size and int(state.percent) == NOTHING:
            return f"random bets are {PERCENTS[action]}% of the pot"
        if int(state.actor) == CHANCE:
            return f"deal {self._card(action)}"
        return self._action(action)

    def _action(self, action):
        if action <= CALL:
            return ("fold", "call")[action]
        if self.limit:
            return "raise"
        if not self.bets:
            return f"raise to {action - 1}"
        bet = self.bets[action - 2]
        if bet == "random":
            return "raise the drawn share of the pot"
        return "all-in" if bet == "allin" else f"raise {bet} of the pot"

    def _card(self, card):
        return RANKS[int(card) // self.suits] + SUITS[int(card) % self.suits]

    def _cards(self, cards):
        return "".join(self._card(card) for card in cards if card != NOTHING)


def _share(pot, bet):
    """A fraction of a pot in whole chips, rounded down; in integers, since float32 cannot represent
    all numbers of chips."""
    fraction = Fraction(bet).limit_denominator(10_000)
    over, under = fraction.numerator, fraction.denominator
    return pot // under * over + pot % under * over // under
