"""Redis, as far as we use it: publish on a channel, and hear one. It may be away at any time, and nothing waits for it.

What goes through it stands in the log already, or can be asked for there. So a message that does not go out is given
up, and after a failure the server is left alone for a while. The package is loaded by the first message or listener.
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
"""From the first rest to the longest."""
OPTIONS: Final = frozenset({"db", "ssl_ca_certs"})
"""What a URL may say behind its question mark. How it is verified and how long we wait is not for a URL to say."""

Use: TypeAlias = Literal["steer", "events"]

Connection: TypeAlias = Any
"""The package's own, most of which has no types."""


def channel_of(stage: str, lane: Lane, use: Use) -> str:
    """Return the channel of one conversation of a stage; rights can be given by stage, tenant or project."""
    return f"stepline:{stage}:{lane.tenant}:{lane.project}:{lane.conversation}:{use}"


class Address(Value):
    """Where a server is, and who we are there. Secret."""

    host: str
    port: int
    tls: bool
    db: int = 0
    username: str = ""
    password: str = ""
    ca_certs: str = ""

    def __repr__(self) -> str:
        return f"Address(host={self.host!r}, port={self.port}, tls={self.tls}, db={self.db})"


def parse_address(url: str) -> Address:
    """Read a `redis://` or `rediss://` URL. Raises InputError `bad_redis_url`, which does not repeat it."""
    try:
        split = parse.urlsplit(url.strip())
        port = split.port or PORT
        options = (
            parse.parse_qs(split.query, keep_blank_values=True, strict_parsing=True) if split.query else {}
        )
        db = int(options.get("db", [split.path.strip("/") or "0"])[-1])
    except ValueError:  # which says what it could not read
        raise InputError("the URL of Redis cannot be read", code="bad_redis_url") from None
    if split.scheme not in ("redis", "rediss") or not split.hostname:
        raise InputError("the URL of Redis is redis://<host> or rediss://<host>", code="bad_redis_url")
    if unknown := sorted(options.keys() - OPTIONS):
        raise InputError(
            f"the URL of Redis may not say {', '.join(unknown)}; it may say {', '.join(sorted(OPTIONS))}",
            code="bad_redis_url",
        )
    return Address(
        host=split.hostname,
        port=port,
        tls=split.scheme == "rediss",
        db=db,
        username=parse.unquote(split.username or ""),
        password=parse.unquote(split.password or ""),
        ca_certs=options.get("ssl_ca_certs", [""])[-1],
    )


class RedisLink:
    """One process's way to a server: a connection that stays open for messages, and one for each listener.

    Safe from every thread. A server that cannot be reached is not asked again for half a second, then for longer.
    """

    def __init__(
        self, url: Callable[[], str], *, stage: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Reach the server that `url` names, which is asked when it is first needed."""
        self._url = url
        self._stage = stage
        self._now_s = now_s
        self._lock = threading.Lock()
        self._address: Address | None = None
        self._kept: Connection | None = None
        self._failures = 0
        self._rests_until_s = float("-inf")

    @property
    def rests(self) -> bool:
        """Whether the server is left alone now, after a failure."""
        return self._now_s() < self._rests_until_s

    def publish(self, lane: Lane, use: Use, messages: Sequence[bytes]) -> bool:
        """Publish messages, in order; false if the server does not take them now. Nothing is raised, nothing is kept."""
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
        """Return a listener to one channel, which hears whatever is published from now on.

        Raises:
            DependencyError: the server cannot be reached, or rests.
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
        """Close the connection that is kept."""
        with self._lock:
            self._drop()

    def _send(self, commands: list[tuple[str, str, bytes]]) -> None:
        """Send commands at once and read their answers; a kept connection that turns out to be dead is made anew."""
        if self._kept is not None and self._kept.pid != os.getpid():
            self._drop()  # it is our parent's, and so is what it answers
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
        with mapped():
            self._kept.send_packed_command(self._kept.pack_commands(commands), check_health=False)
            for _ in commands:
                self._kept.read_response()

    def _connect(self) -> Connection:
        """Return a new connection that is open and knows who we are."""
        import redis  # noqa: PLC0415 - 0.2 s of import, paid by who has a server

        address = self._address = self._address or parse_address(self._url())
        named: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "db": address.db,
            "username": address.username or None,
            "password": address.password or None,
            "protocol": 2,
            "driver_info": None,  # two more round trips, to say which client this is
            "socket_connect_timeout": CONNECT_S,
            "socket_timeout": ANSWER_S,
        }
        kind: Any = redis.Connection
        if address.tls:
            kind = redis.SSLConnection
            named |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
            named |= {"ssl_ca_certs": address.ca_certs or None}
        with mapped():
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
        if self.rests:  # somebody else has just found out the same
            return
        rest_s = min(REST_MAX_S, REST_FIRST_S * 2 ** min(self._failures, DOUBLINGS))
        self._failures += 1
        self._rests_until_s = self._now_s() + rest_s
        logger.warning("redis not reached", extra={"code": error.reason, "rest_s": rest_s, **error.context})


class Waker:
    """Ends a wait from any thread; who waits looks at `ended` first."""

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
        """Return what can be read from the end on."""
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
    """One channel, from here on, by one thread."""

    def __init__(self, connection: Connection, channel: str, waker: Waker) -> None:
        """Subscribe, and wait until that stands. Raises DependencyError."""
        self._connection = connection
        with self._closing_on_failure(), mapped():
            connection.send_command("SUBSCRIBE", channel, check_health=False)
            connection.read_response(timeout=ANSWER_S)
            self._selector = selectors.DefaultSelector()
            # The socket itself, because the package knows no wait that somebody else can end.
            self._selector.register(connection._get_socket(), selectors.EVENT_READ)  # noqa: SLF001 - as above
            self._selector.register(waker.receiver(), selectors.EVENT_READ)

    def hear(self, timeout_s: float) -> bytes | None:
        """Return the next message; None if there is none for so long, or the waker ends the wait.

        Raises DependencyError if the connection is lost, and with it whatever is published until there is another.
        """
        until_s = time.monotonic() + timeout_s
        with mapped():
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
        """Let go of the channel and the connection."""
        self._selector.close()
        self._connection.disconnect()

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._connection.disconnect()
            raise


@contextmanager
def mapped() -> Iterator[None]:
    """Let whatever the package and its sockets raise be ours; its words may hold an address, so its kind has to do."""
    from redis import RedisError  # noqa: PLC0415 - as in RedisLink

    try:
        yield
    except (RedisError, OSError, UnicodeError) as error:
        kind = type(error).__name__
        raise DependencyError("Redis cannot be reached", code="redis_unreachable", error=kind) from error
