"""Elo that Schmid et al. 2023 publish: Table 1, and Tables S3 and S4 by simulations."""

from __future__ import annotations

from experiments.perfect_information.trained_players import ALPHAZERO, STUDENT

# Go; AlphaZero after 800,000 steps, 0 for GNU Go at level 10. Table S3 is of Student of Games
# without recursive queries, and in Figure 4B; Table S4 is of one with them.
TABLE_S3 = {
    ALPHAZERO: {800: 2099.0, 2_000: 2451.0, 4_000: 2643.0, 8_000: 2875.0, 16_000: 3139.0},
    STUDENT: {800: 1426.0, 2_000: 1672.0, 4_000: 1796.0, 8_000: 1902.0, 16_000: 1970.0},
}
TABLE_S4 = {
    ALPHAZERO: {800: 2394.0, 2_000: 2745.0, 4_000: 2933.0, 8_000: 3169.0, 16_000: 3431.0},
    STUDENT: {800: 1579.0, 2_000: 1766.0, 4_000: 1838.0, 8_000: 1937.0, 16_000: 2025.0},
}
# Chess (Table 1), 0 for Stockfish with one thread and 0.1 s.
TABLE_1_CHESS = {
    ALPHAZERO: {8_000: 455.0, 60_000: 592.0},
    STUDENT: {8_000: 268.0, 60_000: 420.0},
}
# The other programs in Table 1.
CHESS_PROGRAMS = {
    "Stockfish(16 threads, 4 s)": 530.0,
    "Stockfish(4 threads, 1 s)": 382.0,
    "Stockfish(1 thread, 0.1 s)": 0.0,
}
GO_PROGRAMS = {"Pachi(100k)": 869.0, "Pachi(10k)": 231.0, "GNU Go(level 10)": 0.0}


def gaps(table: dict[str, dict[int, float]]) -> dict[int, float]:
    """Student of Games less AlphaZero, by simulations."""
    return {count: elo - table[ALPHAZERO][count] for count, elo in table[STUDENT].items()}


def by_name(table: dict[str, dict[int, float]], *, least: int = 0) -> dict[str, float]:
    """Elo by names such as `SoG(8k)`, of players with at least `least` simulations."""
    return {
        f"{agent}({count // 1000}k)": elo
        for agent, known in table.items()
        for count, elo in known.items()
        if count >= least
    }


GAPS = {  # by game
    "go_19x19": gaps(TABLE_S3),
    "chess": gaps(TABLE_1_CHESS),
}
