"""How many simulations Student of Games makes for an iteration of CFR in games without secrets."""

_FAST_FROM = 320  # simulations


def simulation_pace(simulations: int) -> float:
    """The paper's c for a search of so many simulations: 10 if there are many, else 1 (Fig. 4)."""
    return 10.0 if simulations >= _FAST_FROM else 1.0
