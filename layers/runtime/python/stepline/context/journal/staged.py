"""The texts and contents that a request in the layout `journal` is rendered from, in addition to timeline and facts.

All of them are stored, so that the same request can be rendered again.
Source: docs/concepts/journal.md.
"""

from __future__ import annotations

import msgspec

from stepline.model.base import Value
from stepline.ports.model import Media


class JournalText(Value):
    """The texts of the system part that never change: block A is `instructions`, the others are block B.

    `tools` is the list of the common tools, `catalogue` the lists of the infrastructure tools and of the skills. `wrapup`
    follows them in the last round.
    """

    instructions: str
    tools: str
    catalogue: str
    wrapup: str = ""

    def pack(self) -> str:
        """Return the texts as one text, the form in which an agent's system part is stored and compared."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def unpack(cls, text: str) -> JournalText:
        """Return the texts that `pack` combined; an unreadable text becomes the instructions."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            return cls(instructions=text, tools="", catalogue="")


class StagedContent(Value):
    """One content that is staged in full: an artifact of the turn, rows of the pool, or a skill.

    `text` is within the limits of a read. A picture or a PDF has none: its bytes follow the text. `why` says why nothing
    is shown.
    """

    path: str
    kind: str = ""
    format: str = ""
    mime: str = ""
    filename: str = ""
    type: str = ""
    ts: str = ""
    text: str = ""
    why: str = ""


class Staged(Value):
    """The contents of a request that are not in the log: stored with the round, if there are any.

    `media` have no bytes here.
    """

    skills: tuple[StagedContent, ...] = ()
    shown: tuple[StagedContent, ...] = ()
    media: tuple[Media, ...] = ()
