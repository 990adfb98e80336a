"""One hold'em tree over eight devices: the results of one device, and an eighth of the memory."""

import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from xla_flags import QUICK_COMPILATION

from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import parse_range
from solvers.holdem.board_sharding import BOARDS, shard_holdem_tree

TESTS = pathlib.Path(__file__).parent
FLAGS = f"{QUICK_COMPILATION} --xla_force_host_platform_device_count=8"


def sharded_run(out, *arguments):
    subprocess.run(
        [sys.executable, TESTS / "sharded_holdem_run.py", *arguments, "--out", out],
        env=os.environ
        | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
        | {"XLA_FLAGS": FLAGS, "PYTHONPATH": str(TESTS.parent)},
        check=True,
        timeout=400,
    )
    return np.load(out)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("two streets",), marks=pytest.mark.slow),
        pytest.param(("two streets", "--storage", "int16"), marks=pytest.mark.slow),
        pytest.param(("two streets", "--isomorphism"), marks=pytest.mark.slow),
        pytest.param(("three streets",), marks=pytest.mark.slow),
        pytest.param(("three streets", "--isomorphism"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_eight_devices_give_the_results_of_one(tmp_path, arguments):
    results = sharded_run(tmp_path / "results.npz", "--game", *arguments)
    assert results["sharded_exploitability"].shape == (8,)
    close = dict(rtol=1e-3) if "int16" in arguments else dict(rtol=1e-7)
    np.testing.assert_allclose(
        results["sharded_exploitability"], np.full(8, results["exploitability"]), **close
    )
    if "int16" not in arguments:
        for player in range(2):
            np.testing.assert_allclose(
                results[f"sharded_policy_{player}"], results[f"policy_{player}"], atol=1e-6
            )
    # an eighth, except for padding and what comes before the first card; but the smallest game has
    # only three first cards up to suits
    share = 0.4 if arguments == ("three streets", "--isomorphism") else 0.25
    assert results["sharded_bytes"] < share * results["bytes"]


def test_rivers_have_no_boards_to_share():
    betting = build_betting_tree(pot=2, stack=2, streets=1, sizes=BetSizes.parse("allin", ""))
    mesh = Mesh(np.array(jax.devices()[:1]), (BOARDS,))
    ranges = parse_range("AA"), parse_range("KK")
    with pytest.raises(ValueError, match="has no cards after it"):
        shard_holdem_tree(parse_cards("Td9d6hQc2s"), ranges, betting, mesh=mesh)
