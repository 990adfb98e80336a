"""Published numbers, and numbers of other programs, that several experiments compare with.

What a single experiment compares with stands in its own file (`PAPER`, `PUBLISHED`).
"""

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
# to about 4 %): means over 50 seeds, before any training and after it, where they are the middle of
# the range of the checkpoints from the first on.
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

# Exploitability of information-set MCTS in Leduc (Table S5), by simulations and constant, when the
# policy is the shares of visits, the action with the most visits, or the one of the highest value.
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

# Exploitability of reinforcement learning by self-play (Figure S4 and its text). For A2C in Leduc
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

# Exploitability of mappings of action translation (Ganzfried and Sandholm 2013): of the second
# player by stacks of 1, 3, 5, 10, 20, 50 and 100 pots in games of one bet (Tables 2, 3 and 4), in
# pots; of both players in no-limit Leduc with stacks of 12 (Table 6), in antes.
_STACKS = (1, 3, 5, 10, 20, 50, 100)
# fmt: off
_TRANSLATION = {
    "clairvoyance": {
        "deterministic_arithmetic": (0.01, 0.24, 0.49, 1.12, 2.38, 6.12, 12.37),
        "arithmetic": (0.00, 0.02, 0.09, 0.36, 0.96, 2.82, 5.94),
        "deterministic_geometric": (0.23, 0.28, 0.36, 0.63, 0.99, 1.68, 2.43),
        "geometric_1": (0.23, 0.23, 0.23, 0.24, 0.36, 0.66, 1.01),
        "geometric_2": (0.23, 0.23, 0.23, 0.25, 0.36, 0.65, 1.00),
        "deterministic_pseudo_harmonic": (0.15, 0.19, 0.33, 0.47, 0.59, 0.67, 0.71),
        "pseudo_harmonic": (0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00),
    },
    "Kuhn": {
        "deterministic_arithmetic": (0.205, 0.205, 0.244, 0.271, 0.287, 0.298, 0.301),
        "arithmetic": (0.055,) * 7,
        "deterministic_geometric": (0.121, 0.121, 0.121, 0.217, 0.297, 0.366, 0.399),
        "geometric_1": (0.121,) * 7,
        "geometric_2": (0.121,) * 7,
        "deterministic_pseudo_harmonic": (0.171, 0.171, 0.233, 0.365, 0.454, 0.520, 0.545),
        "pseudo_harmonic": (0.029,) * 7,
    },
    "Kuhn, 0.4 pot": {
        "deterministic_arithmetic": (0.088, 0.110, 0.285, 0.485, 0.848, 1.926, 3.714),
        "arithmetic": (0.012, 0.033, 0.068, 0.157, 0.336, 0.871, 1.764),
        "deterministic_geometric": (0.086, 0.114, 0.294, 0.425, 0.548, 0.714, 0.873),
        "geometric_1": (0.071, 0.085, 0.095, 0.116, 0.145, 0.203, 0.269),
        "geometric_2": (0.071, 0.083, 0.094, 0.114, 0.144, 0.203, 0.269),
        "deterministic_pseudo_harmonic": (0.064, 0.090, 0.302, 0.420, 0.500, 0.556, 0.574),
        "pseudo_harmonic": (0.008, 0.010, 0.017, 0.027, 0.037, 0.047, 0.054),
    },
}
# fmt: on
_TRANSLATION_LEDUC = {
    "deterministic_arithmetic": (0.427, 0.904),
    "arithmetic": (0.431, 0.853),
    "deterministic_geometric": (0.341, 0.922),
    "geometric_1": (0.295, 0.853),
    "geometric_2": (0.296, 0.853),
    "deterministic_pseudo_harmonic": (0.359, 0.826),
    "pseudo_harmonic": (0.323, 0.603),
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
    """OpenSpiel's exploitability by iteration; empty if it is not known.

    Args:
      game: the full name that `str(game)` gives.
      solver: a name without parameters, which stands for the solver's defaults.
    """
    for (spec, name), values in _EXPLOITABILITY.items():
        if name == solver and str(make(spec)) == game:
            return dict(zip(_ITERATIONS, values, strict=True))
    return {}


def value(game: str) -> float | None:
    """The known value to player 0 of the game with this full name."""
    return next((value for spec, value in _VALUES.items() if str(make(spec)) == game), None)


def unit(game: str) -> str:
    """The unit of payoffs in the game with this full name."""
    name = game.removeprefix("openspiel:").partition("(")[0]
    return "chips" if name in _CHIPS else "utility"


def measured_in(game: str) -> tuple[str, float]:
    """The unit in which exploitability is reported, and how many of it make one of `unit`."""
    return ("mbb/h", 1000.0) if unit(game) == "chips" else ("utility", 1.0)


def searched_exploitability(game: str) -> dict[str, dict[int, float]]:
    """Exploitability of published search agents in a game, by their name and simulations."""
    return _SEARCHED.get(game, {})


def reinforcement_learning(game: str, algorithm: str) -> float | None:
    """Published exploitability of the best settings of an algorithm, or of uniform play."""
    return _REINFORCEMENT_LEARNING.get((game, algorithm))


def information_set_mcts(game: str) -> dict[tuple[int, float], dict[str, float]]:
    """Published exploitability, by simulations and constant and then by read-out."""
    if game != "leduc_poker":
        return {}
    names = ("visit_distribution", "max_visits", "max_value")
    return {
        setting: dict(zip(names, values, strict=True))
        for setting, values in _INFORMATION_SET_MCTS.items()
    }


def depth_limited_nlfh() -> dict[str, float]:
    """Exploitability in mb/g of answers to an off-tree bet in no-limit flop hold'em.

    Brown, Sandholm and Amos 2018, Figure 2, read off the plot to about 0.06.
    """
    by_values = {1: 12.15, 2: 5.3, 4: 2.83, 8: 2.64, 16: 1.44, 32: 1.38}
    limits = {"translation": 9.63, "in-abstraction": 0.57}
    return {f"values={count}": value for count, value in by_values.items()} | limits


def translation(game: str, mapping: str, seat: str, stack: int) -> float | None:
    """Published exploitability of a player who translates bets, in seat "P1" or "P2"; None if it
    is not known."""
    if game == "Leduc":
        return _TRANSLATION_LEDUC[mapping][seat == "P2"] if stack == 12 else None
    by_stack = dict(zip(_STACKS, _TRANSLATION[game][mapping], strict=True))
    return by_stack.get(stack)
