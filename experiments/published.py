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

# Exploitability of information-set MCTS in Leduc (Table S5), by simulations and constant: of
# shares of visits, most visits, highest value.
# fmt: off
_INFORMATION_SET_MCTS = {
    (10, 1.0): (2.168, 2.449, 2.173),
    (10, 2.0): (2.058, 2.408, 2.341),
    (10, 5.0): (1.902, 2.615, 2.517),
    (10, 10.0): (1.738, 2.555, 2.36),
    (10, 13.0): (1.799, 2.517, 2.598),
    (10, 20.0): (1.821, 2.83, 2.349),
    (10, 26.0): (1.888, 2.861, 2.669),
    (100, 1.0): (1.489, 1.509, 1.333),
    (100, 2.0): (1.404, 1.587, 1.395),
    (100, 5.0): (1.239, 1.145, 1.094),
    (100, 10.0): (1.213, 1.195, 1.245),
    (100, 13.0): (1.218, 1.292, 1.227),
    (100, 20.0): (1.35, 1.456, 1.342),
    (100, 26.0): (1.448, 1.747, 1.568),
    (1000, 1.0): (1.323, 1.218, 1.177),
    (1000, 2.0): (1.069, 1.212, 0.864),
    (1000, 5.0): (0.699, 0.778, 0.681),
    (1000, 10.0): (0.697, 0.601, 0.632),
    (1000, 13.0): (0.741, 0.759, 0.744),
    (1000, 20.0): (0.859, 0.962, 0.991),
    (1000, 26.0): (0.966, 1.029, 1.057),
    (10000, 1.0): (1.348, 0.948, 1.134),
    (10000, 2.0): (0.911, 0.877, 0.763),
    (10000, 5.0): (0.516, 0.582, 0.538),
    (10000, 10.0): (0.49, 0.485, 0.48),
    (10000, 13.0): (0.511, 0.465, 0.47),
    (10000, 20.0): (0.572, 0.505, 0.505),
    (10000, 26.0): (0.631, 0.575, 0.57),
}
# fmt: on

# Exploitability of reinforcement learning by self-play (Figure S4 and its text); of A2C in Leduc
# the text says 0.078, the figure about 0.85.
_REINFORCEMENT_LEARNING = {
    ("kuhn_poker", "A2C"): 0.052,
    ("kuhn_poker", "DQN"): 0.25,
    ("kuhn_poker", "Q-learning"): 0.25,
    ("kuhn_poker", "uniform"): 0.458,
    ("leduc_poker", "A2C"): 0.078,
    ("leduc_poker", "DQN"): 0.9,
    ("leduc_poker", "Q-learning"): 1.3,
    ("leduc_poker", "uniform"): 2.373,
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


def reinforcement_learning(game: str, algorithm: str) -> float | None:
    """Published exploitability of the best settings of an algorithm, or of uniform play."""
    return _REINFORCEMENT_LEARNING.get((game, algorithm))


def information_set_mcts(game: str) -> dict[tuple[int, float], dict[str, float]]:
    """Published exploitability by simulations and constant, and by read-out."""
    if game != "leduc_poker":
        return {}
    names = ("visit_distribution", "max_visits", "max_value")
    return {
        setting: dict(zip(names, values, strict=True))
        for setting, values in _INFORMATION_SET_MCTS.items()
    }


def depth_limited_nlfh() -> dict[str, float]:
    """Exploitability in mb/g of answers to an off-tree bet in no-limit flop hold'em (Brown,
    Sandholm and Amos 2018, Figure 2, read off the plot to about 0.06)."""
    by_values = {1: 12.15, 2: 5.3, 4: 2.83, 8: 2.64, 16: 1.44, 32: 1.38}
    limits = {"translation": 9.63, "in-abstraction": 0.57}
    return {f"values={count}": value for count, value in by_values.items()} | limits
