"""The way to the clients: who listens to a conversation, and one frame to one connection.

Feeds: the frames of a conversation as they are sent, for a server that holds clients itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, Self

from stepline.model.base import Value
from stepline.model.ids import Lane

SUBSCRIPTION_TTL_S: Final = 2 * 3600
"""A websocket lives for two hours at most; what is older is forgotten, and a resume subscribes anew."""

POST_MAX_BYTES: Final = 128 * 1024
"""What a gateway takes in one post."""


class Principal(Value):
    """Who is behind a connection, as the token said. `expires_at` is in epoch seconds."""

    tenant: str
    project: str
    user: str
    expires_at: int


class Subscriptions(Protocol):
    """Connections and their principals for SUBSCRIPTION_TTL_S, and the conversations they listen to for no longer.

    A principal is remembered beyond its expiry, so that it can be renewed; listening ends with it.
    """

    def connect(self, connection: str, principal: Principal) -> None:
        """Remember who is behind a connection."""
        ...

    def principal(self, connection: str) -> Principal | None:
        """Return who is behind a connection, by a strong read."""
        ...

    def disconnect(self, connection: str) -> None:
        """Forget a connection and its subscriptions."""
        ...

    def renew(self, connection: str, principal: Principal) -> None:
        """Remember who is behind a connection from now on; what it listens to, it hears until their expiry."""
        ...

    def subscribe(self, lane: Lane, connection: str, until_s: int) -> None:
        """Let a connection listen to a conversation until its principal expires, in epoch seconds."""
        ...

    def drop(self, lane: Lane, connection: str) -> None:
        """End one subscription."""
        ...

    def listeners(self, lane: Lane) -> list[str]:
        """Return the connections that listen to a conversation, by a strong read."""
        ...


class Broadcast(Protocol):
    """The way to everybody who follows a conversation."""

    def send(self, lane: Lane, frames: Sequence[bytes]) -> None:
        """Send frames, in order, to whoever follows now; whom they do not reach asks for them later.

        Raises DependencyError if nobody knows who follows.
        """
        ...


class Publisher(Protocol):
    def post(self, connection: str, frame: bytes) -> None:
        """Send one frame.

        Raises:
            Gone: the connection no longer exists.
            DependencyError: the connection, or the gateway, cannot take it now.
            LimitError: it has more than POST_MAX_BYTES.

        """
        ...


class Following(Protocol):
    """What is sent to one conversation while the `with` block lasts, in that order. Iterated by one thread.

    It yields None where something may have been missed: at the beginning, after the connection was lost, and every now
    and then when nothing comes. It raises nothing: what it misses stands in the log.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def __iter__(self) -> Self: ...

    def __next__(self) -> bytes | None: ...

    def end(self) -> None:
        """End the iteration, from any thread."""
        ...
