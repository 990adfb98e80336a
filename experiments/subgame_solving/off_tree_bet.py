"""An off-tree bet in no-limit flop hold'em, and answers to it: the trees and their solutions.

Brown, Sandholm and Amos 2018, section 6.1. Shared by `depth_limited_nlfh`, which measures what the
answers lose, and `leaf_values_dnn`, which answers with learned values.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from experiments.subgame_solving.large_solves import large_solve
from jaxgames.holdem.action_translation import translate_bet
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_from_sizes import with_bet
from jaxgames.holdem.rules import Poker
from solvers import cfr, evaluation
from solvers.holdem import nested_street_solving, street_continuations, street_leaf_values
from solvers.holdem.depth_limited_street import cut_street, transferred_leaf_values
from solvers.holdem.policy_translation import translated_tree_policy
from solvers.holdem.subgame_below import PartPolicy, subgame_part
from solvers.holdem.subgame_tree import HoldemTree
from solvers.holdem.whole_games import whole_game_tree
from solvers.sequence_form import Policy

_BLUEPRINT = cfr.cfr_plus()
_STREET = cfr.pcfr_plus()  # converges fastest, and the cut street is small enough for it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    ranks: int = 13
    suits: int = 4
    stack: int = 20_000
    max_raises: tuple[int, int] = (3, 2)  # bets included, before and after the flop
    sizes: str = "50%,100%"  # of the abstraction, for bets and raises
    off_tree: float = 0.75  # of the pot
    values: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # numbers of values at every leaf
    blueprint: int = 1000  # iterations of CFR+ for the blueprint
    reference: int = 3000  # iterations for the value of the game
    generating: int = 1000  # iterations for each strategy that is generated
    solving: int = 2000  # iterations for the first street
    resolving: int = 1000  # iterations for the flop
    storage: str = "full"  # of the large solves (see `cfr.init`)
    form: str | None = None  # of showdowns (see `holdem_tree`)
    save_seconds: float = 300.0  # between two checkpoints of a solve

    @property
    def game(self) -> Poker:
        """The rules of the game."""
        return Poker(
            limit=False,
            ranks=self.ranks,
            suits=self.suits,
            blinds=(100, 50),
            stack=self.stack,
            first=(1, 0),
            max_raises=self.max_raises,
            board=(0, 3),
        )


PRESETS = {
    "smoke": Config(
        ranks=2,
        max_raises=(1, 1),
        values=(1, 2),
        blueprint=50,
        reference=100,
        generating=50,
        solving=100,
        resolving=50,
    ),
    "cpu": Config(ranks=6, max_raises=(2, 1), reference=2000, generating=500, solving=1000),
    "paper": Config(max_raises=(3, 1), storage="int16", form="ranks"),
}


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting that the game and its solutions have, in words."""
    texts = [
        f"at most {config.max_raises[0]} raises before the flop and {config.max_raises[1]} after it"
    ]
    if config.ranks != 13:
        texts.insert(
            0,
            f"a deck of {config.ranks} ranks and {config.suits} suits (for `cpu`, 24 cards were"
            " chosen with results in sight: with 16 and 20 cards translation loses only 1.2 and"
            " 0.4 mb/g, and with 28 one value per leaf is no worse than translation)",
        )
    if config.blueprint != 1000:
        texts.append(f"a blueprint of {config.blueprint:,} iterations instead of 1,000")
    return texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """A way to answer the bet: the values for which the opponent may opt out of the flop.

    They are the values of the leaf in the solution of the first street (see
    `nested_street_solving.promised_leaf_values`). The paper says that the flop is solved safely
    when the board has been dealt, and no more; what can be added to that is ours.
    """

    capped: bool = False  # less, by what the bet would win beyond the other first actions
    gifts: bool = False  # more, by what the bet would lose against the other first actions
    weaken: bool = False  # no strategy at the leaves beats the blueprint


PLAIN = Way()


