"""Subscriptions of connections to conversations, and the interfaces that send frames to them.

A `Feed` delivers a conversation's frames as they are sent, for a server that holds clients itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, Self, TypeAlias, get_args

from stepline.model.base import Value
from stepline.model.ids import Lane

SUBSCRIPTION_TTL_S: Final = 2 * 3600
"""A websocket lives for two hours at most; older rows expire, and a resume subscribes again."""

POST_MAX_BYTES: Final = 128 * 1024
"""The gateway's limit for one post."""

OVER_LIMIT: Final = "over_limit"
"""The reason of a post's DependencyError: the account's rate is reached, or the buffer of one connection is full."""


Inspect: TypeAlias = Literal["owner", "admin", "none"]
"""The users who may see the requests, the replies and the log of a conversation."""


Role: TypeAlias = Literal["user", "project_admin", "tenant_admin"]
"""A user's role, from the lowest to the highest."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)


class Principal(Value):
    """The identity of a connection, from its token. `expires_at` is in epoch seconds.

    `client` is the application for which the issuer made the token, "" if the token names none.
    """

    tenant: str
    project: str
    user: str
    expires_at: int
    role: Role = "user"
    client: str = ""

    @property
    def is_admin(self) -> bool:
        """True if the role is that of an admin, of the project or of the tenant."""
        return self.role != "user"


class Audience(NamedTuple):
    """The connections that listen to a conversation, and those that watch all conversations of its owner."""

    listeners: list[str]
    watchers: list[str]


class Feed(NamedTuple):
    """Frames for the connections that watch all conversations of this user."""

    user: str
    frames: Sequence[bytes]


class Subscriptions(Protocol):
    """Connections and their principals, kept for SUBSCRIPTION_TTL_S, and their subscriptions, kept for no longer.

    Only its owner listens to a conversation. A principal is kept after its expiry, so that it can be renewed; its
    subscriptions end at the expiry.
    """

    def connect(self, connection: str, principal: Principal) -> None:
        """Store the principal of a connection."""

    def principal(self, connection: str) -> Principal | None:
        """Return the principal of a connection, by a strong read."""

    def disconnect(self, connection: str) -> None:
        """Delete a connection and its subscriptions."""

    def renew(self, connection: str, principal: Principal) -> None:
        """Replace the principal of a connection; its subscriptions then last until the new expiry."""

    def subscribe(self, lane: Lane, connection: str, until_s: int, user: str) -> None:
        """Subscribe a connection of `user` to a conversation until its principal expires, in epoch seconds."""

    def watch(self, connection: str, principal: Principal) -> None:
        """Subscribe a connection to the feed of all conversations of its principal, until the principal expires."""

    def drop(self, lane: Lane, connection: str, *, watcher: str = "") -> None:
        """End one subscription, and the feed if the connection watches the conversations of user `watcher`."""

    def listeners(self, lane: Lane) -> list[str]:
        """Return the connections that listen to a conversation, by a strong read."""

    def connections(self, tenant: str, project: str, user: str) -> list[str]:
        """Return the connections of a user that listen to anything, by a strong read."""

    def audience(self, lane: Lane, user: str) -> Audience:
        """Return the audience of a conversation of `user`, by one strong read: both lists are as new as `listeners`."""


class Broadcast(Protocol):
    """Sends to all followers of a conversation."""

    def send(self, lane: Lane, frames: Sequence[bytes], feed: Feed | None = None) -> None:
        """Send frames, in order, to the current followers; a follower that is not reached requests them later.

        With a `feed`, its frames go to the connections that watch the conversations of its user.

        Raises DependencyError if the followers are unknown.
        """


class Publisher(Protocol):
    def post(self, connection: str, frame: bytes) -> None:
        """Send one frame.

        Raises:
            Gone: the connection no longer exists.
            DependencyError: the connection or the gateway cannot accept it now.
            LimitError: the frame is larger than POST_MAX_BYTES.

        """

    def close(self, connection: str) -> None:
        """Close a connection; do nothing for one that no longer exists. Raises DependencyError."""


class Following(Protocol):
    """The frames sent to one conversation during the `with` block, in order. One thread iterates over it.

    It yields None where frames may have been missed: at the beginning, after a lost connection, and from time to
    time when no frame arrives. It raises nothing: missed frames are in the log.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def __iter__(self) -> Self: ...

    def __next__(self) -> bytes | None: ...

    def end(self) -> None:
        """End the iteration, from any thread."""
