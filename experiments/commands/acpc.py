"""Matches with other programs of poker: `jaxgames acpc dealer` and `jaxgames acpc client`."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import tyro
from rich.console import Console

from experiments.acpc import client, match_result
from experiments.acpc.agents import make_agent
from experiments.acpc.dealer import (
    Client,
    ClientError,
    DealtHand,
    Schedule,
    TimeLimits,
    play_match,
)
from experiments.acpc.table import HOST, check_clients, seated
from experiments.harness import results
from experiments.harness.experiment import Command, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import prepare
from experiments.harness.usage_meter import UsageMeter
from jaxgames.holdem import acpc_protocol
from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make

LOG = "match.log"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DealerArguments:
    """Deal a match to clients that connect, or to programs that are started.

    Writes match.log in the format of the ACPC and result.json into --out. What a client does wrong
    ends the match, but illegal actions are corrected: to the nearest raise, or else to a call. Exit
    codes: 0 all hands were played, 1 a client ended the match; then both files have the hands
    until then.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A poker game of `list` with a full deck, such as limit_holdem, or a .game file."""
    hands: int = 1000
    """How many hands to play; with --duplicate a multiple of the number of players."""
    seed: int = 0
    """Seed of the cards."""
    duplicate: bool = False
    """Play all deals again until each client has had each seat of each deal."""
    programs: tuple[str, ...] = ()
    """Command lines of the first clients, with {port} where the port shall stand. What they print
    is written into --out. For the other clients the dealer waits."""
    ports: tuple[int, ...] = ()
    """Ports to listen on, one for each client; 0, the default, is any that is free."""
    names: tuple[str, ...] = ()
    """Names of the clients in the log and in the result. Default: client_0, client_1, ..."""
    action_seconds: float = 600.0
    """How long a client may take for an action."""
    hand_seconds: float = 600.0
    """How long a client may take for all its actions of a hand."""
    start_seconds: float = 120.0
    """How long to wait for each client to connect."""
    out: pathlib.Path = pathlib.Path("out/acpc")
    """Folder for the results, which is made if it does not exist."""
    overwrite: bool = False
    """Start again, and delete an earlier match in --out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientArguments:
    """Let an agent play at a dealer, until the dealer ends the match."""

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """The dealer's game: a poker game of `list` with a full deck, or a .game file."""
    agent: str
    """always_call, always_raise (the smallest raise), uniform, or the folder of a blueprint."""
    port: int
    """Where the dealer listens."""
    host: str = HOST
    """Where the dealer listens."""
    seed: int = 0
    """Seed of the agent."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Play matches of poker with other programs by the ACPC's protocol, as dealer or as client."""

    subcommand: tyro.conf.OmitArgPrefixes[
        tyro.conf.OmitSubcommandPrefixes[
            Annotated[DealerArguments, tyro.conf.subcommand("dealer")]
            | Annotated[ClientArguments, tyro.conf.subcommand("client")]
        ]
    ]
    """Either end of the connection."""


def main(arguments: Arguments, *, command: str) -> int:
    """Runs the command.

    Args:
      arguments: its options.
      command: the command line, for the record.

    Returns:
      The exit code: 0, or 1 if a client has ended the match.

    Raises:
      ValueError: bad input; to a client, also a line that is not of the protocol.
      OSError: files cannot be written, a port is taken, or there is no dealer.
      KeyboardInterrupt: stopped by Ctrl-C; a dealer has written the hands until then.
    """
    if isinstance(arguments.subcommand, ClientArguments):
        return _play(arguments.subcommand)
    return _deal(arguments.subcommand, command)


def poker_game(name: str) -> Poker:
    """The game of a name of `list`, or of a `.game` file.

    Raises:
      ValueError: it is no game of poker, or one that the protocol cannot express.
      OSError: the file cannot be read.
    """
    is_file = name.endswith(".game")
    game = parse_game(pathlib.Path(name).read_text()) if is_file else make(name)
    if not isinstance(game, Poker):
        raise ValueError(f"{name} must be a game of poker, such as limit_holdem or hunl")
    acpc_protocol.check_expressible(game)
    return game


def _play(arguments: ClientArguments) -> int:
    game = poker_game(arguments.game)
    agent = make_agent(arguments.agent, game, seed=arguments.seed)
    played = client.play(agent, game, host=arguments.host, port=arguments.port)
    print(f"{arguments.agent}: {played.hands} hands, {played.chips:+g} chips")
    return 0


