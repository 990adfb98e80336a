"""All commands by name: one line of help each, and the module that is imported when it is run.

Nothing else is imported here, so that `--help` is quick. A module holds its command as `COMMAND`,
an `experiments.harness.experiment.Experiment` or `Command`.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A command: where it is, and what it does in one line."""

    module: str
    summary: str


TOOLS = {
    "list": Entry(
        "commands.list_names",
        "List the games, solvers and benchmarks that the other commands know.",
    ),
    "solve": Entry("commands.solve", "Solve a game to a measured equilibrium."),
    "solve_holdem": Entry(
        "commands.solve_holdem", "Solve a hold'em spot from the flop, the turn or the river on."
    ),
    "play": Entry(
        "commands.play_agent",
        "Play against a trained agent in the terminal, or let it play against another one.",
    ),
    "match": Entry(
        "commands.match", "Let two blueprints of hold'em play each other, over all pairs of hands."
    ),
    "acpc": Entry(
        "commands.acpc",
        "Play matches of poker with other programs by the ACPC's protocol, as dealer or as client.",
    ),
    "engine_match": Entry(
        "commands.engine_match",
        "Let two players of a board game meet in pairs of games with swapped colours.",
    ),
    "engine_ladder": Entry(
        "commands.engine_ladder",
        "Let several players of a board game meet, and rate them by Elo.",
    ),
    "uci": Entry(
        "commands.uci",
        "Let an agent of ours play chess in a graphical interface that speaks UCI.",
    ),
    "gtp": Entry(
        "commands.gtp", "Let an agent of ours play Go in a graphical interface that speaks GTP."
    ),
    "approximate_best_response": Entry(
        "commands.approximate_best_response",
        "Learn best responses to an agent of an enumerable two-player zero-sum game, or of"
        " hold'em.",
    ),
    "benchmark": Entry(
        "commands.benchmark",
        "Run a benchmark, side by side with the peers that are installed.",
    ),
    "gpu_check": Entry(
        "commands.gpu_check",
        "Run the checks and published settings that wait for a GPU, for some minutes.",
    ),
    "connect_four_positions": Entry(
        "perfect_information.connect_four_positions",
        "Write positions of Connect Four with the scores of all moves, by a solver.",
    ),
    "board_picture": Entry(
        "perfect_information.board_picture",
        "Play a game of chess, Go, Connect Four, Hex or Othello between two players, and draw it.",
    ),
    "scotland_yard_picture": Entry(
        "scotland_yard.scotland_yard_picture",
        "Play a game of Scotland Yard between two agents, and draw it.",
    ),
    "tables": Entry(
        "commands.results_tables",
        "Write the tables of docs/results.md from all experiments/results/**/result.json.",
    ),
}
EXPERIMENTS = {
    "cfr_convergence": Entry("tabular.cfr_convergence", "Compare the CFR family on four games."),
    "ismcts_leduc": Entry(
        "tabular.ismcts_leduc",
        "Measure policies made of information-set Monte Carlo tree searches in Leduc.",
    ),
    "smooth_uct_kuhn": Entry(
        "tabular.smooth_uct_kuhn", "Compare UCT and Smooth UCT by self-play in Kuhn poker."
    ),
    "smooth_uct_leduc": Entry(
        "tabular.smooth_uct_leduc",
        "Compare UCT, Smooth UCT and outcome sampling by self-play in Leduc.",
    ),
    "smooth_uct_leduc_readings": Entry(
        "tabular.smooth_uct_leduc_readings",
        "Measure what other readings of the paper do to these learning curves in Leduc.",
    ),
    "rl_baselines": Entry(
        "tabular.rl_baselines",
        "Measure how exploitable reinforcement learning by self-play is, in Kuhn and Leduc.",
    ),
    "sog_search": Entry(
        "student_of_games.sog_search",
        "Measure the exploitability of search with fixed leaf values, before anything is learned.",
    ),
    "sog_soundness": Entry(
        "student_of_games.sog_soundness",
        "Measure the exploitability of search against the error of its leaf values.",
    ),
    "sog_leduc": Entry(
        "student_of_games.sog_leduc",
        "Train a Student of Games agent in Leduc hold'em, and measure its exact exploitability.",
    ),
    "sog_glasses": Entry(
        "student_of_games.sog_glasses",
        "Train a Student of Games agent in Scotland Yard on a small map; measure its"
        " exploitability.",
    ),
    "sog_district": Entry(
        "student_of_games.sog_district",
        "Train a Student of Games agent in Scotland Yard on a part of London; measure its"
        " exploitability.",
    ),
    "sog_tictactoe": Entry(
        "student_of_games.sog_tictactoe",
        "Train a Student of Games agent in tic-tac-toe, and see whether it ever loses.",
    ),
    "alphazero_connect_four": Entry(
        "perfect_information.alphazero_connect_four",
        "Train AlphaZero in Connect Four, and score its moves by a perfect player.",
    ),
    "sog_connect_four": Entry(
        "perfect_information.sog_connect_four",
        "Train a Student of Games agent in Connect Four, and score its moves by a perfect player.",
    ),
    "alphazero_board_games": Entry(
        "perfect_information.alphazero_board_games",
        "Train AlphaZero in Gardner chess, chess, Go, Hex or Othello, and measure it by duels.",
    ),
    "sog_board_games": Entry(
        "perfect_information.sog_board_games",
        "Train a Student of Games agent in Gardner chess, chess, Go, Hex or Othello, and measure it"
        " by duels.",
    ),
    "search_ladder": Entry(
        "perfect_information.search_ladder",
        "Measure the Elo of trained AlphaZero and Student of Games by their simulations.",
    ),
    "program_ladder": Entry(
        "perfect_information.program_ladder",
        "Measure the Elo of trained AlphaZero and Student of Games in chess or Go beside other"
        " programs.",
    ),
    "equal_budgets": Entry(
        "perfect_information.equal_budgets",
        "Compare agents trained in Connect Four after equal seconds, and after equal evaluations of"
        " the network.",
    ),
    "search_gap": Entry(
        "perfect_information.search_gap",
        "Measure trained networks of AlphaZero and Student of Games, each with both searches.",
    ),
    "sog_variants": Entry(
        "student_of_games.sog_variants",
        "Measure a trained agent of Student of Games with other settings of its search.",
    ),
    "pimbot_settings": Entry(
        "scotland_yard.pimbot_settings",
        "Find the strongest settings of PimBot, a Monte Carlo tree search, in Scotland Yard.",
    ),
    "pimbot_strength": Entry(
        "scotland_yard.pimbot_strength",
        "Measure how much stronger PimBot is with more simulations, in games against itself.",
    ),
    "scotland_yard_stages": Entry(
        "scotland_yard.scotland_yard_stages",
        "Solve long games of Scotland Yard in a district of London exactly, from reveal to reveal.",
    ),
    "sog_london": Entry(
        "scotland_yard.sog_london",
        "Train a Student of Games agent for Scotland Yard on London's map; it meets PimBot on the"
        " way.",
    ),
    "sog_pimbot": Entry(
        "scotland_yard.sog_pimbot",
        "Let a trained Student of Games agent play PimBot in Scotland Yard, by PimBot's searches.",
    ),
    "blueprint_limit": Entry(
        "blueprints.blueprint_limit",
        "Solve limit hold'em with card abstractions, and measure the result in the real game.",
    ),
    "five_ranks": Entry(
        "blueprints.five_ranks",
        "Solve hold'em with five ranks and one-card flops without an abstraction.",
    ),
    "blueprint_two_rounds": Entry(
        "blueprints.blueprint_two_rounds",
        "Measure how exploitable abstractions are in the real game, in two rounds of limit"
        " hold'em.",
    ),
    "smooth_uct_limit": Entry(
        "blueprints.smooth_uct_limit",
        "Compare UCT and Smooth UCT by self-play in limit hold'em with buckets.",
    ),
    "smooth_uct_three_players": Entry(
        "blueprints.smooth_uct_three_players",
        "Compare UCT and Smooth UCT by self-play in three-player limit hold'em with buckets.",
    ),
    "rps_plus": Entry(
        "subgame_solving.rps_plus",
        "Search rock-paper-scissors-plus to a depth of one, with a single value per leaf and with"
        " several.",
    ),
    "depth_limited_leduc": Entry(
        "subgame_solving.depth_limited_leduc",
        "Measure the exploitability of depth-limited solving in Leduc by the number of values per"
        " leaf.",
    ),
    "depth_limited_nlfh": Entry(
        "subgame_solving.depth_limited_nlfh",
        "Measure answers to an off-tree bet in no-limit flop hold'em by the number of values per"
        " leaf.",
    ),
    "leaf_values_dnn": Entry(
        "subgame_solving.leaf_values_dnn",
        "Learn the values of leaves in no-limit flop hold'em, and answer an off-tree bet with"
        " them.",
    ),
    "resolving_leduc": Entry(
        "subgame_solving.resolving_leduc",
        "Compare the methods of safe subgame solving in the second round of Leduc, from coarse and"
        " from fine blueprints.",
    ),
    "translation_no_limit_leduc": Entry(
        "subgame_solving.translation_no_limit_leduc",
        "Measure the exploitability of action translation in no-limit Leduc, Kuhn and clairvoyance"
        " poker.",
    ),
    "abr_uniform": Entry(
        "best_response.abr_uniform",
        "Learn best responses to uniform random play in all games whose exact value can be"
        " computed.",
    ),
    "abr_cfr": Entry(
        "best_response.abr_cfr",
        "Learn best responses to the average policies of CFR+ after a few iterations.",
    ),
    "abr_chumps": Entry(
        "best_response.abr_chumps",
        "Compute and learn best responses to chumps of hold'em, players that ignore their cards.",
    ),
    "aivat_leduc": Entry(
        "best_response.aivat_leduc",
        "Measure the standard deviation of AIVAT's estimates in Leduc hold'em.",
    ),
    "abr_search_agents": Entry(
        "best_response.abr_search_agents",
        "Learn best responses to trained search agents, and compare them with exact ones.",
    ),
    "abr_alphazero": Entry(
        "best_response.abr_alphazero",
        "Train two AlphaZero agents, and measure what a learned best response wins against each.",
    ),
}
COMMANDS = TOOLS | EXPERIMENTS


def load(name: str) -> Any:
    """Imports the module of a command of `COMMANDS`.

    Returns:
      The command, a `Command` or `Experiment` of `experiments.harness.experiment`.
    """
    return importlib.import_module(f"experiments.{COMMANDS[name].module}").COMMAND
