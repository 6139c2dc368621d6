"""A Redis client that publishes to a channel and listens to one.

The server may be unavailable at any time without delaying callers.

Every message is already in the log, or can be requested from it. So a message that cannot be sent is dropped, and after
a failure the server is not contacted for a while. The first message or listener loads the package.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias
from urllib import parse

from stepline.errors import DependencyError, InputError, SteplineError
from stepline.model.base import Value
from stepline.model.ids import Lane

logger = logging.getLogger(__name__)

PORT: Final = 6379
CONNECT_S: Final = 1.0
ANSWER_S: Final = 1.0
REST_FIRST_S: Final = 0.5
REST_MAX_S: Final = 30.0
DOUBLINGS: Final = 6
"""The shortest and the longest pause."""
OPTIONS: Final = frozenset({"db", "ssl_ca_certs"})
"""The query fields allowed in a URL. Verification and timeouts cannot be set in one."""

Use: TypeAlias = Literal["steer", "events"]

Connection: TypeAlias = Any
"""The package's own connection, mostly untyped."""


def channel_of(stage: str, lane: Lane, use: Use) -> str:
    """Return the channel of one conversation; access can be granted by stage, tenant or project."""
    return f"stepline:{stage}:{lane.tenant}:{lane.project}:{lane.conversation}:{use}"


class RedisAddress(Value):
    """A server's address with credentials. Secret."""

    host: str
    port: int
    tls: bool
    db: int = 0
    username: str = ""
    password: str = ""
    ca_certs: str = ""

    def __repr__(self) -> str:
        return f"RedisAddress(host={self.host!r}, port={self.port}, tls={self.tls}, db={self.db})"


def parse_address(url: str) -> RedisAddress:
    """Parse a `redis://` or `rediss://` URL. Raises InputError `bad_redis_url`, which does not contain it."""
    try:
        split = parse.urlsplit(url.strip())
        port = split.port or PORT
        options = (
            parse.parse_qs(split.query, keep_blank_values=True, strict_parsing=True) if split.query else {}
        )
        db = int(options.get("db", [split.path.strip("/") or "0"])[-1])
    except ValueError:  # its message contains the URL
        raise InputError("the URL of Redis cannot be read", code="bad_redis_url") from None
    if split.scheme not in ("redis", "rediss") or not split.hostname:
        raise InputError("the URL of Redis is redis://<host> or rediss://<host>", code="bad_redis_url")
    if unknown := sorted(options.keys() - OPTIONS):
        raise InputError(
            f"the URL of Redis may not say {', '.join(unknown)}; it may say {', '.join(sorted(OPTIONS))}",
            code="bad_redis_url",
        )
    return RedisAddress(
        host=split.hostname,
        port=port,
        tls=split.scheme == "rediss",
        db=db,
        username=parse.unquote(split.username or ""),
        password=parse.unquote(split.password or ""),
        ca_certs=options.get("ssl_ca_certs", [""])[-1],
    )


