"""Games of Scotland Yard in the terminal, against PimBot."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from experiments.commands.play_terminal import ask, play_games, say
from experiments.harness.progress import status
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.play import checked_step, sample_chance
from jaxgames.registry import make
from jaxgames.scotland_yard.maps import NOWHERE, TICKETS
from jaxgames.scotland_yard.rules import ScotlandYard, ScotlandYardState
from solvers.scotland_yard import matches, possible_stations
from solvers.scotland_yard.pimbot import PimBot

AGENT = "pimbot"  # its name on the command line
_SIMULATIONS = 1000
_MOST_LISTED = 60  # possible stations that are named


def play_person(
    game: str, *, simulations: int | None, games: int | None, seat: int | None, seed: int | None
) -> None:
    """Plays with the person at the terminal, until they leave or the input ends.

    Args:
      game: the name of the game, a Scotland Yard.
      simulations: of each search; None: 1,000.
      games: how many; None: any number.
      seat: the person's, 0 as Mr X or 1 as the detectives; None: both in turn.
      seed: of everything random; None: a new one.

    Raises:
      ValueError: the game is another one, or there are no simulations.
    """
    yard = make(game)
    simulations = _SIMULATIONS if simulations is None else simulations
    if not isinstance(yard, ScotlandYard):
        raise ValueError(f"agent {AGENT} plays scotland_yard, not {game}")
    agent = matches.make_pimbot(yard, PimBot(simulations=simulations))
    play_game = functools.partial(_play_game, yard, agent)
    play_games(game, play_game, games=games, seat=seat, seed=seed)


def _play_game(
    game: ScotlandYard, agent: matches.PimBotAgent, key: Key[Array, ""], person: int
) -> float:
    """Plays a game with the person, whose payoff is returned."""
    state = game.init()
    possible = possible_stations.first_stations(game, state)
    say(f"You are {('Mr X', 'the detectives')[person]}. {_reveals(game)}")
    while (actor := int(state.actor)) != TERMINAL:
        noise = jax.random.fold_in(key, state.num_steps)
        if actor == CHANCE:
            move = int(sample_chance(noise, state))
        elif actor == person:
            say(_view(game, state, possible, person))
            move = ask(game, state)
        else:
            with status("PimBot thinks"):
                move = _search(agent, noise, state, possible)
            say(f"PimBot: {_seen(game, state, move, person)}")
        before, state = state, checked_step(game, state, move)
        if actor == 0 and person == 1 and _shows(game, before, state):
            say(f"Mr X shows himself at {game.layout.numbers[int(state.mr_x)]}")
        if actor == CHANCE:
            possible = possible_stations.first_stations(game, state)
        else:
            possible = _after_action(game, possible, before, jnp.int32(move), state)
    won = float(state.returns[person])
    say(f"{game.render(state)}\nYou win {won:+g}", style="bold")
    return won


def _search(agent, key, state, possible) -> int:
    """PimBot's move."""
    one = jax.tree.map(lambda x: x[None], matches.MatchStates(state=state, possible=possible))
    side = matches.MR_X if int(state.actor) == 0 else matches.DETECTIVES
    _, actions = agent.act(key[None], (), one, side=side)
    return int(actions[0])


_after_action = jax.jit(possible_stations.after_action, static_argnames="game")


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


def _hidden(state: ScotlandYardState) -> ScotlandYardState:
    """What the detectives see: Mr X at no station."""
    return state.replace(mr_x=jnp.int32(NOWHERE))


def _seen(game, state, move, person):
    """The name of a move; the detectives see no more of Mr X's moves than the ticket."""
    name = game.action_name(state, move)
    if person == 1 and int(state.board.turn) == 0:
        return next((ticket for ticket in TICKETS if name.startswith(ticket)), name)
    return f"detective {int(state.board.turn)} {name}" if int(state.board.turn) else name
