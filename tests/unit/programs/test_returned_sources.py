from __future__ import annotations

from typing import Any

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Body
from stepline.model.source import Source
from stepline.programs.blocks import IMAGES_MAX, run_sources
from stepline.programs.outcome import Envelope, OutputFile
from stepline.tools.context import ReadCaps, ToolContext
from stepline.tools.sources import NEW_SOURCES_MAX, SourcePool
from tests.unit.programs.program_run import AT, CALL, LANE, TURN, at
from tests.unit.programs.tool_host import Conversation


def context(known: dict[int, Source] | None = None) -> ToolContext:
    return ToolContext(
        lane=LANE,
        turn=TURN,
        call_id=CALL,
        iteration=0,
        ts=AT,
        artifacts=MemoryArtifacts(),
        timeline=Conversation(),
        caps=ReadCaps(),
        sources=SourcePool(known),
    )


def file(path: str, mime: str, **fields: Any) -> OutputFile:
    body = Body(key=path, sha256=path, size_bytes=7, mime=mime)
    made = {
        "path": at(path),
        "logical_path": f"fi:{TURN}.{path}",
        "visibility": "external",
        "contracted": True,
    }
    return OutputFile(body=body, **{**made, **fields})


def envelope(*files: OutputFile, sources: tuple[Source, ...] = ()) -> Envelope:
    return Envelope(exec_id=CALL, ok=True, result_filename="r.json", files=files, sources=sources)


def page(sid: int, **fields: Any) -> Source:
    return Source(sid=sid, url=f"https://e.example/{sid}", **fields)


def test_images_that_the_user_may_see_become_sources_and_no_other_file_does():
    rows = run_sources(
        envelope(
            file("outputs/a.png", "image/png", description="the chart"),
            file("outputs/b.csv", "text/csv"),
            file("outputs/c.png", "image/png", visibility="internal"),
        ),
        context({4: page(4)}),
    )
    assert rows == (
        Source(
            sid=5,
            title="a.png",
            text="the chart",
            source_type="file",
            mime="image/png",
            size_bytes=7,
            path=f"fi:{TURN}.outputs/a.png",
            turn_id=TURN,
        ),
    )


def test_tool_sources_keep_their_numbers_and_known_ones_are_left_out():
    sources = (page(1), page(2, text="more"), page(3))
    assert run_sources(envelope(sources=sources), context({1: page(1), 2: page(2)})) == sources[1:]


def test_a_run_with_all_allowed_sources_still_has_its_images():
    pages = tuple(page(sid) for sid in range(1, NEW_SOURCES_MAX + 1))
    images = (file(f"outputs/{i:02}.png", "image/png") for i in range(IMAGES_MAX + 5))
    rows = run_sources(envelope(*images, sources=pages), context())
    assert [row.sid for row in rows] == list(range(1, NEW_SOURCES_MAX + IMAGES_MAX + 1))
    assert rows[NEW_SOURCES_MAX].title == "00.png"
