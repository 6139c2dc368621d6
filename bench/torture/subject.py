"""A subject of the matrix: one agent with two tools on a runtime, as the scenarios use it.

Each subject has the same agent: the scripted model, the tools `note` and `pay` (`effects.py`), of which `pay` needs a
person's approval, and the instructions INSTRUCTIONS. The release `next` has NEXT_INSTRUCTIONS, and the tool `look`
before the others. A subject maps each act to the documented way of its runtime.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from bench.torture.effects import Effects

INSTRUCTIONS: Final = "You follow the commands of the user."
NEXT_INSTRUCTIONS: Final = "You are a later release. You follow the commands of the user."
Release: TypeAlias = Literal["one", "next"]


class NotOfferedError(Exception):
    """The documentation has no way to do this; the message says so and names its page."""


class NotRunError(Exception):
    """The fault cannot be made here for this subject; the message says why."""


class RefusedError(Exception):
    """The subject answered a client with an error; the message is its status and text."""


class Event(NamedTuple):
    """A message from a thread to its clients.

    ready     the client is connected; the first event of each connection
    text      the next piece of the running answer
    reset     the running answer's text so far is void
    answer    the whole text of an answer, which replaces the running one
    approval  a call waits for a person; `call` is its id
    end       the turn ended; the text is "completed", "stopped" or the error
    """

    kind: Literal["ready", "text", "reset", "answer", "approval", "end"]
    text: str = ""
    call: str = ""
    cursor: str = ""
    """Where a client continues after this event; "" if the subject has no cursors."""


class Message(NamedTuple):
    """A stored message with text. Calls and results of tools are none."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """A stored thread. `pending` are the calls that wait for a person; `error` is what a reader is shown of a failed turn."""

    messages: tuple[Message, ...] = ()
    state: Literal["idle", "running", "waiting", "failed"] = "idle"
    pending: tuple[str, ...] = ()
    error: str = ""


class Place(NamedTuple):
    """Where a subject runs: an empty folder for its store, the model's server, and the ledger."""

    folder: Path
    model_url: str
    """The address below which the server has `/chat/completions` and `/v1/messages`, without `/v1`."""
    effects: Effects


class Stream(Protocol):
    """A client's connection to the events of a thread."""

    def __iter__(self) -> Iterator[Event]:
        """Yield `ready` first; end when the connection does. Raises OSError when it breaks."""

    def close(self) -> None:
        """Disconnect at once, without a notice; called from another thread."""


class Subject(Protocol):
    """An agent on a runtime. Waiting is the scenarios' task: no method but `start` and `restart` waits for a turn.

    Methods that a client calls raise RefusedError, and NotOfferedError. Connection failures are OSErrors.
    """

    def start(self) -> None:
        """Start release `one` on an empty store; return when it accepts messages."""

    def close(self) -> None:
        """End everything that was started."""

    def kill(self) -> None:
        """Kill the process that runs the agent with SIGKILL."""

    def restart(self, release: Release = "one") -> None:
        """Start the process again on the same store, with what the documentation does at a start."""

    def deploy(self, release: Release) -> None:
        """Replace the running release as documented: SIGTERM, SIGKILL after ten seconds, start."""

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Send a user's message; return when it is acknowledged."""

    def connect(self, thread: str, after: str = "") -> Stream:
        """Return a connection to the events of a thread: those after a cursor, or from now on."""

    def read(self, thread: str) -> Transcript:
        """Return the stored thread."""

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Answer a call that waits for a person."""

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Send a message to a turn that runs, by the documented way for that."""

    def stop(self, thread: str) -> None:
        """Stop the running turn."""

    def throttle(self, seconds: float) -> None:
        """Let the store refuse or block every access from now on for this time; return at once."""
