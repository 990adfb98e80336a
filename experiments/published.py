"""Numbers of others to compare with, drawn as points beside our curves."""

from __future__ import annotations

from jaxgames.registry import make

SOURCE = "OpenSpiel"

_ITERATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

# Exploitability (NashConv / 2) of the average policy after these iterations, computed with
# OpenSpiel 2.0.2: `pyspiel.CFRSolver`, `pyspiel.CFRPlusSolver` and `pyspiel.nash_conv`.
# fmt: off
_EXPLOITABILITY = {
    ("kuhn_poker", "cfr"): (
        0.458333, 0.270833, 0.121389, 0.0686988, 0.0406702,
        0.0151766, 0.00822598, 0.0033296, 0.00116858, 0.000937617,
    ),
    ("kuhn_poker", "cfr_plus"): (
        0.458333, 0.263889, 0.0733445, 0.0326871, 0.010109,
        0.00279725, 0.0011944, 0.00029496, 0.000172697, 8.73653e-05,
    ),
    ("leduc_poker", "cfr"): (
        2.37361, 2.06132, 1.47132, 0.888579, 0.453146,
        0.189083, 0.0957164, 0.0538383, 0.0215072, 0.0118178,
    ),
    ("leduc_poker", "cfr_plus"): (
        2.37361, 2.05792, 1.37123, 0.610439, 0.173655,
        0.0341215, 0.013416, 0.00496313, 0.000938635, 0.000257152,
    ),
}
# fmt: on

# Exploitability of Student of Games by simulations (Schmid et al. 2023, Fig. 3, read off the plot
# to about 4 %): means over 50 seeds, after the first checkpoint and before any training.
_SEARCHED = {
    "leduc_poker": {
        "SoG, trained network (Fig. 3A)": {33: 0.205, 100: 0.105, 300: 0.058, 1000: 0.022},
        "SoG, untrained network (Fig. 3A)": {33: 0.816, 100: 0.732, 300: 0.514, 1000: 0.139},
    },
    "scotland_yard(map=glasses)": {
        "SoG, trained network (Fig. 3B)": {33: 0.119, 100: 0.0545, 300: 0.0335, 1000: 0.018},
        "SoG, untrained network (Fig. 3B)": {33: 0.393, 100: 0.18, 300: 0.156, 1000: 0.044},
    },
}

# Value of the game to player 0, by closed form or linear program.
_VALUES = {
    "kuhn_poker": -1 / 18,
    "leduc_poker": -0.085606424078,
    "liars_dice(sides=4)": 1 / 16,
    "liars_dice(sides=5)": 1 / 125,
    "liars_dice(sides=6)": -7 / 258,
    "matrix_mp": 0.0,
    "matrix_rps": 0.0,
    "rps_plus": 0.0,
    "tic_tac_toe": 0.0,
}
_CHIPS = ("kuhn_poker", "leduc_poker")


def exploitability(game: str, solver: str) -> dict[int, float]:
    """OpenSpiel's exploitability by iteration, empty if not known.

    `game` is the full name that `str(game)` gives; `solver` the name of a solver, which stands for
    its defaults.
    """
    for (spec, name), values in _EXPLOITABILITY.items():
        if name == solver and str(make(spec)) == game:
            return dict(zip(_ITERATIONS, values, strict=True))
    return {}


def value(game: str) -> float | None:
    """The known value to player 0 of the game with this full name."""
    return next((value for spec, value in _VALUES.items() if str(make(spec)) == game), None)


def unit(game: str) -> str:
    """What the payoffs of the game with this full name count."""
    name = game.removeprefix("openspiel:").partition("(")[0]
    return "chips" if name in _CHIPS else "utility"


def measured_in(game: str) -> tuple[str, float]:
    """In what search agents' exploitability is told, and how many of it make one of `unit`."""
    return ("mbb/h", 1000.0) if unit(game) == "chips" else ("utility", 1.0)


def searched_exploitability(game: str) -> dict[str, dict[int, float]]:
    """Exploitability of published search agents in `game`, by their name and simulations."""
    return _SEARCHED.get(game, {})