class RedisLink:
    """One process's link to a server: a connection kept for messages, and one for each listener.

    Thread-safe. After a failure the server is not contacted for half a second, then for longer.
    """

    def __init__(
        self, url: Callable[[], str], *, stage: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Use the server at `url`; `url` is called on first use."""
        self._url = url
        self._stage = stage
        self._now_s = now_s
        self._lock = threading.Lock()
        self._address: RedisAddress | None = None
        self._kept: Connection | None = None
        self._failures = 0
        self._rests_until_s = float("-inf")

    @property
    def rests(self) -> bool:
        """True while the link pauses after a failure."""
        return self._now_s() < self._rests_until_s

    def publish(self, lane: Lane, use: Use, messages: Sequence[bytes]) -> bool:
        """Publish messages, in order; return False if that is not possible now. Nothing is raised or kept."""
        channel = channel_of(self._stage, lane, use)
        commands = [("PUBLISH", channel, message) for message in messages]
        with self._lock:
            if self.rests:
                return False
            try:
                self._send(commands)
            except SteplineError as error:
                self._fail(error)
                return False
            self._failures = 0
        return True

    def listen(self, lane: Lane, use: Use, waker: Waker) -> Listener:
        """Return a listener to one channel, which receives all messages from now on.

        Raises:
            DependencyError: the server cannot be reached, or the link pauses.
            InputError: `bad_redis_url`.
        """
        if self.rests:
            raise DependencyError("Redis rests after a failure", code="redis_unreachable")
        try:
            listener = Listener(self._connect(), channel_of(self._stage, lane, use), waker)
        except SteplineError as error:
            with self._lock:
                self._fail(error)
            raise
        self._failures = 0
        return listener

    def close(self) -> None:
        """Close the kept connection."""
        with self._lock:
            self._drop()

    def _send(self, commands: list[tuple[str, str, bytes]]) -> None:
        """Send commands at once and read their answers; reconnect if the kept connection is dead."""
        if self._kept is not None and self._kept.pid != os.getpid():
            self._drop()  # the connection belongs to the parent process, with its answers
        kept = self._kept is not None
        try:
            self._exchange(commands)
        except DependencyError:
            self._drop()
            if not kept:
                raise
            self._exchange(commands)

    def _exchange(self, commands: list[tuple[str, str, bytes]]) -> None:
        if self._kept is None:
            self._kept = self._connect()
        with _map_redis_errors():
            self._kept.send_packed_command(self._kept.pack_commands(commands), check_health=False)
            for _ in commands:
                self._kept.read_response()

    def _connect(self) -> Connection:
        """Return a new authenticated connection."""
        import redis  # noqa: PLC0415 - 0.2 s of import, only with a server

        address = self._address = self._address or parse_address(self._url())
        named: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "db": address.db,
            "username": address.username or None,
            "password": address.password or None,
            "protocol": 2,
            "driver_info": None,  # it would add two round trips to identify this client
            "socket_connect_timeout": CONNECT_S,
            "socket_timeout": ANSWER_S,
        }
        kind: Any = redis.Connection
        if address.tls:
            kind = redis.SSLConnection
            named |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
            named |= {"ssl_ca_certs": address.ca_certs or None}
        with _map_redis_errors():
            made = kind(**named)
            made.connect()
        return made

    def _drop(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.disconnect()

    def _fail(self, error: SteplineError) -> None:
        self._drop()
        self._address = None  # the secret may have been renewed
        if self.rests:  # another thread has just failed
            return
        rest_s = min(REST_MAX_S, REST_FIRST_S * 2 ** min(self._failures, DOUBLINGS))
        self._failures += 1
        self._rests_until_s = self._now_s() + rest_s
        logger.warning("redis not reached", extra={"code": error.reason, "rest_s": rest_s, **error.context})


class Waker:
    """Ends a wait from any thread; a waiter checks `ended` first."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def end(self) -> None:
        with self._lock:
            self.ended.set()
            if self._pair is not None:
                self._pair[0].send(b".")

    def receiver(self) -> socket.socket:
        """Return a socket that is readable after the end."""
        with self._lock:
            if self._pair is None:
                self._pair = socket.socketpair()
                if self.ended.is_set():
                    self._pair[0].send(b".")
            return self._pair[1]

    def close(self) -> None:
        with self._lock:
            pair, self._pair = self._pair or (), None
        for one in pair:
            one.close()


class Listener:
    """A subscription to one channel, from now on, for one thread."""

    def __init__(self, connection: Connection, channel: str, waker: Waker) -> None:
        """Subscribe, and wait for the confirmation. Raises DependencyError."""
        self._connection = connection
        with self._closing_on_failure(), _map_redis_errors():
            connection.send_command("SUBSCRIBE", channel, check_health=False)
            connection.read_response(timeout=ANSWER_S)
            self._selector = selectors.DefaultSelector()
            # The socket itself, because the package has no wait that can be interrupted.
            self._selector.register(connection._get_socket(), selectors.EVENT_READ)  # noqa: SLF001 - as above
            self._selector.register(waker.receiver(), selectors.EVENT_READ)

    def hear(self, timeout_s: float) -> bytes | None:
        """Return the next message; None at the timeout, or if the waker ends the wait.

        Raises DependencyError if the connection is lost, and with it all messages until there is another.
        """
        until_s = time.monotonic() + timeout_s
        with _map_redis_errors():
            while True:
                while self._connection.can_read(0):
                    kind, _, body = self._connection.read_response(timeout=ANSWER_S)
                    if kind == b"message":
                        return bytes(body)
                left_s = until_s - time.monotonic()
                woken = self._selector.select(max(0.0, left_s))
                if not any(key.fileobj is self._connection._get_socket() for key, _ in woken):  # noqa: SLF001 - as above
                    return None

    def close(self) -> None:
        """Close the subscription and the connection."""
        self._selector.close()
        self._connection.disconnect()

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._connection.disconnect()
            raise


class KeptListener:
    """A listener to one channel that reconnects after a loss, for one thread; any thread may end its waits."""

    def __init__(self, link: RedisLink, lane: Lane, use: Use) -> None:
        self._link, self._lane, self._use = link, lane, use
        self._waker = Waker()
        self._listener: Listener | None = None
        self.ended = self._waker.ended

    @property
    def is_connected(self) -> bool:
        """True from a connection to its loss."""
        return self._listener is not None

    def connect(self) -> bool:
        """Return True if there is a new connection; otherwise the link has logged the reason and pauses."""
        if self._link.rests:
            return False
        try:
            self._listener = self._link.listen(self._lane, self._use, self._waker)
        except SteplineError:
            return False
        return True

    def hear(self, timeout_s: float, *, away_s: float) -> bytes | None:
        """Return the next message; None at the timeout, at the end, and `away_s` after the connection is lost."""
        assert self._listener is not None
        try:
            return self._listener.hear(timeout_s)
        except SteplineError as error:
            logger.warning("redis lost", extra={"code": error.reason, **error.context})
            self._leave()
            self.ended.wait(away_s)  # the connection may be lost again immediately
            return None

    def end(self) -> None:
        """End all waits, from any thread."""
        self._waker.end()

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._leave()
        self._waker.close()

    def _leave(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


@contextmanager
def _map_redis_errors() -> Iterator[None]:
    """Map the errors of the package and its sockets.

    Only their type is kept, since messages may contain an address.
    """
    from redis import RedisError  # noqa: PLC0415 - as in RedisLink

    try:
        yield
    except (RedisError, OSError, UnicodeError) as error:
        kind = type(error).__name__
        raise DependencyError("Redis cannot be reached", code="redis_unreachable", error=kind) from error
