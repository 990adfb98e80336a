"""Lines of text over a socket, with time limits."""

from __future__ import annotations

import contextlib
import socket
import time

from jaxgames.holdem.acpc_protocol import LINE_END

MAX_LINE = 65_536  # bytes
_SEND_SECONDS = 10.0  # after which a line that cannot be sent is given up


class Connection:
    """A socket that sends and receives lines.

    Args:
      connected: the socket, which `close` closes.
    """

    def __init__(self, connected: socket.socket):
        self._socket, self._received = connected, b""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each line at once

    def send(self, line: str) -> None:
        """Sends a line, given without its end.

        Raises:
          ConnectionError: the other side has closed the connection.
          TimeoutError: the other side does not read what it is sent.
        """
        self._socket.settimeout(_SEND_SECONDS)
        self._socket.sendall((line + LINE_END).encode())

    def receive(self, *, seconds: float | None) -> str:
        """Waits for a line.

        Args:
          seconds: how long at most; None: without end.

        Returns:
          The line without its end; bytes that are not ASCII are replaced.

        Raises:
          ConnectionError: the other side has closed the connection.
          TimeoutError: no line came in time.
          ValueError: the line has more than `MAX_LINE` bytes.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while (left := None if end is None else end - time.monotonic()) is None or left > 0:
            if b"\n" in self._received[:MAX_LINE]:
                break
            if len(self._received) >= MAX_LINE:
                raise ValueError(f"a line has more than {MAX_LINE} bytes")
            self._socket.settimeout(left)
            if not (more := self._socket.recv(MAX_LINE)):
                raise ConnectionError("the connection is closed")
            self._received += more
        else:
            raise TimeoutError("no line came in time")
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("ascii", "replace").removesuffix("\r")

    def close(self) -> None:
        """Closes the connection, once the other side has been told all that was sent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()
