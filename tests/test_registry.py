"""Games by name: what is accepted, and how the rest is refused."""

import dataclasses
import subprocess
import sys

import pytest

from jaxgames import make, register, registered, registry
from jaxgames.matrix import MatchingPennies


def test_every_game_of_the_list_is_registered():
    assert registered() == tuple(sorted(registered()))
    assert set(registered()) >= {
        "coin_toss",
        "goofspiel",
        "kuhn_poker",
        "leduc_poker",
        "liars_dice",
        "matrix_mp",
        "matrix_rps",
        "rps_plus",
        "tic_tac_toe",
    }


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("kuhn_poker", "kuhn_poker(players=2)"),
        (" kuhn_poker ( players = 3 ) ", "kuhn_poker(players=3)"),
        ("tic_tac_toe()", "tic_tac_toe"),
        ("coin_toss(swapped=True)", "coin_toss(swapped=true)"),
    ],
)
def test_make_reads_names_and_parameters(spec, text):
    game = make(spec)
    assert str(game) == text
    assert make(text) == game
    assert hash(make(text)) == hash(game)


@pytest.mark.parametrize(
    ("spec", "text", "num_actions"),
    [
        ("openspiel:kuhn_poker(players=3)", "openspiel:kuhn_poker(players=3)", 2),
        (" openspiel: kuhn_poker ", "openspiel:kuhn_poker()", 2),
        ("pgx:tic_tac_toe", "pgx:tic_tac_toe", 9),
    ],
)
def test_make_asks_other_libraries(spec, text, num_actions):
    game = make(spec)
    assert str(game) == text
    assert game.num_actions == num_actions


def test_make_imports_a_library_only_when_asked():
    program = (
        "import sys, jaxgames; jaxgames.make('kuhn_poker'); "
        "print([name for name in ('pyspiel', 'pgx') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


def test_parameters_tell_games_apart():
    assert make("kuhn_poker(players=3)") != make("kuhn_poker")
    assert make("matrix_mp") != make("matrix_rps")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("kuhn_pokr", r"unknown game 'kuhn_pokr'; did you mean 'kuhn_poker'\? \(known: .*tic_tac"),
        ("chess", r"unknown game 'chess' \(known: "),
        ("rock_paper", "did you mean 'rock_paper_scissors'"),
        ("kuhn_poker(player=3)", r"parameter of kuhn_poker 'player'; did you mean 'players'\?"),
        ("tic_tac_toe(size=4)", r"unknown parameter of tic_tac_toe 'size' \(known: \)"),
        ("kuhn_poker(players=two)", "kuhn_poker: players='two' must be of type int"),
        ("kuhn_poker(players=2.5)", "kuhn_poker: players='2.5' must be of type int"),
        ("kuhn_poker(players=11)", "kuhn_poker: players=11 must be between 2 and 10"),
        ("coin_toss(swapped=1)", "coin_toss: swapped='1' must be true or false"),
        ("kuhn_poker(3)", "parameter '3' of kuhn_poker is not of the form key=value"),
        ("kuhn_poker(players=2,players=3)", "parameter 'players' of kuhn_poker is given twice"),
        ("kuhn_poker(players=2", r"game 'kuhn_poker\(players=2' is not of the form name or"),
        ("", "game '' is not of the form name"),
        ("open_spiel:kuhn_poker", "unknown source of games 'open_spiel'; did you mean 'openspiel'"),
        (":kuhn_poker", r"unknown source of games '' \(known: efg, openspiel, pgx\)"),
        ("openspiel:kuhn_pokr", "unknown OpenSpiel game 'kuhn_pokr'; did you mean 'kuhn_poker'"),
        ("pgx:ches", "unknown pgx game 'ches'; did you mean 'chess'"),
        ("efg:no_such.efg", "efg file 'no_such.efg': No such file"),
    ],
)
def test_bad_specification_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        make(spec)


@pytest.fixture
def private_registry(monkeypatch):
    """A copy of the registry, so that games registered in a test are forgotten after it."""
    monkeypatch.setattr(registry, "_GAMES", dict(registry._GAMES))
    monkeypatch.setattr(registry, "_ALIASES", dict(registry._ALIASES))


def _game_class():
    @dataclasses.dataclass(frozen=True)
    class Pennies(MatchingPennies):
        stakes: tuple[int, ...] = (1, 1)
        bias: float = 0.5

    return Pennies


@pytest.mark.usefixtures("private_registry")
def test_a_registered_game_is_made_by_name():
    register("biased_pennies", "pennies")(_game_class())
    assert "biased_pennies" in registered()
    game = make("pennies(stakes=2/4/8,bias=0.25)")
    assert game.stakes == (2, 4, 8)
    assert str(game) == "biased_pennies(stakes=2/4/8,bias=0.25)"
    assert make(str(game)) == game


@pytest.mark.parametrize("taken", ["kuhn_poker", "matching_pennies"])
@pytest.mark.usefixtures("private_registry")
def test_a_name_is_given_once(taken):
    with pytest.raises(ValueError, match=f"a game named '{taken}' exists already"):
        register(taken)(_game_class())
