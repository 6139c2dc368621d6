"""web/src/thread/known.json: the names of the events and lanes that the chat page must show."""

from __future__ import annotations

import json
from typing import Final

from docs.build import DOCS
from docs.build.events import LANES, event_name
from stepline.events.types import EVENT_TABLE

PATH: Final = DOCS.parent / "web/src/thread/known.json"


def render() -> str:
    """Return the names as JSON."""
    names = {"events": [event_name(one) for one in EVENT_TABLE], "lanes": [lane for lane, _, _ in LANES]}
    return json.dumps(names, indent=2) + "\n"
