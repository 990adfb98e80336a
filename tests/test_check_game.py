"""Every registered game passes `check_game`; games that break one law each are refused."""

import contextlib
import itertools

import jax
import jax.numpy as jnp
import pytest

import jaxgames
from jaxgames import TERMINAL, absorb, check_game, make
from jaxgames.coin_toss import PLAY, CoinToss
from jaxgames.matrix import MatchingPennies
from jaxgames.tic_tac_toe import TicTacToe

VARIANTS = [
    "kuhn_poker(players=3)",
    "leduc_poker(players=3,suit_isomorphism=true)",
    "goofspiel(cards=4,points=descending)",
    "poker(limit=false,stack=12,blinds=1/2/0,players=3,first=2/0,board=0/1,max_raises=0/0,suits=2)",
    "poker(limit=false,stack=40,blinds=2/1,first=1/0,board=0/2,max_raises=0/3,bets=0.5/1/allin)",
    "poker(limit=false,stack=40,blinds=2/1,first=1/0,board=0/2,max_raises=0/3,bets=random/allin)",
]


# these take long
LONG = {
    "goofspiel",
    "liars_dice",
    "poker",
    "scotland_yard",
    "hunl",
    "limit_holdem",
    "nlfh",
    *VARIANTS[1:],
}
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
    for name in (*jaxgames.registered(), *VARIANTS)
]


@pytest.mark.parametrize("name", NAMES)
def test_game_keeps_the_contract(name):
    check_game(make(name))


class Honest(CoinToss):
    """Coin toss under another name; each class below breaks one law of it."""

    name = "toy"


class Nameless(CoinToss):
    name = None


class SameName(CoinToss):  # takes the name of a registered game
    pass


class Unhashable(Honest):
    __hash__ = None


class WrongActorType(Honest):
    def init(self):
        return super().init().replace(actor=jnp.float32(-1))


class WrongMask(Honest):
    def init(self):
        return super().init().replace(legal=jnp.zeros(3, bool))


class SinglePrecision(Honest):
    def init(self):
        state = super().init()
        return state.replace(returns=state.returns.astype(jnp.float32))


