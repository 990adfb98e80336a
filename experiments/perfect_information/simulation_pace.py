"""How many simulations Student of Games makes for an iteration of CFR in games without secrets."""

_FAST_FROM = 320  # simulations


def simulation_pace(simulations: int) -> float:
    """c for a search of so many simulations: 10 if there are many, as in most searches of Figure 4
    (in Go it has c = 1 with 800 simulations), else 1."""
    return 10.0 if simulations >= _FAST_FROM else 1.0
