"""Messages between a running program and labkit; `host/ask.cpp` is the other end."""

import socket
import struct
from dataclasses import dataclass

_QUESTION = struct.Struct("<48sQ9qQ")
_REPLY = struct.Struct("<II4qQQ")


class ProgramEnded(Exception):
    """The program is gone, or going."""


@dataclass(frozen=True)
class Question:
    """One call of the runtime API.

    site   the place in the host's build that it returns to
    """

    name: str
    site: int
    numbers: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Answer:
    """What a call gives back, besides its error."""

    values: tuple[int, ...] = ()
    data: bytes = b""


class Wire:
    """A socket to a program: its questions and their answers, or the calls of its functions."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def question(self) -> Question:
        """The program's next call.

        Raises   ProgramEnded   there is none
        """
        name, site, *numbers, size = _QUESTION.unpack(self._receive(_QUESTION.size))
        return Question(name.rstrip(b"\0").decode(), site, tuple(numbers), self._receive(size))

    def answer(self, error: int, answer: Answer, printed: str) -> None:
        """The call returns, after what kernels printed is on the program's standard output."""
        self._send(error, answer.values, printed, answer.data)

    def call(self, function: int, argument: int, stream: int | None, printed: str) -> None:
        """The program has been told to call a function of its own; one byte will say when done.

        stream   of a callback in the old form, which is told of it
        """
        self._send(0, (function, argument, int(stream is not None), stream or 0), printed, b"")

    def fileno(self) -> int:
        """What to poll."""
        return self._connection.fileno()

    def called(self) -> None:
        """The function that was called has returned."""
        self._receive(1)

    def _send(self, error: int, values: tuple[int, ...], printed: str, data: bytes) -> None:
        text = printed.encode(errors="surrogateescape")
        head = _REPLY.pack(error, 0, *(*values, 0, 0, 0, 0)[:4], len(text), len(data))
        try:
            self._connection.sendall(head + text + data)
        except OSError:
            raise ProgramEnded from None

    def _receive(self, size: int) -> bytes:
        pieces = []
        while size:
            try:
                piece = self._connection.recv(min(size, 1 << 20))
            except ConnectionError:
                raise ProgramEnded from None
            if not piece:
                raise ProgramEnded
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)