class GrowingState(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        return after.replace(moves=jnp.concatenate([after.moves, action[None]]))


class WeaklyTyped(Honest):
    def step(self, state, action):
        return super().step(state, action).replace(actor=jnp.asarray(TERMINAL))


class ScalarKey(Honest):
    def information_state(self, state, player):
        return jnp.int32(0)


class FloatKey(Honest):
    def information_state(self, state, player):
        return state.moves.astype(float)


class UnequalFeatures(Honest):
    def features(self, state, player):
        return jnp.zeros(2 + player, float)


class UnknownActor(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        return after.replace(actor=jnp.where(after.actor == 1, 2, after.actor))


class NoLegalAction(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        return after.replace(legal=after.legal & (after.actor != 1))


class LegalAtTheEnd(Honest):
    def step(self, state, action):
        return super().step(state, action).replace(legal=jnp.ones(2, bool))


class NegativeChance(Honest):
    def init(self):
        return super().init().replace(chance_probs=jnp.array([1.5, -0.5], float))


class WrongChanceSum(Honest):
    def init(self):
        return super().init().replace(chance_probs=jnp.array([0.5, 0.4], float))


class ChanceEverywhere(Honest):
    def step(self, state, action):
        return super().step(state, action).replace(chance_probs=jnp.full(2, 0.5, float))


class InfiniteReturns(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        return after.replace(returns=after.returns / 0.0)


class EarlyReturns(Honest):
    def init(self):
        return super().init().replace(returns=jnp.array([1, -1], float))


class TooLong(Honest):
    max_depth = 2


class Restarts(Honest):  # terminal states are not absorbing
    def step(self, state, action):
        over, root, after = state.actor == TERMINAL, self.init(), super().step(state, action)
        return jax.tree.map(lambda new, old: jnp.where(over, new, old), root, after)


class PublicCoin(Honest):  # leaks the private card into the public key
    def public_state(self, state):
        return state.moves

    def information_state(self, state, player):
        return CoinToss().information_state(state, player)


class PublicBid(MatchingPennies):  # shows the first of two simultaneous bids before the second
    name = "toy"

    def public_state(self, state):
        return state.actions

    def information_state(self, state, player):
        return MatchingPennies().information_state(state, player)


class NoClock(Honest):
    def public_state(self, state):
        return jnp.zeros(1, jnp.int32)


class HiddenTurn(Honest):  # whether "sell" ended the game is hidden
    def public_state(self, state):
        return jnp.sum(state.moves >= 0, dtype=jnp.int32)[None]


class ForgetfulPublic(TicTacToe):
    name = "toy"

    def public_state(self, state):
        return state.board


class ForgetsOwnAction(MatchingPennies):
    name = "toy"

    def information_state(self, state, player):
        return self.public_state(state)


class ForgetsTheCoin(Honest):
    def information_state(self, state, player):
        played = state.moves[1] == PLAY
        known = super().information_state(state, player)
        return known.at[-1].set(jnp.where(played, -1, known[-1]))


class MaskShowsTheCoin(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        only = jnp.arange(2, dtype=jnp.int32) == after.moves[0]
        return after.replace(legal=jnp.where(after.actor == 1, only, after.legal))


class FeaturesShowTheCoin(Honest):
    def features(self, state, player):
        return super().features(state, 0)


class CountsItsCalls(Honest):  # is not a pure function
    def step(self, state, action):
        after = super().step(state, action)
        return absorb(state, after.replace(returns=after.returns * next(CALLS)))


class OtherUnderJit(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        factor = 1.0 if isinstance(action, jax.core.Tracer) else 2.0
        return absorb(state, after.replace(returns=after.returns * factor))


class DependsOnPrecision(Honest):
    def step(self, state, action):
        after = super().step(state, action)
        factor = float(after.returns.dtype.itemsize)
        return absorb(state, after.replace(returns=after.returns * factor))


class EqualNames(Honest):
    def action_name(self, state, action):
        return "move"


class NoPicture(Honest):
    def render(self, state):
        return None


CALLS = itertools.count(1)
BROKEN = {
    Nameless: "has no name",
    SameName: "does not give an equal game",
    Unhashable: "cannot be hashed",
    WrongActorType: r"state.actor is float32\(\), not int32\(\)",
    WrongMask: r"state.legal is bool\(3,\), not bool\(2,\)",
    SinglePrecision: r"state.returns is float32\(2,\), not float64\(2,\)",
    GrowingState: r"step changes the type of state.moves: int32\(3,\) -> int32\(4,\)",
    WeaklyTyped: r"step changes the type of state.actor: int32\(\) -> weak int32\(\)",
    ScalarKey: "information_state is .*not a vector of type integer",
    FloatKey: "information_state is .*not a vector of type integer",
    UnequalFeatures: "features differs in shape or dtype by player",
    UnknownActor: r"actor is not a player, CHANCE or TERMINAL after moves \[\d, 1\]",
    NoLegalAction: r"the player to act has no legal action after moves \[\d, 1\]",
    LegalAtTheEnd: r"legal is not all False though no player acts after moves \[",
    NegativeChance: r"chance_probs has a negative entry after moves \[\]",
    WrongChanceSum: r"chance_probs does not sum to 1 after moves \[\]",
    ChanceEverywhere: r"chance_probs is not 0 though chance does not act after moves \[\d\]",
    InfiniteReturns: "returns is not finite",
    EarlyReturns: r"returns is not 0 before the end after moves \[\]",
    TooLong: r"not over after max_depth = 2 steps after moves \[\d, 1\]",
    Restarts: "a step changes this terminal state",
    PublicCoin: "equal information states of player 1 but different public states: after moves",
    PublicBid: "equal information states of player 1 but different public states: after moves",
    NoClock: "equal public states but different numbers of steps made",
    HiddenTurn: "equal public states but different actors",
    ForgetfulPublic: "equal public states but different public states one step before",
    ForgetsOwnAction: r"states of player 0 but different own last actions \(imperfect recall\)",
    ForgetsTheCoin: r"states of player 0 but different information states one step before \(imp",
    MaskShowsTheCoin: "equal information states of player 1 but different legal actions",
    FeaturesShowTheCoin: "equal information states of player 1 but different features",
    CountsItsCalls: "batched and single steps differ after moves",
    OtherUnderJit: "steps with and without jit differ after moves",
    DependsOnPrecision: "float64 and float32 differ: .states.returns",
    EqualNames: r"different moves have equal names \['move', 'move'\]",
    NoPicture: "render or action_name does not return a string",
}


# Without compilation a game that is refused early is refused sooner; these get further.
COMPILED = (ForgetfulPublic, OtherUnderJit, DependsOnPrecision)


@pytest.mark.parametrize("game", BROKEN, ids=lambda game: game.__name__)
def test_broken_game_is_refused(game):
    with (
        contextlib.nullcontext() if game in COMPILED else jax.disable_jit(),
        pytest.raises(AssertionError, match=BROKEN[game]),
    ):
        check_game(game())


def test_the_same_game_unbroken_passes():
    check_game(Honest())


def test_a_step_traced_often_is_refused():
    with (
        jax.disable_jit(),
        pytest.raises(AssertionError, match="step was traced 16 times, not onc"),
    ):
        check_game(Honest())
