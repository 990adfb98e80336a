"""Hold'em from some public state on as a sequence form: betting, boards and both players' hands.

    >>> from jaxgames.holdem import BetSizes, build_betting_tree, parse_cards, parse_range
    >>> from solvers.holdem import holdem_tree
    >>> sizes = BetSizes.parse("50%", "3x")
    >>> betting = build_betting_tree(pot=200, stack=900, streets=2, sizes=sizes)
    >>> ranges = parse_range("66+, A8s+"), parse_range("QQ-22, AQs-A2s")
    >>> tree = holdem_tree(parse_cards("Td9d6hQc"), ranges, betting)  # a turn
    >>> [treeplex.num_decisions for treeplex in tree.sequence_form.treeplexes]
    [54684, 81592]

Every iterating solver of a `SequenceForm` works on `tree.sequence_form`. Cards are not abstracted:
players see their hands and all boards. Boards that are the same under a symmetry of suits are
solved once.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device
from jaxgames.holdem.betting_tree import SHOWDOWN, BettingTree
from jaxgames.holdem.ranges import HANDS
from jaxgames.registry import unknown
from solvers.holdem.sequence_layout import HoldemLayout
from solvers.holdem.showdown_by_products import expected_winners, product_showdowns
from solvers.holdem.showdown_by_ranks import rank_showdowns
from solvers.holdem.street_boards import StreetBoards, disjoint_hands
from solvers.holdem.subgame_spec import DECK, SubgameSpec, check_size, deals_after, subgame_spec
from solvers.holdem.terminal_payoffs import holdem_terminals
from solvers.sequence_form import SequenceForm
from solvers.sequence_form.compression import check_storage

SHOWDOWN_METHODS = ("products", "ranks")


@dataclasses.dataclass(frozen=True)
class HoldemTree:
    """A subgame of hold'em: its sequence form, and what its rows stand for."""

    sequence_form: SequenceForm
    betting: BettingTree
    streets: tuple[StreetBoards, ...]
    board: tuple[int, ...]
    deck: tuple[int, ...]
    deals: tuple[int, ...]  # cards before each later street
    isomorphism: bool  # whether boards that are the same under a symmetry of suits are merged
    showdowns: str  # how they are computed: "ranks" or "products"
    all_hands: Int[np.ndarray, "N k"]  # of the deck
    hands: tuple[Int[np.ndarray, "_ k"], Int[np.ndarray, "_ k"]]  # of each player, in this order
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]  # weights of these hands
    layouts: tuple[HoldemLayout, HoldemLayout]

    @property
    def root_reach(self) -> tuple[Float[Array, " _"], Float[Array, " _"]]:
        """The ranges as root reaches for solvers."""
        return tuple(on_device(weights, self.sequence_form.dtype) for weights in self.ranges)

    @property
    def total_weight(self) -> float:
        """The weight of all pairs of hands that share no card: payoffs divided by it are chips."""
        return float(self.ranges[0] @ disjoint_hands(*self.hands) @ self.ranges[1])


def holdem_tree(
    board: tuple[int, ...],
    ranges: tuple[Float[np.ndarray, "1326"], Float[np.ndarray, "1326"]],
    betting: BettingTree,
    *,
    dtype: str = "float32",
    isomorphism: bool = True,
    showdowns: str | None = None,
    storage: str = "full",
    max_bytes: int | None = None,
) -> HoldemTree:
    """Builds the subgame of hold'em on a board of three to five cards.

    Args:
      board: the cards of the board.
      ranges: both players' ranges.
      betting: the betting tree, with as many streets as the board leaves.
      dtype: of payoffs, and so of every solver: "float32" or "float64".
      isomorphism: whether boards that are the same under a symmetry of suits are merged.
      showdowns: how showdowns are computed, "ranks" or "products"; None: the faster of them on this
        backend.
      storage: of the solver's state, as in `cfr.init`; it matters to the estimate of memory only.
      max_bytes: the memory that solving may take; None: the memory of the device.

    Returns:
      The tree; its `sequence_form` and `root_reach` are for solvers.

    Raises:
      ValueError: the board does not have three to five different cards, a range is empty on it, or
        the betting tree has another number of streets.
      TreeTooLargeError: solving takes more memory than is allowed.
    """
    return build_holdem_tree(
        board,
        HANDS,
        ranges,
        betting,
        deals=deals_after(board),
        dtype=dtype,
        isomorphism=isomorphism,
        showdowns=showdowns,
        storage=storage,
        max_bytes=max_bytes,
    )


