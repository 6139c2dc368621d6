"""web/src/words/en/tour.json: what the chat page offers in an empty conversation, with its labels."""

from __future__ import annotations

import json
from typing import Final

from docs.build import DOCS
from stepline.local.tour import TOUR

PATH: Final = DOCS.parent / "web/src/words/en/tour.json"


def render() -> str:
    """Return the rows as JSON."""
    rows = [{"label": label, "text": text} for label, text in TOUR.items()]
    return json.dumps(rows, indent=2) + "\n"
