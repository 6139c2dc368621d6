"""The twelve faults of the torture matrix: what is done, and what a subject that holds shows then.

A conversation at rest had a turn that was answered 15 s before: a store that is written now and then has it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """A row. `done` is one sentence about the fault, `holds` one about what the cell `holds` requires."""

    name: str
    title: str
    done: str
    holds: str


FAULTS: Final = (
    Fault(
        "killed_streaming",
        "Killed while streaming",
        "In a conversation at rest, the process of the agent is killed (SIGKILL) after five pieces of an answer, and started "
        "again.",
        "The turn is answered without a further message, once and in whole.",
    ),
    Fault(
        "effect_record",
        "Between effect and record",
        "In a conversation at rest, a tool does its effect and kills its process before it returns; the process is started "
        "again.",
        "The effect is there once, and the turn ends with an answer.",
    ),
    Fault(
        "approval_stored",
        "Between approval shown and stored",
        "In a conversation at rest, the process is killed as soon as the client has received the request for an approval, "
        "and started again; then the person approves.",
        "One request is pending after the restart, and the approved call runs once.",
    ),
    Fault(
        "client_gone",
        "Client gone ten minutes",
        "The client disconnects after five pieces of an answer, and returns after the given time.",
        "The client that returns gets the whole answer, and each piece of it once.",
    ),
    Fault(
        "events_missed",
        "20,000 events missed",
        "The client disconnects after five pieces of an answer of the given number of pieces, and returns when all are "
        "produced.",
        "The client that returns gets the whole answer, and each piece of it once.",
    ),
    Fault(
        "two_clients",
        "Two clients",
        "Two clients of a conversation send a message at the same time.",
        "Each message is stored once and answered, and both clients are shown the same.",
    ),
    Fault(
        "stop_resumed",
        "Stop after resume",
        "A client disconnects in mid-answer, continues the stream, and stops the turn.",
        "The model's answer is cut short, the turn ends, and the next message is answered.",
    ),
    Fault(
        "steer_tool",
        "Steer while a tool runs",
        "A second message arrives while a tool runs.",
        "The tool's effect is there once, and the second message is stored once and answered.",
    ),
    Fault(
        "release_parked",
        "New release while parked",
        "A release with one more tool and other instructions replaces the running one while a call waits for a person, "
        "who then approves.",
        "The approved call runs once, and the turn is answered.",
    ),
    Fault(
        "release_streaming",
        "New release while streaming",
        "The same release replaces the running one (SIGTERM, and SIGKILL after ten seconds) after five pieces of an "
        "answer.",
        "The turn is answered without a further message, once and in whole.",
    ),
    Fault(
        "duplicate",
        "Duplicate delivery",
        "A message that makes a tool run is delivered twice at the same time, and once more after its answer, with the "
        "same id.",
        "The message is stored and answered once, and the tool's effect is there once.",
    ),
    Fault(
        "store_throttled",
        "Store throttled for a minute",
        "The store refuses or blocks every access for the given time from the moment a message is sent; a client that "
        "is refused sends again, with the same id.",
        "The message is stored and answered once, and the tool's effect is there once.",
    ),
)
