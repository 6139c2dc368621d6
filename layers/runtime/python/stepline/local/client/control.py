"""Fold the control lane of a stream into facts about its lanes: pure, and exact for any order of frames.

The control lane is append-only, so each of its lines is read once. The end of a lane is reported when its text is
complete here. Text may arrive before the line that describes its lane, if frames overtake each other. Lines of a later
release are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from stepline.local.client.change import Effect, LaneEnded, LaneKnown
from stepline.model.base import Value
from stepline.protocol.stream.lane import LaneClosed, LaneFacts, LaneOpened

_DECODER: msgspec.json.Decoder[LaneOpened | LaneClosed] = msgspec.json.Decoder(LaneOpened | LaneClosed)


class Control(Value):
    """The known facts about a stream's lanes.

    `read` is the character offset in the control lane after the last line read. `due` are ends of lanes whose text is
    not complete yet.
    """

    read: int = 0
    facts: Mapping[str, LaneFacts] = {}
    due: Mapping[str, LaneClosed] = {}

    @property
    def void(self) -> frozenset[str]:
        """The lanes that other lanes replaced."""
        return frozenset(facts.replaces for facts in self.facts.values() if facts.replaces)


def fold_control(control: Control, claim: int, text: str, base: int) -> tuple[Control, tuple[Effect, ...]]:
    """Read new lines of the control lane; `text` is the part known here, from character `base` on."""
    at = max(control.read - base, 0)
    end = text.rfind("\n") + 1
    facts, due, effects = dict(control.facts), dict(control.due), []
    for line in text[at:end].split("\n"):
        match _decoded(line):  # the last one is empty
            case LaneOpened(lane=lane, facts=found):
                facts[lane] = found
                effects.append(LaneKnown(claim=claim, lane=lane, facts=found))
            case LaneClosed(lane=lane) as closed:
                due[lane] = closed
            case None:
                pass
    read = max(control.read, base + end)
    return replace(control, read=read, facts=facts, due=due), tuple(effects)


def fold_ends(
    control: Control, claim: int, ends: Iterable[tuple[str, int]]
) -> tuple[Control, tuple[Effect, ...]]:
    """Report the lanes that are complete; `ends` maps each lane to the number of characters received.

    A program that prints nothing has an empty lane.
    """
    have = dict(ends) if control.due else {}
    whole = [closed for lane, closed in control.due.items() if have.get(lane, 0) >= closed.chars]
    if not whole:
        return control, ()
    gone = {closed.lane for closed in whole}
    left = {lane: closed for lane, closed in control.due.items() if lane not in gone}
    reported = (
        LaneEnded(claim=claim, lane=one.lane, chars=one.chars, aborted=one.aborted, at=one.at)
        for one in whole
    )
    return replace(control, due=left), tuple(reported)


def _decoded(line: str) -> LaneOpened | LaneClosed | None:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
