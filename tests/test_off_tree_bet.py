"""Answers to an off-tree bet: what the experiments on no-limit flop hold'em measure."""

import pytest

from experiments.subgame_solving.off_tree_bet import Config, OffTreeBet


def test_losses_are_beyond_the_value_of_the_game(tmp_path):
    """If the policy is that from which the value is known, its loss is what both best responses win
    together, which is how far the value may be off."""
    config = Config(
        ranks=4,
        suits=2,
        stack=600,
        sizes="100%",
        max_raises=(1, 1),
        values=(1,),
        blueprint=5,
        reference=5,
    )
    bet = OffTreeBet(config, tmp_path)
    _, uncertain = bet.value
    assert uncertain > 1
    assert bet.lost_with_bet_known() == pytest.approx(uncertain, rel=1e-4)