class OffTreeBet:
    """The trees and their solutions. The opponent makes the bet, the resolver answers it."""

    def __init__(
        self,
        config: Config,
        folder: pathlib.Path,
        *,
        mesh: Mesh | None = None,
        saved: Callable[[], None] = lambda: None,
    ):
        self.config, self.folder, self.mesh, self.saved = config, folder, mesh, saved
        self.count: Callable[[int], None] = lambda more: None  # moves the progress bar
        sizes = BetSizes.parse(config.sizes, config.sizes)
        abstract = betting_of_rules(config.game, sizes=sizes)
        self.opponent = int(abstract.actor[0])
        self.resolver = 1 - self.opponent
        stakes = int(abstract.paid[0].max())
        bet = stakes + int(2 * stakes * config.off_tree)
        betting = with_bet(abstract, 0, bet)
        how = dict(showdowns=config.form, storage=config.storage)
        self.tree = whole_game_tree(config.game, betting=abstract, **how)
        self.whole = whole_game_tree(config.game, betting=betting, **how)
        children = betting.child[0]
        (made,) = children[betting.paid[children, self.opponent] == bet]
        self.made = int(made)
        self.answer = subgame_part(self.whole, self.made, storage=config.storage).tree
        self.taken_for = {
            int(abstract.child[0, action]): float(share)
            for action, share in enumerate(translate_bet(abstract, 0, bet))
            if share > 0
        }
        most = max(config.values)
        choices = (most, 1) if self.opponent == 0 else (1, most)
        self.cut = cut_street(self.tree, choices=choices)
        self.answer_cut = cut_street(self.answer, choices=choices)

    def work(self, answers: int) -> int:
        """The iterations that it takes to compute this many answers."""
        return len(self.answer_cut.leaves) * answers * self.config.resolving

    @functools.cached_property
    def value(self) -> tuple[float, float]:
        """A lower bound on the value of the whole game to the opponent, in chips, and how far below
        the value it may be."""
        policy = self._solution(
            "in-abstraction", self.whole, self.config.reference, since=self.config.blueprint
        )
        best = (
            evaluation.best_response_value(self.whole.sequence_form, policy)
            / self.whole.total_weight
        )
        return -float(best[self.resolver]), float(jnp.sum(best))

    @functools.cached_property
    def blueprint(self) -> Policy:
        """The solution of the abstraction."""
        return self._solution("blueprint", self.tree, self.config.blueprint)

    @functools.cached_property
    def translation(self) -> Policy:
        """The answer by action translation: as to the bets that the blueprint knows."""
        return translated_tree_policy(self.answer, self.tree, self.blueprint, self.taken_for)

    @functools.cached_property
    def elsewhere(self) -> Array:
        """The opponent's best-response values by hand against the blueprint, without the bet."""
        values = evaluation.root_best_response_values(self.tree.sequence_form, self.blueprint)
        return values[self.opponent]

    @functools.cached_property
    def values(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """The values at the leaves after the bet: means over the bets that it is taken for."""
        return self.transferred(self.generated[0])

    @functools.cached_property
    def weakened(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """The same values, lowered so that no strategy beats the blueprint."""
        values = street_continuations.weakened_leaf_values(
            self.cut, self.generated[0], self.blueprint
        )
        return self.transferred(values)

    def transferred(self, values: Float[Array, "L n0 n1 C0 C1"]) -> Float[Array, "_ n0 n1 C0 C1"]:
        """Values at the leaves after the bet, from values at the leaves of the abstraction."""
        even = dict.fromkeys(self.taken_for, 1 / len(self.taken_for))
        return transferred_leaf_values(self.answer_cut, self.cut, values, even)

    @functools.cached_property
    def generated(self) -> tuple[Float[Array, "L n0 n1 C0 C1"], Float[np.ndarray, " n"]]:
        """The values at the leaves of the abstraction under strategies that are generated, and the
        time at which each of these was finished, in seconds."""
        from solvers import checkpoint  # imports Orbax

        folder = self.folder / "leaf_values"
        shape = len(self.cut.leaves), *self.cut.choices, *self.cut.num_classes
        template = (
            jax.ShapeDtypeStruct(shape, self.tree.sequence_form.dtype),
            jax.ShapeDtypeStruct((max(self.cut.choices),), np.float64),
        )
        try:
            return checkpoint.read(folder, template, identity={})
        except FileNotFoundError:
            pass
        except checkpoint.DamagedCheckpointError as error:
            warnings.warn(f"{error}; the values are generated again", stacklevel=2)
        times: list[float] = []
        values = street_continuations.self_generated_values(
            self.cut,
            street_leaf_values.below_leaves(self.cut),
            self.blueprint,
            solver=_STREET,
            num_iterations=self.config.generating,
            report=lambda _: times.append(time.perf_counter()),
        )
        generated = values, np.array(times)
        checkpoint.write(folder, generated, identity={})
        self.saved()
        return generated

    def answered(
        self, values: Float[Array, "L n0 n1 C0 C1"], street: PartPolicy, way: Way = PLAIN
    ) -> Policy:
        """The answer that plays `street` up to leaves with these values, with the flop solved again
        after each leaf."""
        policy = self.answer_cut.embed(street, self.translation)
        promises = nested_street_solving.promised_leaf_values(
            self.answer_cut,
            values,
            street,
            resolver=self.resolver,
            opt_out=self.elsewhere if way.capped else None,
            gifts=way.gifts,
        )
        for leaf, opt_out, reach in zip(self.answer_cut.leaves.tolist(), *promises, strict=True):
            part = subgame_part(self.answer, leaf)
            flop = nested_street_solving.solve_below(
                part,
                opt_out,
                reach,
                resolver=self.resolver,
                solver=_resolving(self.config.resolving),
                num_iterations=self.config.resolving,
            )
            policy = part.embed(flop, policy)
            self.count(self.config.resolving)
        return policy

    def street(self, values: Float[Array, "L n0 n1 C0 C1"]) -> PartPolicy:
        """The solution of the first street after the bet, up to leaves with these values."""
        return nested_street_solving.solve_street(
            self.answer_cut,
            values,
            self.elsewhere,
            resolver=self.resolver,
            solver=_STREET,
            num_iterations=self.config.solving,
        )

    def lost(self, answer: Policy) -> float:
        """The loss of an answer, in chips: what the opponent's best response, with whatever first
        action, gets beyond the value of the game."""
        before = float(jnp.sum(self.elsewhere)) / self.tree.total_weight
        return before + self.won_by_bet(answer) - self.value[0]

    def lost_with_bet_known(self) -> float:
        """The resolver's loss, in chips, if the blueprint's abstraction had the bet."""
        policy = self._solution("in-abstraction", self.whole, self.config.blueprint)
        best = evaluation.best_response_value(self.whole.sequence_form, policy)[self.opponent]
        return float(best) / self.tree.total_weight - self.value[0]

    def conceded(self, values: Float[Array, "L n0 n1 C0 C1"], street: PartPolicy) -> float:
        """What the bet wins, in chips, beyond the best other first action, if leaves have these
        values and the resolver plays `street`."""
        game = self.answer_cut.with_values(values)
        after = evaluation.root_best_response_values(game, street)[self.opponent]
        return self._gain(self.answer_cut.of_hands(after, self.opponent))

    def won_by_bet(self, answer: Policy) -> float:
        """What the bet wins against an answer, in chips, beyond the best other first action."""
        after = evaluation.root_best_response_values(self.answer.sequence_form, answer)[
            self.opponent
        ]
        return self._gain(after)

    def _gain(self, after):
        """What the bet wins, in chips, if it is made with the hands that it is better for."""
        return float(jnp.sum(jnp.maximum(after - self.elsewhere, 0))) / self.tree.total_weight

    def _solution(
        self, name: str, tree: HoldemTree, num_iterations: int, *, since: int | None = None
    ) -> Policy:
        """The solution by CFR+, continued from the last checkpoint, or from that of a solve of
        `since` iterations."""
        return large_solve(
            tree,
            self.folder / f"{name}_{num_iterations}",
            solver=_BLUEPRINT,
            num_iterations=num_iterations,
            since=None if since is None else self.folder / f"{name}_{since}",
            storage=self.config.storage,
            mesh=self.mesh,
            save_seconds=self.config.save_seconds,
            report=self.count,
            saved=self.saved,
        )


def _resolving(num_iterations):
    """CFR+ with the averaging of the paper's appendix."""
    return cfr.cfr_plus(delay=num_iterations // 2, discounted=min(30, num_iterations // 2))
