"""Classes of hands that play alike before a deal: those that suit symmetries map to each other."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from solvers.holdem.street_boards import SuitPermutation, permuted_hands


def hand_classes(
    hands: Int[np.ndarray, "N k"], symmetries: tuple[SuitPermutation, ...]
) -> Int[np.ndarray, " N"]:
    """The class of each hand; classes are numbered in the order of their first hands."""
    images = np.stack([permuted_hands(hands, suits) for suits in symmetries])
    _, number = np.unique(images.min(axis=0), return_inverse=True)
    return number.ravel()


def class_members(classes: Int[np.ndarray, " N"]) -> Bool[np.ndarray, "N C"]:
    """Whether each hand is of each class, from the class of each hand."""
    return classes[:, None] == np.arange(classes.max() + 1)


def pair_sums(
    pairs: Float[np.ndarray, "N0 N1"],
    classes: tuple[Int[np.ndarray, " N0"], Int[np.ndarray, " N1"]],
) -> Float[np.ndarray, "C0 C1"]:
    """Sums over the pairs of hands of each pair of classes.

    Args:
      pairs: a value for each pair of hands.
      classes: the class of each hand, by player.
    """
    first, second = (class_members(of_hand).astype(float) for of_hand in classes)
    return first.T @ pairs @ second
