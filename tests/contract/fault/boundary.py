"""Boundaries: the methods of ports that change the world, where a process may die between the change and its knowing.

`interruptible_ports` puts an interruptible port in place of each port of an invocation. A write goes through it; every other method just looks.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, get_args, get_type_hints

import stepline.ports
from stepline.errors import DependencyError, SteplineError, UnknownOutcome
from stepline.log.bindings import Ports
from stepline.ports.descriptor import StageSecrets

WRITES: Final[Mapping[str, frozenset[str]]] = {
    "Accounts": frozenset({"set_limits", "post", "end_holds", "forget"}),
    "Artifacts": frozenset({"put", "replace"}),
    "Broadcast": frozenset({"send"}),
    "Costs": frozenset({"put"}),
    "Deltas": frozenset({"put", "note"}),
    "GrantedObjects": frozenset({"put"}),
    "TaskToken": frozenset({"take", "beat", "end"}),
    "Erasure": frozenset(
        {
            *("keep", "bury", "unlist", "erase_rows", "erase_husks", "delete_prefix", "delete_rows"),
            *("postpone", "finish"),
        }
    ),
    "Executor": frozenset({"run"}),
    "Log": frozenset({"put", "project", "mark_read"}),
    "Machine": frozenset({"start", "stop"}),
    "McpServers": frozenset({"call_tool", "cancel_task"}),
    "MemoryIndex": frozenset({"add", "forget"}),
    "ModelStream": frozenset({"__iter__"}),
    "OpenLanes": frozenset({"clear_open"}),
    "ProviderCall": frozenset({"send"}),
    "Publisher": frozenset({"post", "close"}),
    "Quarantine": frozenset({"remove"}),
    "Queue": frozenset({"leave_queue"}),
    "RateCounter": frozenset({"count", "tally"}),
    "RelayStream": frozenset({"push", "close", "note"}),
    "RoundReplays": frozenset({"add", "change", "drop"}),
    "Signals": frozenset({"notify"}),
    "Subscriptions": frozenset({"connect", "disconnect", "renew", "subscribe", "watch", "drop"}),
    "Tasks": frozenset({"hand_over", "start", "take_back", "give_up", "stop", "fail"}),
    "Tickets": frozenset({"issue", "redeem", "void"}),
    "Uploads": frozenset({"begin", "settle"}),
    "UserErasures": frozenset({"ask", "keep"}),
}
"""What changes the world, by protocol."""

READS: Final[Mapping[str, frozenset[str]]] = {
    "Accounts": frozenset({"limits", "used", "account"}),
    "Artifacts": frozenset({"get", "stream", "heads", "size"}),
    "Cancel": frozenset({"requested", "wait"}),
    "Costs": frozenset({"of"}),
    "Clock": frozenset({"now", "monotonic_s", "pause"}),
    "Deltas": frozenset({"since", "notes"}),
    "GrantedObjects": frozenset({"get"}),
    "Erasure": frozenset({"tombstone", "pending", "kept"}),
    "Executor": frozenset({"backend", "close"}),
    "Following": frozenset({"__iter__", "end"}),
    "Grants": frozenset({"read", "serve", "write", "rewrite"}),  # they only sign
    "Identity": frozenset({"verify"}),
    "StageSecrets": frozenset({"read"}),
    "FeedbackIndex": frozenset({"feedback", "conversation_feedback"}),
    "Log": frozenset({"get", "tail", "since", "forks", "admitted", "conversations", "listing"}),
    "Machine": frozenset({"status", "running"}),
    "McpServers": frozenset({"list_tools", "poll_task"}),
    "MemoryIndex": frozenset({"reads_logs", "search"}),
    "Meter": frozenset({"count"}),  # nothing depends on what is counted
    "ModelClient": frozenset({"stream"}),  # nothing is sent before the iteration
    "ModelProvider": frozenset({"call", "warm", "find_refusals", "cache_minimum", "close"}),
    "ModelStream": frozenset({"abort", "completion"}),
    "OpenLanes": frozenset({"open_lanes", "held_slots", "taken_slots"}),
    "OwnMachine": frozenset({"take", "end", "started", "ended", "door"}),  # of this process alone
    "Preflight": frozenset({"judge"}),
    "ProviderCall": frozenset({"__iter__", "facts", "renew", "close", "shut_down"}),
    "Quarantine": frozenset({"allow", "fetch"}),  # it only signs
    "Queue": frozenset({"queued_turns", "count_queued"}),
    "Relay": frozenset({"open"}),
    "RelayStream": frozenset({"settle"}),  # it only declares
    "RoundReplays": frozenset({"get", "of_round"}),
    "Scanner": frozenset({"scan"}),
    "SecretReader": frozenset({"get_secret"}),
    "SettingsReader": frozenset({"get_settings", "get_plain"}),
    "Signals": frozenset({"watch"}),
    "Subscriptions": frozenset({"principal", "listeners", "audience", "connections"}),
    "Tasks": frozenset({"stale", "cluster", "overrides", "running"}),
    "Traces": frozenset({"texts", "provider", "send"}),  # nothing depends on what is sent
    "Uploads": frozenset({"get"}),
    "UserErasures": frozenset({"get", "pending"}),
    "SteerWatch": frozenset({"steer", "calling"}),
    "WebSearch": frozenset({"about", "search"}),
    "WebPages": frozenset({"fetch"}),
}
"""Methods that change nothing visible to others, by protocol."""

COMPOSED: Final = frozenset({"broadcast", "relay"})
"""Ports that are composed of others: their boundaries are those of the deltas, the subscriptions and the publisher."""

SILENT: Final = frozenset({"signals.notify", "executor.run"})
"""Boundaries whose answer cannot be lost: by their contract they say no, or say all, and raise nothing in between."""

UNKNOWN: Final = frozenset({"log.put"})
"""Boundaries whose lost answer has an error of its own; that of every other is a DependencyError."""

Reach = Callable[[str, Callable[[], Any]], Any]
"""Comes to the boundary of that name, and makes the call or does not."""


def protocols() -> Iterator[type]:
    """Yield every Protocol that the package of ports defines."""
    for module in pkgutil.walk_packages(stepline.ports.__path__, "stepline.ports."):
        found = importlib.import_module(module.name)
        for value in vars(found).values():
            own = inspect.isclass(value) and value.__module__ == found.__name__
            if own and getattr(value, "_is_protocol", False):
                yield value


def methods(protocol: type) -> Iterator[str]:
    """Yield what a protocol itself asks for: its methods and properties, and how it is iterated."""
    for name, value in vars(protocol).items():
        asked = inspect.isfunction(value) or isinstance(value, property)
        if asked and (not name.startswith("_") or name == "__iter__"):
            yield name


def is_write(protocol: type, name: str) -> bool:
    """Return True if a method of a protocol, its own or inherited, changes the world."""
    return any(name in WRITES.get(base.__name__, ()) for base in protocol.__mro__)


def lost_answer(boundary: str) -> SteplineError:
    """Return the error of a port whose call was made and whose answer was lost."""
    kind = UnknownOutcome if boundary in UNKNOWN else DependencyError
    return kind("the answer was lost")


class InterruptiblePort:
    """A port, with a boundary before and after every method that changes the world."""

    def __init__(self, reach: Reach, port: str, protocol: type, adapter: Any) -> None:
        self._reach = reach
        self._port = port
        self._protocol = protocol
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._adapter, name)
        if not is_write(self._protocol, name):
            return method
        boundary = f"{self._port}.{name}"
        return lambda *args, **kwargs: self._reach(boundary, lambda: method(*args, **kwargs))


def interruptible_ports(ports: Ports, reach: Reach) -> dict[str, Any]:
    """Return an interruptible port for each port that has boundaries of its own, by the field of `Ports`."""
    return {
        field: InterruptiblePort(reach, field, protocol, getattr(ports, field))
        for field, protocol in _guarded()
    }


@functools.cache
def _guarded() -> tuple[tuple[str, type], ...]:
    ours = {one for one in protocols() if any(base.__name__ in WRITES for base in one.__mro__)}
    return tuple(
        (field, kind)
        for field, hint in get_type_hints(Ports, localns={"StageSecrets": StageSecrets}).items()
        for kind in get_args(hint) or (hint,)  # a port that may be missing is a union
        if kind in ours and field not in COMPOSED
    )
