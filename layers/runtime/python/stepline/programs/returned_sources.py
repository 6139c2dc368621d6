"""Sources of a run: those of the tools it called, and the images it made for the user."""

from __future__ import annotations

import posixpath
from itertools import islice
from typing import Final

from stepline.model.source import Source
from stepline.programs.outcome import Envelope, OutputFile
from stepline.timeline.sources_pool import is_eligible, merge_sources
from stepline.tools.context import ToolContext

IMAGES_MAX: Final = 50
"""Maximum images of one run that become sources; a program may write any number."""


def run_sources(envelope: Envelope, context: ToolContext) -> tuple[Source, ...]:
    """Return the new or changed pool rows of a run; its tools kept to their limits, so all theirs count."""
    offered = (_row(file, context.turn) for file in envelope.files if file.visibility == "external")
    images = islice(filter(is_eligible, offered), IMAGES_MAX)
    return merge_sources(context.sources.known, (*envelope.sources, *images)).rows


def _row(file: OutputFile, turn: str) -> Source:
    return Source(
        title=posixpath.basename(file.path),
        text=file.description,
        source_type="file",
        mime=file.body.mime,
        size_bytes=file.body.size_bytes,
        path=file.logical_path,
        turn_id=turn,
    )
