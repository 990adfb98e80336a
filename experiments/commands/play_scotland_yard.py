"""Games of Scotland Yard in the terminal, against PimBot or a trained agent."""

from __future__ import annotations

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from experiments.commands.play_terminal import ask, play_games, say
from experiments.harness.network_files import NETWORKS
from experiments.harness.progress import status
from experiments.harness.runs import read_config
from experiments.scotland_yard import one_game
from experiments.scotland_yard.mr_x_range import range_after_move, range_after_the_deal
from experiments.scotland_yard.trained_students import trained_player
from jaxgames.arrays import at
from jaxgames.core import TERMINAL
from jaxgames.registry import make
from jaxgames.scotland_yard.maps import NOWHERE, TICKETS
from jaxgames.scotland_yard.rules import ScotlandYard, ScotlandYardState
from solvers.scotland_yard import matches
from solvers.scotland_yard.pimbot import PimBot

PIMBOT = "pimbot"  # its name on the command line
_MOST_LISTED = 60  # possible stations that are named
_MOST_PROBABLE = 10  # of them whose probabilities are told


def plays(agent: pathlib.Path, game: str) -> bool:
    """Whether it is an agent of this file: PimBot, or the folder of a run of `sog_london`."""
    if game.partition("(")[0] != "scotland_yard":
        return str(agent) == PIMBOT
    return str(agent) == PIMBOT or (agent / NETWORKS).is_dir() or _is_of_london(agent)


def _is_of_london(folder):
    """Whether it is that of a run of `sog_london`, whose networks may be elsewhere."""
    try:
        return bool(read_config(folder, experiment="sog_london"))
    except (OSError, ValueError):
        return False


def play_person(
    agent: pathlib.Path,
    game: str,
    *,
    simulations: int | None,
    probabilities: bool,
    games: int | None,
    seat: int | None,
    seed: int | None,
) -> None:
    """Plays with the person at the terminal, until they leave or the input ends.

    Args:
      agent: "pimbot", or the folder of a run of `sog_london`.
      game: the name of the game, a Scotland Yard.
      simulations: of each search; None: 1,000 of PimBot, 100 of a trained agent.
      probabilities: whether the person, as the detectives, is told those of Mr X's stations.
      games: how many; None: any number.
      seat: the person's, 0 as Mr X or 1 as the detectives; None: both in turn.
      seed: of everything random; None: a new one.

    Raises:
      ValueError: the game is another one, or that of another agent, or there are no simulations.
    """
    yard = make(game)
    if not isinstance(yard, ScotlandYard):
        raise ValueError(f"agent {agent} plays scotland_yard, not {game}")
    opponent, name = _opponent(agent, yard, simulations)
    play_game = functools.partial(_play_game, yard, opponent, name, probabilities)
    play_games(game, play_game, games=games, seat=seat, seed=seed)


def _opponent(agent, game, simulations) -> tuple[matches.MatchAgent, str]:
    """The person's opponent, and what it is called."""
    if str(agent) == PIMBOT:
        simulations = 1000 if simulations is None else simulations
        return matches.make_pimbot(game, PimBot(simulations=simulations)), "PimBot"
    simulations = 100 if simulations is None else simulations
    return trained_player(agent, game, simulations), "agent"


