"""The clients of a match: ports to listen on, programs to start, and their end."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from experiments.acpc.connection import Connection
from experiments.acpc.dealer import Client, ClientError, greet

HOST = "127.0.0.1"
_PORT = "{port}"  # in the command line of a program
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 5.0  # that programs have to end after the match


def check_clients(
    players: int, *, names: Sequence[str], ports: Sequence[int], programs: Sequence[str]
) -> None:
    """Refuses clients that cannot be those of a match.

    Args:
      players: how many clients there are.
      names: of the clients, for the log.
      ports: to listen on; 0: any that is free.
      programs: command lines of the first clients.

    Raises:
      ValueError: the numbers differ, a name cannot stand in a log, or a program gets no port or is
        no command line.
    """
    if len(names) != players or len({*names}) != players:
        raise ValueError(f"names={names} must be different names for {players} players")
    for name in names:
        if not re.fullmatch(r"[\w.+-]+", name):
            raise ValueError(f"name {name!r} must be letters, digits and any of _.+-")
    if len(ports) != players or not all(0 <= port < 2**16 for port in ports):
        raise ValueError(f"ports={ports} must be numbers from 0 to 65535 for {players} players")
    if len(programs) > players:
        raise ValueError(f"programs={programs} must be at most {players}, one for each player")
    for program in programs:
        if _PORT not in program:
            raise ValueError(f"program {program!r} must have {_PORT} where the port shall stand")
        try:
            shlex.split(program)
        except ValueError as error:
            raise ValueError(f"program {program!r} is no command line: {error}") from None


@contextlib.contextmanager
def seated(
    names: Sequence[str],
    *,
    ports: Sequence[int],
    programs: Sequence[str],
    folder: pathlib.Path,
    seconds: float,
    say: Callable[[str], None],
) -> Iterator[list[Client]]:
    """Waits until all clients are connected, and ends their programs after the match.

    Args:
      names: of the clients.
      ports: to listen on, for each client; 0: any that is free.
      programs: command lines of the first clients, in which `{port}` stands for the port; the
        other clients are started by somebody else.
      folder: where what the programs print is kept, as `NAME.txt`.
      seconds: how long each client may take to connect.
      say: is told the port of each client.

    Yields:
      The clients.

    Raises:
      ClientError: a client does not connect in time, or not with the protocol's version.
      OSError: a port is taken, or a program cannot be started.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((HOST, port))) for port in ports]
        for name, listener in zip(names, listeners, strict=True):
            say(f"{name}: {HOST}, port {_port(listener)}")
        processes = [
            stack.enter_context(_started(program, _port(listener), folder / f"{name}.txt"))
            for name, listener, program in zip(names, listeners, programs, strict=False)
        ]
        waiting = [*processes, *[None] * (len(names) - len(processes))]
        clients = []
        for name, listener, process in zip(names, listeners, waiting, strict=True):
            client = Client(name, Connection(_accepted(name, listener, process, seconds)))
            stack.callback(client.connection.close)
            greet(client, seconds=seconds)
            clients.append(client)
        yield clients
        for client in clients:
            client.connection.close()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)


def _port(listener):
    return listener.getsockname()[1]


@contextlib.contextmanager
def _started(program, port, output):
    """A process, of which nothing is left at the end."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            shlex.split(program.replace(_PORT, str(port))),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started
        process.wait()


def _accepted(name, listener, process, seconds):
    """The socket of a client that connects."""
    end = time.monotonic() + seconds
    listener.settimeout(_POLL_SECONDS)
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            return listener.accept()[0]
        if process is not None and process.poll() is not None:
            code = process.returncode
            raise ClientError(f"{name} ended with exit code {code} before it connected")
    raise ClientError(f"{name} did not connect in {seconds:g} s")
