"""Client effects as JSON objects, one per line: the output of `--json`.

ASCII only, so that no byte of a model, a file or another user acts on the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.events.types import TERMINAL
from stepline.local.client.change import (
    Acknowledged,
    Effect,
    EventsApplied,
    LaneEnded,
    LaneKnown,
    PutOff,
    Refused,
    Reported,
    StreamReset,
    StreamSettled,
    Synced,
    TextAppended,
    Waiting,
)

_FRAMES: Final[Mapping[type[Effect], str]] = {
    TextAppended: "delta",
    LaneKnown: "lane",
    LaneEnded: "lane_end",
    Reported: "report",
    StreamReset: "reset",
    StreamSettled: "settled",
    Waiting: "waiting",
}


def render_effect(effect: Effect) -> list[dict[str, Any]]:
    """Return the lines of one effect. A turn's end is the line of its terminal event."""
    match effect:
        case EventsApplied():
            return [
                {
                    "frame": "event",
                    "n": effect.n,
                    "prev": effect.prev,
                    "i": i,
                    **({"terminal": True} if event.type in TERMINAL else {}),
                    **msgspec.to_builtins(event),
                }
                for i, event in enumerate(effect.events)
            ]
        case (
            TextAppended()
            | Reported()
            | LaneKnown()
            | LaneEnded()
            | StreamReset()
            | StreamSettled()
            | Waiting()
        ):
            return [{"frame": _FRAMES[type(effect)], **msgspec.to_builtins(effect)}]
        case PutOff(frame=frame):
            return [{**msgspec.to_builtins(frame), "frame": "put_off"}]
        case Acknowledged(frame=frame) | Refused(frame=frame) | Synced(frame=frame):
            return [{"frame": frame.__struct_config__.tag, **msgspec.to_builtins(frame)}]
        case _:
            return []


def render_json_line(value: Mapping[str, Any]) -> str:
    """Return one line of ASCII JSON."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")
