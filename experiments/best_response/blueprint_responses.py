"""Best responses to blueprints of hold'em: local best response, and ISMCTS-BR.

Both win less than a best response does: they are lower bounds on how exploitable a blueprint is.
`solvers.blueprint.best_response` is exact, and goes through all turns and rivers.
"""

from __future__ import annotations

import functools
import re

import jax
import numpy as np
from jaxtyping import Float

from experiments.best_response.holdem_responses import (
    EASIER,
    WITHOUT_SEARCH,
    Cell,
    HoldemLearning,
    learned_cells,
    played_cell,
)
from experiments.harness import devices
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make
from solvers.approximate_best_response.hand_policies import HandPolicy
from solvers.approximate_best_response.local_best_response import LocalBestResponse, duplicate_deals
from solvers.device_batches import on_each_device

DEALS = 10_000  # by default
PIECE = 256  # deals, after which Ctrl-C stops and a kill loses nothing
MEASURE = (
    "what responders win from a blueprint on average over both seats, in mb/h, thousandths of a big"
    " blind per hand (half of NashConv): LBR in duplicate deals, and ISMCTS-BR; a best response"
    " wins more"
)
DEVIATIONS = (
    "ISMCTS-BR sees a hand's strength instead of its cards",
    WITHOUT_SEARCH,
    "ISMCTS-BR learns against always call and call or raise first",
)


def responses(
    run: Run,
    game: str,
    name: str,
    policy: HandPolicy,
    *,
    deals: int,
    learning: HoldemLearning | None,
    seed: int,
) -> list[Cell]:
    """What local best response and ISMCTS-BR win from a blueprint; what is finished is kept.

    Args:
      run: keeps the pieces.
      game: the name of the blueprint's game.
      name: of the blueprint.
      policy: of the blueprint, by hand.
      deals: which local best response plays in both seats; 0: none.
      learning: how ISMCTS-BR learns, and when it is measured; None: not at all.
      seed: of the deals.

    Raises:
      FloatingPointError: a number in training is not finite.
      KeyboardInterrupt: stopped by Ctrl-C; finished pieces have been kept.
    """
    cells: list[Cell] = []
    if deals:
        chips = local_best_response(run, make(game), name, policy, deals=deals, seed=seed)
        cells.append(played_cell(game, name, chips))
    if learning is not None:
        steps = learning.measured_at
        lessons = dict.fromkeys(EASIER, (-(-steps[-1] // 10),)) | {name: steps}

        def learn():
            return learned_cells(run, game, lessons, learning, {name: policy})

        cells += [cell for cell in run.kept("learned", Cell, learn) if cell.chump == name]
    return cells


def piece_size(deals: int) -> int:
    """How many deals are played at once, the last ones of which may be more than asked for: a
    number that two, four and eight devices can share."""
    return min(PIECE, -(-deals // 8) * 8)


def local_best_response(
    run: Run, game: Poker, name: str, policy: HandPolicy, *, deals: int, seed: int
) -> Float[np.ndarray, "D 2"]:
    """What local best response wins of a blueprint in both games of each deal, in chips.

    Args:
      run: keeps the pieces; its devices share the deals of each.
      game: the blueprint's.
      name: of the blueprint, another one for each in a run.
      policy: of the blueprint, by hand.
      deals: D.
      seed: of the deals.
    """
    key, won = jax.random.key(seed), []
    pieces = run.checkpoint / re.sub(r"[^\w.]+", "_", f"LBR against {name}")
    settings, size = LocalBestResponse(game), piece_size(deals)
    mesh = devices.local(run.mesh)
    play = functools.partial(
        duplicate_deals,
        settings,
        on_each_device(policy, mesh),
        num_deals=size,
        mesh=mesh,
    )
    with progress(f"LBR, {name}", deals) as report:
        count = counter(report)
        for begin in range(0, deals, size):
            piece_key = jax.random.fold_in(key, begin)
            compute = lambda key=piece_key: np.asarray(play(key), np.float64).tolist()  # noqa: E731
            won += run.kept_json(pieces / f"deals-{begin}.json", compute)
            count(min(size, deals - begin))
    return np.array(won[:deals])