def _deal(arguments: DealerArguments, command: str) -> int:
    meter, game = UsageMeter(), poker_game(arguments.game)
    schedule = Schedule(
        game=game, hands=arguments.hands, seed=arguments.seed, duplicate=arguments.duplicate
    )
    limits = TimeLimits(action=arguments.action_seconds, hand=arguments.hand_seconds)
    names = arguments.names or tuple(f"client_{i}" for i in range(game.players))
    ports = arguments.ports or (0,) * game.players
    check_clients(game.players, names=names, ports=ports, programs=arguments.programs)
    printed = [f"{name}.txt" for name, _ in zip(names, arguments.programs, strict=False)]
    files = (results.RESULT_FILE, LOG, *printed)
    lock = prepare(arguments.out, files=files, resume=None, overwrite=arguments.overwrite)
    acpc_protocol.warm_up(game)
    table = seated(
        names,
        ports=ports,
        programs=arguments.programs,
        folder=arguments.out,
        seconds=arguments.start_seconds,
        say=lambda line: print(line, flush=True),
    )
    clients: list[Client] = []
    hands: list[DealtHand] = []
    ended: ClientError | KeyboardInterrupt | None = None
    try:
        with table as connected:
            clients += connected
            _play_hands(arguments, play_match(schedule, clients, limits), hands, names)
    except (ClientError, KeyboardInterrupt) as error:
        ended = error
    except OSError:
        if not clients:  # a port is taken, or a program is not there: nothing was played
            for name in printed:
                (arguments.out / name).unlink(missing_ok=True)
        raise
    result = results.make_result(
        experiment="acpc",
        preset="custom",
        config=_recorded(arguments, names, ended),
        command=command,
        usage=meter.usage(),
        numbers=match_result.numbers(schedule, clients, hands),
        error_bars=results.TWO_STANDARD_ERRORS,
    )
    results.write_result(arguments.out, result)
    lock.release()
    if isinstance(ended, KeyboardInterrupt):
        raise ended
    _print(result, arguments)
    if ended is None:
        return 0
    line = f"the match ended after {len(hands)} of {arguments.hands} hands: {ended}"
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    return 1


def _play_hands(
    arguments: DealerArguments,
    match: Iterator[DealtHand],
    hands: list[DealtHand],
    names: Sequence[str],
) -> None:
    """Plays all hands, adds them to the list and writes the log."""
    with (
        (arguments.out / LOG).open("w") as log,
        progress(f"{arguments.game}, hands", arguments.hands) as report,
    ):
        log.write(_heading(arguments))
        count = counter(report)
        for hand in match:
            hands.append(hand)
            log.write(hand.line + "\n")
            log.flush()
            count(1)
        totals = [sum(values) for values in zip(*(hand.values for hand in hands), strict=True)]
        log.write(acpc_protocol.format_score(totals, names) + "\n")


def _heading(arguments: DealerArguments) -> str:
    """The comments that the ACPC's server begins a log with; times are in milliseconds."""
    match = f"{arguments.game} {arguments.hands} {arguments.seed}"
    action, hand = (round(1000 * s) for s in (arguments.action_seconds, arguments.hand_seconds))
    return f"# game/hands/seed {match}\n#--t_response {action}\n#--t_hand {hand}\n"


def _recorded(
    arguments: DealerArguments, names: Sequence[str], ended: BaseException | None
) -> dict[str, object]:
    """The config of the result."""
    recorded = dataclasses.asdict(arguments) | {"names": names, "measure": match_result.MEASURE}
    for name in ("out", "overwrite", "start_seconds"):  # not about the numbers
        del recorded[name]
    why = "Ctrl-C" if isinstance(ended, KeyboardInterrupt) else ended and str(ended)
    return recorded | {"ended_early": why}


def _print(result: results.Result, arguments: DealerArguments) -> None:
    rows = [
        (number.name, results.text(number.value), _error(number), number.unit)
        for number in result.numbers
    ]
    title = f"{arguments.game}, seed {arguments.seed}"
    Console().print(text_table(title, ("", "value", "95 %", "unit"), rows))
    print(f"written to {arguments.out}")


def _error(number: results.Number) -> str:
    return "" if number.low is None else f"± {results.text((number.high - number.low) / 2)}"


COMMAND = Command(Arguments, main)
