"""A session with the containers of one run: their commands are our children, read by one selector.

Commands hold every stream, so a daemon on another machine, a context or Docker Desktop work as on the command
line, and no file of the run is ever in a folder that a container mounts. This module also has short commands to the
daemon about one container.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Final, Literal, TypeAlias

from stepline.adapters.docker.supervisor_protocol import (
    MESSAGE_BYTES_MAX,
    Answered,
    Asked,
    SupervisorMessage,
    decode,
    encode,
)
from stepline.adapters.sandbox.cancel import LOOK_S
from stepline.adapters.sandbox.tail import Tail
from stepline.errors import DependencyError, SandboxError
from stepline.ports.executor import Serve, serve_nothing
from stepline.ports.signal import Cancel
from stepline.programs.frame import FrameReader

READ_BYTES: Final = 256 * 1024
RUNTIME_LOG_BYTES: Final = 64 * 1024

GOODBYE_S: Final = 15.0
FATAL: Final = frozenset(
    {
        *(signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV),
        *(signal.SIGSYS, signal.SIGTRAP, signal.SIGXCPU, signal.SIGXFSZ),
    }
)
"""Signals that only kill a program; a container's exit code is 128 plus the signal's number."""

Role: TypeAlias = Literal["supervisor", "executor"]
EndedSide: TypeAlias = Literal["supervisor", "executor", "late"]
"""The side whose streams have ended, or `late` at the deadline."""
Cancelled: TypeAlias = Literal["cancelled"]


class AnswerQueue:
    """Hands messages of other threads to the thread of a selector, and wakes it."""

    def __init__(self, send: Callable[[SupervisorMessage], None]) -> None:
        self._send = send
        self._messages: collections.deque[SupervisorMessage] = collections.deque()
        self._lock = threading.Lock()
        self._open = True
        self._source, self._rope = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a message waits."""
        return self._source

    def ring(self, message: SupervisorMessage) -> None:
        """Leave a message, from any thread; after `close` it is dropped."""
        with self._lock:
            if self._open:
                self._messages.append(message)
                os.write(self._rope, b"!")

    def take(self, _: object) -> None:
        """Send what was left."""
        os.read(self._source, READ_BYTES)
        while self._messages:
            self._send(self._messages.popleft())

    def close(self) -> None:
        """Take no more messages."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._source)
                os.close(self._rope)


class ContainerSession:
    """The streams of one run. `program` is the executor's output, `runtime` the supervisor's own.

    Only `next` blocks, no longer than its deadline.
    """

    def __init__(
        self,
        docker: str,
        supervisor: Sequence[str],
        executor: Sequence[str],
        program: Tail,
        serve: Serve = serve_nothing,
    ) -> None:
        """Start both commands immediately, with the executor's output in `program`.

        `serve` makes the calls that the supervisor asks for, each in a thread of its own.
        Raises SandboxError `docker_unavailable` if the command is missing.
        """
        self.program = program
        self.runtime = Tail(RUNTIME_LOG_BYTES)
        self.children: dict[Role, subprocess.Popen[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._frames = FrameReader(MESSAGE_BYTES_MAX)
        self._heard: collections.deque[SupervisorMessage | EndedSide] = collections.deque()
        self._serve = serve
        self._answered = AnswerQueue(self.send)
        self._selector.register(self._answered, selectors.EVENT_READ, self._answered.take)
        self._unsent: dict[IO[bytes], bytearray] = {}
        self._ending: set[IO[bytes]] = set()
        try:
            if executor:  # first, since a container without a network takes longer to create
                self._start("executor", [docker, *executor])
            self._start("supervisor", [docker, *supervisor])
        except OSError as error:
            self.hang_up()
            raise SandboxError(
                f"{docker} cannot be run ({error.strerror}): install Docker, or choose mode process",
                code="docker_unavailable",
            ) from error

    def send(self, *messages: SupervisorMessage) -> None:
        """Send messages to the supervisor."""
        self._queue("supervisor", b"".join(map(encode, messages)))

    def feed(self, payload: bytes) -> None:
        """Send the executor its payload and close its standard input."""
        self._queue("executor", payload, end=True)

    def next(
        self, deadline_s: float, cancel: Cancel | None = None
    ) -> SupervisorMessage | EndedSide | Cancelled:
        """Return the next message, the side that has ended, or `late` at `deadline_s` of the monotonic clock.

        Without a message, a requested `cancel` returns `cancelled`, on every call.
        """
        while not self._heard:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return "late"
            for key, _ in self._selector.select(left_s if cancel is None else min(left_s, LOOK_S)):
                key.data(key.fileobj)
            if cancel is not None and cancel.requested and not self._heard:
                return "cancelled"
        return self._heard.popleft()

    def status(self, role: Role) -> int:
        """Return the exit code of a command whose output has ended, as for a process: negative for a signal.

        Its last output arrives through another pipe, which may be read after the first pipe has ended; it is complete
        when this returns.
        """
        try:
            code = self.children[role].wait(GOODBYE_S)
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"the {role}'s command does not end") from error
        if role == "supervisor":
            self._read_last_output()
        return 128 - code if code - 128 in FATAL else code

    def hang_up(self) -> None:
        """Close all streams. A supervisor ends when its input does."""
        self._selector.close()
        self._answered.close()
        for child in self.children.values():
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def _start(self, role: Role, command: list[str]) -> None:
        split = role == "supervisor"
        # The program's two streams share one pipe, so their order is kept.
        child = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if split else subprocess.STDOUT,
            bufsize=0,
        )
        self.children[role] = child
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        self._selector.register(
            _pipe(child.stdout), selectors.EVENT_READ, self._read_stream if split else self._read_program
        )
        if split:
            self._selector.register(_pipe(child.stderr), selectors.EVENT_READ, self._read_runtime)

    def _queue(self, role: Role, data: bytes, *, end: bool = False) -> None:
        pipe = _pipe(self.children[role].stdin)
        if pipe.closed:
            return  # the command has ended, and `next` reports that
        if end:
            self._ending.add(pipe)
        waiting = self._unsent.setdefault(pipe, bytearray())
        if not waiting:
            self._selector.register(pipe, selectors.EVENT_WRITE, self._write_queued)
        waiting += data

    def _write_queued(self, pipe: IO[bytes]) -> None:
        waiting = self._unsent[pipe]
        try:
            del waiting[: os.write(pipe.fileno(), waiting)]
        except BrokenPipeError:
            waiting.clear()
            self._ending.add(pipe)
        if not waiting:
            self._selector.unregister(pipe)
            if pipe in self._ending:
                pipe.close()

    def _read_stream(self, pipe: IO[bytes]) -> None:
        if chunk := self._read(pipe):
            for message in map(decode, self._frames.feed(chunk)):
                if isinstance(message, Asked):
                    threading.Thread(target=self._answer, args=(message,), daemon=True).start()
                else:
                    self._heard.append(message)
        else:
            self._heard.append("supervisor")

    def _answer(self, asked: Asked) -> None:
        try:
            answer = self._serve(asked.call)
        except DependencyError as error:
            logger.warning("call not served", extra={"code": error.reason})
            answer = None
        except Exception:  # the edge of a thread; the supervisor asks again, or gives up
            logger.exception("call not served")
            answer = None
        self._answered.ring(Answered(id=asked.id, answer=answer))

    def _read_program(self, pipe: IO[bytes]) -> None:
        if chunk := self._read(pipe):
            self.program.write(chunk)
        else:
            self._heard.append("executor")

    def _read_runtime(self, pipe: IO[bytes]) -> bool:
        chunk = self._read(pipe)
        self.runtime.write(chunk)
        return bool(chunk)

    def _read_last_output(self) -> None:
        """Read the rest of an ended supervisor's stderr."""
        pipe = _pipe(self.children["supervisor"].stderr)
        if pipe.closed or pipe not in self._selector.get_map():
            return
        with contextlib.suppress(BlockingIOError):  # another process holds the other end
            while self._read_runtime(pipe):
                pass

    def _read(self, pipe: IO[bytes]) -> bytes:
        """Return the available bytes; at the end, b"" and unregister the pipe."""
        chunk = os.read(pipe.fileno(), READ_BYTES)
        if not chunk:
            self._selector.unregister(pipe)
        return chunk


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


logger = logging.getLogger(__name__)

COMMAND_S: Final = 60.0


def stop(docker: str, container: str) -> None:
    """Stop a container, after a second for its program to end; the container and its exit code are kept."""
    _run_command(docker, "stop", "-t", "1", container)


def was_out_of_memory(docker: str, container: str) -> bool:
    """Return True if the kernel killed an ended container for its memory use."""
    return _run_command(docker, "inspect", "--format", "{{.State.OOMKilled}}", container).strip() == "true"


def _run_command(docker: str, *arguments: str) -> str:
    """Return a short command's output; "" and a logged warning if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments, no shell
            [docker, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=COMMAND_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("docker did not answer", extra={"asked": arguments, "reason": str(error)})
        return ""
    return done.stdout
