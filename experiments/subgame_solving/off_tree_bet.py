"""An off-tree bet in no-limit flop hold'em, and answers to it (Brown, Sandholm and Amos 2018,
section 6.1): the trees, and what is solved of them. Shared by `depth_limited_nlfh`, which tells
what the answers lose, and `leaf_values_dnn`.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
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
from solvers.holdem.subgame_part import PartPolicy, subgame_part
from solvers.holdem.subgame_tree import HoldemTree
from solvers.holdem.whole_game_tree import whole_game_tree
from solvers.sequence_form import Policy

_BLUEPRINT = cfr.cfr_plus()
_STREET = cfr.pcfr_plus()  # the cut street is small: what converges best


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    ranks: int = 13
    suits: int = 4
    stack: int = 20_000
    max_raises: tuple[int, int] = (3, 2)  # bets included, before and after the flop
    sizes: str = "50%,100%"  # of the abstraction, for bets and raises
    off_tree: float = 0.75  # of the pot
    values: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # at every leaf
    blueprint: int = 1000  # iterations of CFR+
    reference: int = 3000  # for the value of the game
    generating: int = 1000  # for each strategy that is generated
    solving: int = 2000  # for the first street
    resolving: int = 1000  # for the flop
    storage: str = "full"  # of the large solves (see `cfr.init`)
    form: str | None = None  # of showdowns (see `holdem_tree`)
    save_seconds: float = 300.0  # between two checkpoints of a solve

    @property
    def game(self) -> Poker:
        """Its rules."""
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
    """From the published setting, in words."""
    found = [
        f"at most {config.max_raises[0]} raises before the flop and {config.max_raises[1]} after it"
    ]
    if config.ranks != 13:
        found.insert(0, f"a deck of {config.ranks} ranks and {config.suits} suits")
    if config.blueprint != 1000:
        found.append(f"a blueprint of {config.blueprint:,} iterations instead of 1,000")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """To answer the bet. The opponent may opt out of the flop for what a leaf was worth before."""

    capped: bool = True  # but for less where the bet would be better than other first actions
    gifts: bool = False  # and for more where it would be worse (see `nested.promised`)
    weaken: bool = False  # strategies to choose from do not beat the blueprint


CAPPED = Way()  # the bet is no better than what is in the abstraction: the paper's section 5


class OffTreeBet:
    """The trees, and what is solved of them. The opponent bets, the resolver answers."""

    def __init__(self, config: Config, folder: pathlib.Path):
        self.config, self.folder = config, folder
        self.count: Callable[[int], None] = lambda more: None  # moves the bar
        sizes = BetSizes.parse(config.sizes, config.sizes)
        abstract = betting_of_rules(config.game, sizes=sizes)
        self.opponent = int(abstract.actor[0])
        self.resolver = 1 - self.opponent
        stakes = int(abstract.paid[0].max())
        bet = stakes + int(2 * stakes * config.off_tree)
        betting = with_bet(abstract, 0, bet)
        self.tree = whole_game_tree(config.game, betting=abstract, showdowns=config.form)
        self.whole = whole_game_tree(config.game, betting=betting, showdowns=config.form)
        children = betting.child[0]
        (made,) = children[betting.paid[children, self.opponent] == bet]
        self.made = int(made)
        self.answer = subgame_part(self.whole, self.made).tree
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
        """Iterations of so many answers."""
        return len(self.answer_cut.leaves) * answers * self.config.resolving

    @functools.cached_property
    def value(self) -> tuple[float, float]:
        """What the opponent can be sure of in the whole game, in chips, and how much more it may
        be."""
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
        """Of the abstraction."""
        return self._solution("blueprint", self.tree, self.config.blueprint)

    @functools.cached_property
    def translation(self) -> Policy:
        """Answers as to the bets that the blueprint knows."""
        return translated_tree_policy(self.answer, self.tree, self.blueprint, self.taken_for)

    @functools.cached_property
    def elsewhere(self) -> Array:
        """Best values of the opponent's hands with other first actions, against the blueprint."""
        found = evaluation.root_best_response_values(self.tree.sequence_form, self.blueprint)
        return found[self.opponent]

    @functools.cached_property
    def values(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """At the leaves after the bet: the mean of those after the bets it is taken for."""
        return self.transferred(self.generated[0])

    @functools.cached_property
    def weakened(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """The same of strategies that do not beat the blueprint."""
        values = street_continuations.weakened_leaf_values(
            self.cut, self.generated[0], self.blueprint
        )
        return self.transferred(values)

    def transferred(self, values: Float[Array, "L n0 n1 C0 C1"]) -> Float[Array, "_ n0 n1 C0 C1"]:
        """Values at the leaves after the bet, from those at the leaves of the abstraction."""
        even = dict.fromkeys(self.taken_for, 1 / len(self.taken_for))
        return transferred_leaf_values(self.answer_cut, self.cut, values, even)

    @functools.cached_property
    def generated(self) -> tuple[Float[Array, "L n0 n1 C0 C1"], Float[np.ndarray, " n"]]:
        """Values at the leaves of the abstraction; and when each strategy was found, in seconds."""
        from solvers import checkpoint  # imports Orbax

        folder, identity = self.folder / "leaf_values", {"config": repr(self.config)}
        shape = len(self.cut.leaves), *self.cut.choices, *self.cut.num_classes
        template = (
            jax.ShapeDtypeStruct(shape, self.tree.sequence_form.dtype),
            jax.ShapeDtypeStruct((max(self.cut.choices),), np.float64),
        )
        if folder.exists():
            return checkpoint.read(folder, template, identity=identity)
        times: list[float] = []
        values = street_continuations.self_generated_values(
            self.cut,
            street_leaf_values.below_leaves(self.cut),
            self.blueprint,
            solver=_STREET,
            num_iterations=self.config.generating,
            report=lambda _: times.append(time.perf_counter()),
        )
        found = values, np.array(times)
        checkpoint.write(folder, found, identity=identity)
        return found

    def answered(
        self, values: Float[Array, "L n0 n1 C0 C1"], street: PartPolicy, way: Way = CAPPED
    ) -> Policy:
        """The answer with these values at its leaves: `street` until there, then the flop solved
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
            below = nested_street_solving.solve_below(
                part,
                opt_out,
                reach,
                resolver=self.resolver,
                solver=_resolving(self.config.resolving),
                num_iterations=self.config.resolving,
            )
            policy = part.embed(below, policy)
            self.count(self.config.resolving)
        return policy

    def street(self, values: Float[Array, "L n0 n1 C0 C1"]) -> PartPolicy:
        """The first street, up to leaves with these values."""
        return nested_street_solving.solve_street(
            self.answer_cut,
            values,
            self.elsewhere,
            resolver=self.resolver,
            solver=_STREET,
            num_iterations=self.config.solving,
        )

    def lost(self, answer: Policy) -> float:
        """By an answer, in chips: what the opponent gets with its best first action of all, more
        than the game is worth."""
        before = float(jnp.sum(self.elsewhere)) / self.tree.total_weight
        return before + self.won_by_bet(answer) - self.value[0]

    def lost_with_bet_known(self) -> float:
        """By the resolver, in chips, had the bet been in the abstraction of the blueprint."""
        policy = self._solution("in-abstraction", self.whole, self.config.blueprint)
        best = evaluation.best_response_value(self.whole.sequence_form, policy)[self.opponent]
        return float(best) / self.tree.total_weight - self.value[0]

    def conceded(self, values: Float[Array, "L n0 n1 C0 C1"], street: PartPolicy) -> float:
        """What the bet wins, in chips, beyond the best other action, if leaves have these values
        and `street` is played until there."""
        game = self.answer_cut.with_values(values)
        found = evaluation.root_best_response_values(game, street)[self.opponent]
        return self._gain(self.answer_cut.of_hands(found, self.opponent))

    def won_by_bet(self, answer: Policy) -> float:
        """What the opponent gets with the bet, in chips, more than with its best other action."""
        found = evaluation.root_best_response_values(self.answer.sequence_form, answer)[
            self.opponent
        ]
        return self._gain(found)

    def _gain(self, after):
        return float(jnp.sum(jnp.maximum(after - self.elsewhere, 0))) / self.tree.total_weight

    def _solution(
        self, name: str, tree: HoldemTree, num_iterations: int, *, since: int | None = None
    ) -> Policy:
        """By CFR+, from the last checkpoint on, or that after `since` iterations."""
        return large_solve(
            tree,
            self.folder / f"{name}_{num_iterations}",
            solver=_BLUEPRINT,
            num_iterations=num_iterations,
            identity=repr(self.config),
            since=None if since is None else self.folder / f"{name}_{since}",
            storage=self.config.storage,
            save_seconds=self.config.save_seconds,
            report=self.count,
        )


def _resolving(num_iterations):
    """CFR+ of the paper's appendix."""
    return cfr.cfr_plus(delay=num_iterations // 2, discounted=min(30, num_iterations // 2))
