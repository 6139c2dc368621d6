"""What a stream tells of its lanes, as a fold over its control lane: pure, and exact however the frames came.

The control lane grows like every other, so each of its lines is read once. A lane's end is told when its text is
here to the last character. Text may come before the line that tells what it is, if frames overtake each other;
a line of a later release is left out.
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
    """What is known of a stream's lanes. `read` is the character of the control lane behind the last line read.

    `due` are the ends of lanes whose text is not all here yet.
    """

    read: int = 0
    facts: Mapping[str, LaneFacts] = {}
    due: Mapping[str, LaneClosed] = {}

    @property
    def void(self) -> frozenset[str]:
        """The lanes in whose place others stand."""
        return frozenset(facts.replaces for facts in self.facts.values() if facts.replaces)


def fold_control(control: Control, claim: int, text: str, base: int) -> tuple[Control, tuple[Effect, ...]]:
    """Read the lines that the control lane has got; `text` is what is known of it, from character `base` on."""
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
    """Tell of the lanes that are complete; `ends` says how many characters of which lanes are here."""
    whole = [
        control.due[lane] for lane, end in ends if lane in control.due and end >= control.due[lane].chars
    ]
    if not whole:
        return control, ()
    gone = {closed.lane for closed in whole}
    left = {lane: closed for lane, closed in control.due.items() if lane not in gone}
    told = (LaneEnded(claim=claim, lane=one.lane, chars=one.chars, aborted=one.aborted) for one in whole)
    return replace(control, due=left), tuple(told)


def _decoded(line: str) -> LaneOpened | LaneClosed | None:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
