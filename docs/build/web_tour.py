"""web/src/words/en/tour.json: the suggestions of the chat page in an empty conversation, with their labels."""

from __future__ import annotations

import json
from typing import Final

from docs.build import DOCS
from stepline.local.tour import ANY_MODEL, TOUR

PATH: Final = DOCS.parent / "web/src/words/en/tour.json"


def render() -> str:
    """Return the rows as JSON."""
    rows = [
        {"label": label, "text": text, "anyModel": at < ANY_MODEL}
        for at, (label, text) in enumerate(TOUR.items())
    ]
    return json.dumps(rows, indent=2) + "\n"