def build_holdem_tree(
    board: tuple[int, ...],
    hands: Int[np.ndarray, "N k"],
    ranges: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
    betting: BettingTree,
    *,
    deals: tuple[int, ...],
    deck: tuple[int, ...] = DECK,
    dtype: str = "float32",
    isomorphism: bool = True,
    showdowns: str | None = None,
    storage: str = "full",
    max_bytes: int | None = None,
) -> HoldemTree:
    """Builds a subgame with any deck, any board, and hands of one or two cards.

    Args:
      board: the cards of the board.
      hands: the N hands of k cards that the deck has.
      ranges: weights of these hands, by player.
      betting: the betting tree, with one street more than there are deals.
      deals: how many cards are dealt before each later street.
      deck: all cards of the game.
      dtype: of payoffs, and so of every solver: "float32" or "float64".
      isomorphism: whether boards that are the same under a symmetry of suits are merged.
      showdowns: how showdowns are computed, "ranks" or "products"; None: the faster of them on this
        backend.
      storage: of the solver's state, as in `cfr.init`; it matters to the estimate of memory only.
      max_bytes: the memory that solving may take; None: the memory of the device.

    Returns:
      The tree; its `sequence_form` and `root_reach` are for solvers.

    Raises:
      ValueError: a range is empty on the board; no hand of one goes with a hand of the other; the
        number of streets does not fit the deals; `showdowns`, `storage` or `dtype` is unknown; or
        `dtype` is float64 without JAX's x64 mode.
      TreeTooLargeError: as `holdem_tree`.
    """
    check_storage(storage)
    showdowns = showdowns or _fastest_showdowns()
    if showdowns not in SHOWDOWN_METHODS:
        raise ValueError(unknown("showdowns", showdowns, SHOWDOWN_METHODS))
    spec = subgame_spec(
        board, hands, ranges, betting, deals=deals, deck=deck, dtype=dtype, isomorphism=isomorphism
    )
    check_size(spec, showdowns=showdowns, storage=storage, max_bytes=max_bytes)
    return tree_from_spec(spec, showdowns=showdowns)


def tree_from_spec(spec: SubgameSpec, *, showdowns: str, axis: str | None = None) -> HoldemTree:
    """Builds the tree of a subgame.

    Args:
      spec: the subgame.
      showdowns: "ranks" or "products".
      axis: the mesh axis over which boards after the first are sharded, where `spec` has only some
        of them (see `board_sharding`); None: `spec` has all boards.
    """
    betting, dtype = spec.betting, spec.dtype
    layouts = tuple(
        HoldemLayout(betting, spec.streets, p, spec.hands[p], dtype, axis) for p in range(2)
    )
    operators = _showdown_operators(spec, layouts, showdowns)
    sequence_form = SequenceForm(
        treeplexes=tuple(layout.treeplex for layout in layouts),
        terminals=tuple(
            holdem_terminals(
                layouts[p], layouts[1 - p], player=p, operators=operators[p], dtype=dtype
            )
            for p in range(2)
        ),
        num_actions=betting.child.shape[1],
        game="hold'em subgame",
        dtype=np.dtype(dtype),
    )
    return HoldemTree(
        sequence_form=sequence_form,
        betting=betting,
        streets=spec.streets,
        board=spec.board,
        deck=spec.deck,
        deals=spec.deals,
        isomorphism=spec.isomorphism,
        showdowns=showdowns,
        all_hands=spec.all_hands,
        hands=spec.hands,
        ranges=spec.ranges,
        layouts=layouts,
    )


def _fastest_showdowns():
    return "ranks" if jax.default_backend() == "cpu" else "products"


def _showdown_operators(spec, layouts, showdowns):
    """For each player and street, the operator that computes folds and showdowns."""
    betting, operators = spec.betting, []
    hands = [layout.hands for layout in layouts]
    for street, at in enumerate(spec.streets):
        has_showdowns = ((betting.actor == SHOWDOWN) & (betting.street == street)).any()
        complete = not spec.deals[street:]  # no card of the board is missing
        if showdowns == "ranks" and complete and has_showdowns:
            operators.append(
                [
                    rank_showdowns(
                        hands[p],
                        hands[1 - p],
                        at.boards,
                        num_blocks=layouts[1 - p].street.count(street),
                    )
                    for p in range(2)
                ]
            )
            continue
        matrices = (None, None)
        if has_showdowns:
            matrix = expected_winners(
                *hands, at.boards, deck=spec.deck, deals=spec.deals[street:], dtype=spec.dtype
            )
            matrices = matrix, -jnp.swapaxes(matrix, 1, 2)
        operators.append(
            [
                product_showdowns(hands[p], hands[1 - p], matrices[p], dtype=spec.dtype)
                for p in range(2)
            ]
        )
    return tuple(zip(*operators, strict=True))