def _play_game(
    game: ScotlandYard,
    agent: matches.MatchAgent,
    name: str,
    probabilities: bool,
    key: Key[Array, ""],
    person: int,
) -> float:
    """Plays a game with the person, whose payoff is returned."""
    side = 1 - person  # the agent's
    deal_key, begin_key, move_key = jax.random.split(key, 3)
    states = one_game.deal(game, deal_key)
    with status(f"{name} thinks"):
        memory = jax.block_until_ready(one_game.begin(agent, begin_key, states, side=side))
    known = range_after_the_deal(game, states) if probabilities and person == 1 else None
    say(f"You are {('Mr X', 'the detectives')[person]}. {_reveals(game)}")
    while (state := _first(states.state)).actor != TERMINAL:
        key = jax.random.fold_in(move_key, state.num_steps)
        if (state.actor == 0) == (person == 0):
            say(_view(game, state, states.possible[0], person))
            if known is not None and state.board.turn == 1:
                say(_most_probable(game, np.asarray(known.probability)))
            actions = jnp.array([ask(game, state)], jnp.int32)
        else:
            with status(f"{name} thinks"):
                memory, actions = one_game.act(game, agent, key, memory, states, side=side)
            say(f"{name}: {_seen(game, state, int(actions[0]), person)}")
        if known is not None:
            with status("Mr X's stations are weighed"):
                weighing = jax.random.fold_in(key, 1)
                known = range_after_move(known, agent, memory, weighing, states, actions)
        memory, states = _after(game, agent, memory, states, actions)
        after = _first(states.state)
        if state.actor == 0 and person == 1 and _shows(game, state, after):
            say(f"Mr X shows himself at {game.layout.numbers[int(after.mr_x)]}")
    won = float(state.returns[person])
    say(f"{game.render(state)}\nYou win {won:+g}", style="bold")
    return won


def _first(states):
    """The only one of a batch of states."""
    return at(states, 0)


@functools.partial(jax.jit, static_argnames="game")
def _after(game, agent, memory, states, actions):
    """The agent's memory and the game after an action."""
    after = matches.after_actions(game, states, actions)
    return agent.observe(memory, states, actions, after, jnp.ones(1, bool)), after


def _reveals(game: ScotlandYard) -> str:
    """When Mr X shows himself."""
    after = np.flatnonzero(game.reveal_mask).tolist()
    if not after:
        return "Mr X never shows himself."
    plural = "s" if len(after) > 1 else ""
    return f"Mr X shows himself after his move{plural} {' '.join(map(str, after))}."


def _shows(game: ScotlandYard, before: ScotlandYardState, state: ScotlandYardState) -> bool:
    """Whether Mr X has shown himself in the move between two states."""
    moves = int(state.board.moves)
    return moves > int(before.board.moves) and bool(game.reveal_mask[moves])


def _view(game, state, possible, person) -> str:
    """What the person sees before a move: the whole table at the first move of a turn, else the
    detective who moves next."""
    turn = int(state.board.turn)
    rows = game.render(state if person == 0 else _hidden(state)).splitlines()
    if turn > 1:
        return f"{rows[1 + turn]} (moves now)"
    if turn == 1:
        stations = game.layout.numbers[np.flatnonzero(possible)].tolist()
        listed = f": {' '.join(map(str, stations))}" if len(stations) <= _MOST_LISTED else ""
        rows.append(f"Mr X may be at {len(stations)} of {game.num_stations} stations{listed}")
        rows.append("detective 1 moves now")
    elif game.reveal_mask[min(int(state.board.moves) + 1, game.rounds)]:
        rows.append("After your next move you show yourself")
    return "\n".join(rows)


def _most_probable(game, probability) -> str:
    """Mr X's most probable stations, for who knows how the agent plays."""
    order = np.argsort(-probability, kind="stable")[:_MOST_PROBABLE]
    listed = [
        f"{game.layout.numbers[station]} ({probability[station]:.0%})"
        for station in order
        if probability[station] > 0
    ]
    return f"Most probable: {', '.join(listed)}"


def _hidden(state: ScotlandYardState) -> ScotlandYardState:
    """What the detectives see: Mr X at no station."""
    return state.replace(mr_x=jnp.int32(NOWHERE))


def _seen(game, state, move, person):
    """The name of a move; the detectives see no more of Mr X's moves than the ticket."""
    name = game.action_name(state, move)
    if person == 1 and int(state.board.turn) == 0:
        return next((ticket for ticket in TICKETS if name.startswith(ticket)), name)
    return f"detective {int(state.board.turn)} {name}" if int(state.board.turn) else name
