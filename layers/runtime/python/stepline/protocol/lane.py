"""Lanes: what listeners see of a running generation, as a stream of pure values.

A lane is one text that grows: a status, an answer, a file while it is written. Its name is
`<what>.<instance>[.<part>]`, unique in its stream, and its facts are told before its first character. A lane
that replaces another one makes the other's text void. Every lane that was opened is closed, whatever happens.
Source: docs/reference/events.md#lanes.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from stepline.model.base import Value

Marker: TypeAlias = Literal["thinking", "timeline_text", "answer", "canvas", "subsystem"]

CONTROL_LANE: Final = "lanes"
"""The lane in which a stream tells of its other lanes: one JSON object a line."""

AbortReason: TypeAlias = Literal["", "policy", "cancelled", "provider_error", "eof"]


class LaneFacts(Value):
    """What a lane holds and where a client shows it. `format` is a channel's format, or `python`.

    `artifact_name` is the path or name of what is written, `sub_type` the kind of a widget, `execution_id` the
    call it belongs to, `replaces` the lane whose text this one makes void.
    """

    marker: Marker
    format: str = "markdown"
    artifact_name: str = ""
    title: str = ""
    sub_type: str = ""
    execution_id: str = ""
    language: str = ""
    replaces: str = ""


class LaneOpened(Value, tag="open", tag_field="do"):
    """A lane begins."""

    lane: str
    facts: LaneFacts


class LaneText(Value, kw_only=False, gc=False):
    """The next piece of a lane's text, never empty."""

    lane: str
    text: str


class LaneClosed(Value, tag="close", tag_field="do"):
    """A lane is complete: it holds `chars` characters. `aborted` says why it will never be what it was to become."""

    lane: str
    chars: int
    aborted: AbortReason = ""


LaneEvent: TypeAlias = LaneOpened | LaneText | LaneClosed
