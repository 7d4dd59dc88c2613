"""Messages between a running program and labkit; `host/ask.cpp` is the other end."""

import socket
import struct
from dataclasses import dataclass

_QUESTION = struct.Struct("<48sQ9qQ")
_REPLY = struct.Struct("<II4qQQ")
_ANSWER, _CALL_HOST = 0, 1


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
    """The socket to a program, which waits for every answer."""

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
        self._send(_ANSWER, error, answer.values, printed, answer.data)

    def call_host(self, function: int, argument: int, stream: int | None, printed: str) -> None:
        """The program has been told to call a function of its own; a question will say when done.

        stream   of a callback in the old form, which is told of it
        """
        values = (function, argument, int(stream is not None), stream or 0)
        self._send(_CALL_HOST, 0, values, printed, b"")

    def _send(
        self, kind: int, error: int, values: tuple[int, ...], printed: str, data: bytes
    ) -> None:
        text = printed.encode(errors="surrogateescape")
        filled = (*values, 0, 0, 0, 0)[:4]
        try:
            self._connection.sendall(
                _REPLY.pack(kind, error, *filled, len(text), len(data)) + text + data
            )
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
