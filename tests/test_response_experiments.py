"""The experiments `aivat_leduc` and `abr_chumps`."""

import pytest
from experiment_cases import smoke_run

from experiments.best_response import abr_chumps, aivat_leduc, holdem_responses


def test_a_run_of_aivat(tmp_path):
    """The estimates agree, and knowing both policies leaves the least deviation."""
    result = smoke_run("aivat_leduc", tmp_path)
    for opponent in aivat_leduc.OPPONENTS:
        values = [result.number(f"won from {opponent}:{name}") for name in aivat_leduc.ESTIMATES]
        for value in values:
            assert value.low < values[-1].value + 0.5
            assert value.high > values[-1].value - 0.5
        raw, *_, both = (
            result.number(f"deviation against {opponent}:{name}").value
            for name in aivat_leduc.ESTIMATES
        )
        assert both < raw / 2


def test_who_searches_is_not_said_to_play_without():
    for preset in abr_chumps.PRESETS.values():
        said = abr_chumps.COMMAND.words(preset)["deviations"]
        without = preset.learning.measured_simulations == 1
        assert (holdem_responses.WITHOUT_SEARCH in said) == without


def test_all_responders_to_chumps_are_drawn(tmp_path):
    config = abr_chumps.PRESETS["cpu"]
    cells = [
        holdem_responses.Cell(game=game, chump="always call", responder=name, seats=[1.0, 2.0])
        for game, plans in holdem_responses.PLANS.items()
        for name in (*plans, holdem_responses.PLAYED, holdem_responses.LEARNED)
    ]
    abr_chumps.draw(tmp_path / "curve.png", config, cells)
    assert (tmp_path / "curve.png").stat().st_size > 10_000


@pytest.mark.slow  # a minute of compilation
def test_a_run_against_chumps(tmp_path):
    """LBR wins its exact value in hands, and no more than an exact best response."""
    result = smoke_run("abr_chumps", tmp_path)
    (game,) = abr_chumps.PRESETS["smoke"].games
    fold = result.number(f"exact:always fold, {game}").value
    assert fold == pytest.approx(750, abs=0.01)
    exact = result.number(f"exact:always call, {game}").value
    learned = result.number(f"ISMCTS-BR:always call, {game}")
    assert learned.low < exact
    for name in ("always raise", "call or raise", "uniform"):
        rule = result.number(f"LBR:{name}, {game}").value
        assert rule <= result.number(f"exact:{name}, {game}").value + 0.01
    played = result.number(f"LBR, played:always call, {game}")
    assert played.low < result.number(f"LBR:always call, {game}").value < played.high
    assert game not in holdem_responses.PLANS
