"""The delivery of a running program's log to its watchers: new text, and after a reconnect the whole log.

The supervisor only stores it. The conversation's log says whether the program still runs, and under which claim.

Source: docs/concepts/streaming.md#the-log-of-a-program.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from stepline.errors import DependencyError, NotFoundError
from stepline.events.types import ProgramLog
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.program.running_log import RunningLog, log_key
from stepline.model.wire.event import CONTROL_LANE, delta_frames, make_event
from stepline.protocol.stream.lane import LaneClosed, LaneFacts, LaneOpened

logger = logging.getLogger(__name__)


def post_log(ports: Ports, lane: Lane, turn: str, call: str) -> int:
    """Post the text that the newest copy of a log adds to the previous one; return the number of frames.

    Returns 0 if its program no longer runs: its end is an event. Raises DependencyError.
    """
    tail = Journal(ports, lane, "output").tail(consistent=True)
    if (tail.state.turn, tail.state.running) != (turn, call):
        return 0
    log = load_log(ports, lane, tail)
    frames = log_frames(ports, lane, tail, log, {log.lane: log.since}) if log else []
    if frames:
        ports.broadcast.send(lane, frames)
    return len(frames)


def load_log(ports: Ports, lane: Lane, tail: Batch) -> RunningLog | None:
    """Return the log of the running call; None if it has none, or if it cannot be read now."""
    try:
        body = ports.artifacts.get(log_key(lane, tail.state.turn, tail.state.running))
    except NotFoundError:
        return None
    except DependencyError as error:  # a missing log must not delay events
        logger.warning("log not read", extra={"code": error.reason})
        return None
    return msgspec.json.decode(body, type=RunningLog)


def log_frames(
    ports: Ports, lane: Lane, tail: Batch, log: RunningLog, have: Mapping[str, int]
) -> list[bytes]:
    """Return the part of a log that a client lacks, in frames; without its text if the event of its end is withheld."""
    call = tail.state.running
    ending = ProgramLog(execution_id=call, text=log.text, log_bytes=log.end)
    event = make_event(ending, tail.at, tail.state.turn, "update")
    if not ports.of(tail.state.bundle).outward.sift([event]).events:
        log = replace(log, start=0, text="")
    facts = LaneFacts(
        marker="subsystem",
        format="text",
        sub_type=ProgramLog.EVENT,
        execution_id=call,
        began_at=log.began_at,
    )
    lines: list[LaneOpened | LaneClosed] = [LaneOpened(lane=log.lane, facts=facts)]
    if log.ended:
        lines.append(LaneClosed(lane=log.lane, chars=log.end, at=log.ended_at))
    control = "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines)
    texts = ((CONTROL_LANE, 0, control), (log.lane, log.start, log.text))
    return [
        frame
        for name, start, text in texts
        for frame in delta_frames(
            lane.conversation, tail.state.claim, name, text, have=have.get(name, 0), start=start
        )
    ]
