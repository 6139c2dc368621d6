"""Connections in one process: subscriptions, and an inbox for each connection."""

from __future__ import annotations

from threading import Lock

from stepline.errors import Gone, LimitError
from stepline.model.ids import Lane
from stepline.ports.channel import POST_MAX_BYTES, SUBSCRIPTION_TTL_S, Audience, Principal
from stepline.ports.clock import Clock


class MemorySubscriptions:
    """Rows that expire like the stored ones: after a websocket's maximum lifetime, or earlier with its token."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides on expiry."""
        self._lock = Lock()
        self._clock = clock
        self._principals: dict[str, tuple[Principal, float]] = {}
        self._listeners: dict[str, dict[str, tuple[float, str]]] = {}
        self._watchers: dict[tuple[str, str, str], dict[str, float]] = {}

    def connect(self, connection: str, principal: Principal) -> None:
        with self._lock:
            self._principals[connection] = (principal, self._ends_at())

    def principal(self, connection: str) -> Principal | None:
        with self._lock:
            principal, expires_at = self._principals.get(connection, (None, 0.0))
        return principal if expires_at > self._now() else None

    def disconnect(self, connection: str) -> None:
        with self._lock:
            self._principals.pop(connection, None)
            for listeners in self._listeners.values():
                listeners.pop(connection, None)
            for watchers in self._watchers.values():
                watchers.pop(connection, None)

    def renew(self, connection: str, principal: Principal) -> None:
        self.connect(connection, principal)
        ends_at = min(self._ends_at(), principal.expires_at)
        with self._lock:
            for listeners in self._listeners.values():
                if connection in listeners:
                    listeners[connection] = (ends_at, principal.user)
            for watchers in self._watchers.values():
                if connection in watchers:
                    watchers[connection] = ends_at

    def subscribe(self, lane: Lane, connection: str, until_s: int, user: str) -> None:
        with self._lock:
            self._listeners.setdefault(lane.key(), {})[connection] = (min(self._ends_at(), until_s), user)

    def watch(self, connection: str, principal: Principal) -> None:
        key = (principal.tenant, principal.project, principal.user)
        with self._lock:
            self._watchers.setdefault(key, {})[connection] = min(self._ends_at(), principal.expires_at)

    def drop(self, lane: Lane, connection: str, *, watcher: str = "") -> None:
        with self._lock:
            self._listeners.get(lane.key(), {}).pop(connection, None)
            self._watchers.get((lane.tenant, lane.project, watcher), {}).pop(connection, None)

    def erase(self, lane: Lane) -> int:
        """Remove all subscriptions of a conversation; return their number."""
        with self._lock:
            return len(self._listeners.pop(lane.key(), {}))

    def listeners(self, lane: Lane) -> list[str]:
        return [connection for connection, _ in self._listening(lane)]

    def connections(self, tenant: str, project: str, user: str) -> list[str]:
        whose = (tenant, project, user)
        with self._lock:
            heard = {name for rows in self._listeners.values() for name in rows} | {
                name for rows in self._watchers.values() for name in rows
            }
            return sorted(
                name
                for name, (holder, _) in self._principals.items()
                if name in heard and (holder.tenant, holder.project, holder.user) == whose
            )

    def audience(self, lane: Lane, user: str) -> Audience:
        with self._lock:
            rows = sorted(self._watchers.get((lane.tenant, lane.project, user), {}).items())
        return Audience(
            listeners=[connection for connection, whose in self._listening(lane) if whose == user],
            watchers=[connection for connection, expires_at in rows if expires_at > self._now()],
        )

    def _listening(self, lane: Lane) -> list[tuple[str, str]]:
        """Return the connections that listen to a conversation, with their users."""
        with self._lock:
            rows = sorted(self._listeners.get(lane.key(), {}).items())
        return [(connection, user) for connection, (expires_at, user) in rows if expires_at > self._now()]

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _ends_at(self) -> float:
        return self._now() + SUBSCRIPTION_TTL_S


class MemoryPublisher:
    """Frames by connection, in order; only open connections accept them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.inboxes: dict[str, list[bytes]] = {}

    def open(self, connection: str) -> list[bytes]:
        """Open a connection; return its inbox."""
        with self._lock:
            return self.inboxes.setdefault(connection, [])

    def close(self, connection: str) -> None:
        with self._lock:
            self.inboxes.pop(connection, None)

    def post(self, connection: str, frame: bytes) -> None:
        if len(frame) > POST_MAX_BYTES:
            raise LimitError(f"a post has at most {POST_MAX_BYTES} bytes", size_bytes=len(frame))
        with self._lock:
            if connection not in self.inboxes:
                raise Gone("the connection no longer exists", connection=connection)
            self.inboxes[connection].append(frame)
