"""A program beside a running task, over a WebSocket: what the command line's terminal and `job.exec` share.

One thread reads, another may write. Bytes pass as they are; the caller that shows them decides what a terminal may do with
them.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from berth import __version__, limits
from berth.errors import AnswerInvalid, BerthError, NotAuthenticated, ServerUnreachable, from_problem

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from berth.config import Settings

_STATUS = {4401: 401, 4403: 403, 4404: 404, 4409: 409, 1008: 429, 1013: 503}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command printed, its errors included, and how it ended; `exit_code` is None where it is not known."""

    exit_code: int | None
    output: bytes

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")


class ExecEnded(BerthError):
    """The connection ended before the program did."""

    code = "exec_ended"


class Execution:
    """One program that runs. Iterate over it for what it prints; afterwards `exit_code` and `why` say how it ended."""

    def __init__(self, life: contextlib.ExitStack, connection: ClientConnection, server: str) -> None:
        self._life, self._connection, self._server = life, connection, server
        self.exit_code: int | None = None
        self.why = ""

    def __iter__(self) -> Iterator[bytes]:
        """What it prints as it comes. Raises the server's refusal, and ExecEnded where the connection broke."""
        while not self.why:
            message = self._guarded(self._connection.recv)
            if isinstance(message, bytes):
                yield message
            else:
                self._hear(message)

    def write(self, data: bytes) -> None:
        """Give it input, in pieces that the server takes."""
        for start in range(0, len(data), limits.EXEC_FRAME_BYTES):
            piece = data[start : start + limits.EXEC_FRAME_BYTES]
            self._guarded(lambda piece=piece: self._connection.send(piece))  # type: ignore[misc]

    def resize(self, rows: int, columns: int) -> None:
        self._say({"resize": _size(rows, columns)})

    def end_input(self) -> None:
        """Without a terminal: let it read its input's end."""
        self._say({"eof": True})

    def close(self) -> None:
        """Leave; what still runs is ended by the server."""
        self._life.close()

    def _say(self, message: Mapping[str, Any]) -> None:
        self._guarded(lambda: self._connection.send(json.dumps(message)))

    def _hear(self, text: str) -> None:
        try:
            message = json.loads(text)
            kind = message["type"]
        except (ValueError, TypeError, KeyError):
            raise AnswerInvalid("The server sent a message that is not of a terminal.") from None
        if kind == "error":
            raise from_problem(_status_of(str(message.get("code"))), message)
        if kind == "ended":
            code = message.get("exit_code")
            self.exit_code, self.why = (code if isinstance(code, int) else None), str(message.get("why") or "exit")

    def _guarded(self, work: Callable[[], _T]) -> _T:
        from websockets.exceptions import ConnectionClosed

        try:
            return work()
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd is not None else 0
            if code in _STATUS:
                raise from_problem(_STATUS[code], None) from error
            raise ExecEnded("The connection ended before the program did.", hint="Run it again.") from error
        except OSError as error:
            raise ExecEnded(f"The connection to {self._server} broke: {error}.", hint="Run it again.") from error


def start(
    settings: Settings,
    job: str,
    argv: Sequence[str] = (),
    *,
    role: str | None = None,
    index: int | None = None,
    terminal: tuple[int, int] | None = None,
    language: str = "",
) -> Execution:
    """Start a program beside a task. `terminal` is its rows and columns; None gives it pipes. No argv is a shell. Refusals come
    in `language`, a value of Accept-Language; "" is the server's choice."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    query = {"job": job, **({"role": role} if role is not None else {}), **({"index": index} if index is not None else {})}
    address = f"ws{settings.server.removeprefix('http')}/ws/v1/exec?{urlencode(query)}"
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    headers |= {"Accept-Language": language} if language else {}
    life = contextlib.ExitStack()
    try:
        opened = connect(  # It opens the connection by itself, not when it is entered.
            address,
            additional_headers=headers,
            user_agent_header=f"berth-client/{__version__}",
            open_timeout=limits.CONNECT_SECONDS,
            compression=None,
            max_size=limits.EXEC_MESSAGE_BYTES,
            max_queue=limits.EXEC_MESSAGES,
        )
        connection = life.enter_context(opened)
    except InvalidStatus as error:
        if error.response.status_code in (401, 403):
            detail = f"{settings.server} refused the connection: the token is missing, expired or revoked."
            raise NotAuthenticated(detail, hint="Sign in again: berth login") from error
        raise from_problem(error.response.status_code, None) from error
    except (OSError, WebSocketException) as error:
        raise ServerUnreachable(
            f"{settings.server} does not answer: {error}.",
            hint="Is the platform running, and is the address right? berth version",
        ) from error
    execution = Execution(life, connection, settings.server)
    start_message: dict[str, Any] = {"argv": list(argv), "terminal": terminal is not None}
    try:
        execution._say({"start": start_message | (_size(*terminal) if terminal else {})})
    except BaseException:
        life.close()
        raise
    return execution


def run(
    settings: Settings, job: str, argv: Sequence[str], *, role: str | None, index: int | None, stdin: bytes, language: str = ""
) -> ExecResult:
    """Run a command to its end, with this input."""
    execution = start(settings, job, argv, role=role, index=index, language=language)
    try:
        feeder = threading.Thread(target=_feed, args=(execution, stdin), daemon=True)  # It may print before it has read all.
        feeder.start()
        output = bytearray()
        for piece in execution:
            output += piece
            if len(output) > limits.EXEC_OUTPUT_BYTES:
                raise AnswerInvalid(
                    f"The command printed more than {limits.EXEC_OUTPUT_BYTES} bytes.",
                    hint="Write the output to a file or a volume.",
                )
        return ExecResult(execution.exit_code, bytes(output))
    finally:
        execution.close()


def _feed(execution: Execution, data: bytes) -> None:
    try:
        execution.write(data)
        execution.end_input()
    except BerthError:  # Who reads learns of it, too.
        return


def _status_of(code: str) -> int:
    return {"exec_disabled": 403, "exec_refused": 503}.get(code, 409 if code.startswith("exec_") else 0)


def _size(rows: int, columns: int) -> dict[str, int]:
    most = limits.TERMINAL_CELLS
    return {"rows": min(max(rows, 1), most), "columns": min(max(columns, 1), most)}
