"""Offsets of a conversation that is read as one stream: the newest event that was sent, and its running text so far.

An offset is opaque to clients, and grows in lexicographic order with every frame: the event's number, the claim of the
text, the number of its characters that were sent, and where these are, as `place`.
Source: docs/concepts/streaming.md#durable-streams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.wire.event import CONTROL_LANE
from stepline.protocol.stream.lane import LaneClosed, LaneOpened

OFFSET: Final = "[0-9]{12}(_[0-9]{12}_[0-9]{10}(-[0-9]{1,9}){2,})?"
_OFFSET: Final = re.compile(OFFSET)
_LINES: Final = msgspec.json.Decoder(LaneOpened | LaneClosed)


class StreamOffset(Value):
    """A position after the events of batch `n`, and in the text of stream `claim`, of which `chars` were sent.

    `place` is the number of characters sent of the lane of lanes, the number of leading lanes that are complete, and
    the number of characters sent of each further lane, in the order in which the lane of lanes opens them.
    """

    n: int = 0
    claim: int = 0
    chars: int = 0
    place: tuple[int, ...] = ()

    def render(self) -> str:
        """Return the text of the offset."""
        if not self.claim:
            return f"{self.n:012d}"
        return f"{self.n:012d}_{self.claim:012d}_{self.chars:010d}{''.join(f'-{one}' for one in self.place)}"


def parse_offset(text: str) -> StreamOffset:
    """Return the offset that a text names. Raises InputError `bad_offset`."""
    if not _OFFSET.fullmatch(text):
        raise InputError("this is not an offset of the stream: begin again without one", code="bad_offset")
    n, _, rest = text.partition("_")
    if not rest:
        return StreamOffset(n=int(n))
    claim, _, rest = rest.partition("_")
    chars, *place = rest.split("-")
    return StreamOffset(n=int(n), claim=int(claim), chars=int(chars), place=tuple(map(int, place)))


def mark_sent(n: int, claim: int, sent: Mapping[str, int], lines: str) -> StreamOffset:
    """Return the offset after `sent` characters of each lane; `lines` is the text of the lane of lanes."""
    if not any(sent.values()):
        return StreamOffset(n=n)
    known = sent.get(CONTROL_LANE, 0)
    lanes = _read_lanes(lines[:known])
    counts = [(sent.get(name, 0), chars) for name, chars in lanes.items()]
    done = next((i for i, (count, chars) in enumerate(counts) if count != chars), len(counts))
    rest = tuple(count for count, _ in counts[done:])
    return StreamOffset(n=n, claim=claim, chars=sum(sent.values()), place=(known, done, *rest))


def find_sent(place: Sequence[int], lines: str) -> dict[str, int]:
    """Return how many characters of each lane were sent before a place in the stream with this lane of lanes.

    Raises InputError `bad_offset` if the stream has no such place.
    """
    known, done, *rest = place
    lanes = _read_lanes(lines[:known])
    counts = (*[chars or 0 for chars in lanes.values()][:done], *rest)
    if len(counts) != len(lanes):
        raise InputError("the stream has no such offset: begin again without one", code="bad_offset")
    return {CONTROL_LANE: known, **dict(zip(lanes, counts, strict=True))}


def list_lanes(lines: str) -> tuple[str, ...]:
    """Return the names of the lanes that the complete lines describe, in the order of their opening."""
    return tuple(_read_lanes(lines))


def _read_lanes(lines: str) -> dict[str, int | None]:
    """Return the lanes that the complete lines describe, with their lengths; None for one that is still open."""
    lanes: dict[str, int | None] = {}
    for line in lines.split("\n")[:-1]:
        said = _LINES.decode(line)
        lanes[said.lane] = said.chars if isinstance(said, LaneClosed) else None
    return lanes
