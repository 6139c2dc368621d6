"""One call of `rendering_tools.write_*`: Markdown in, a file of the turn out, checked before it is stored.

The supervisor has checked the call and granted the data it may use: the file's path, the known sources of each
citation, and the files that are hidden from the user. `run_granted` runs a call that was granted before its program
began, and prints the report as the last line of the output.
Source: docs/concepts/execution.md#documents.
"""

from __future__ import annotations

import importlib
import json
import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from . import opened
from .markdown import Document, Notes, Reader, clean
from .picture import Pictures
from .refusal import DocumentError

PREFIX: Final = "rendering_tools.write_"
LOST_SHOWN: Final = 5
MESSAGE_CHARS: Final = 600

Writer = Callable[[Document, Mapping[str, Any], list[dict[str, str]]], bytes]

MODULES: Final[Mapping[str, str]] = {
    "pdf": "pdf",
    "png": "pdf",
    "docx": "word",
    "pptx": "slides",
    "xlsx": "sheets",
    "html": "page",
}
"""The modules that write each kind of document; each loads its own libraries."""


def draw(tool_id: str, params: Mapping[str, Any], grant: Mapping[str, Any], out: str) -> dict[str, Any]:
    """Write the file of a granted call below `out`, and return its report.

    Raises DocumentError: `missing_assets`, `nested_too_deep`, `document_too_large`, `no_tables`,
    `artifact_invalid`, `rendering_failed`.
    """
    kind = tool_id.removeprefix(PREFIX)
    warnings = [*_missing(grant["missing_sources"])]
    try:
        document, sids = _read(kind, params, grant, out)
        data = _writer(kind)(document, params, warnings)
        facts = opened.check(kind, data)
        path = os.path.join(out, grant["path"])  # noqa: PTH118 - checked by the supervisor
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        with open(path, "wb") as file:  # noqa: PTH123 - as above
            file.write(data)
    except DocumentError:
        raise
    except Exception as error:
        traceback.print_exc()
        message = f"the document cannot be drawn: {type(error).__name__}: {error}"
        raise DocumentError("rendering_failed", message[:MESSAGE_CHARS]) from error
    return {
        "path": grant["path"],
        "size_bytes": len(data),
        **facts,
        "sources_used": sids,
        "warnings": warnings,
    }


def _missing(sids: list[int]) -> list[dict[str, str]]:
    """Return warnings about omitted citations: unknown numbers, and unreadable ones (0)."""
    unknown = [str(sid) for sid in sids if sid]
    messages = []
    if unknown:
        messages.append(
            f"the pool has no source {', '.join(unknown[:LOST_SHOWN])}; these citations are left out"
        )
    if len(unknown) < len(sids):
        messages.append(
            "a citation cannot be read and is left out; write [[S:3]], or [[S:1,4-6]] for several"
        )
    return [{"code": "missing_sources", "message": message} for message in messages]


def run_granted(call: str, out: str) -> None:
    """Run a call, `{tool_id, params, grant}` as JSON, and print its report."""
    asked = json.loads(call)
    try:
        report = {"ok": True, "ret": draw(asked["tool_id"], asked["params"], asked["grant"], out)}
    except DocumentError as refused:
        report = {"ok": False, "code": refused.code, "message": refused.message[:MESSAGE_CHARS]}
    print(json.dumps(report))  # noqa: T201 - the report of this run


def _writer(kind: str) -> Writer:
    module = importlib.import_module(f".{MODULES[kind]}", __package__)
    found: Writer = getattr(module, f"write_{kind}")
    return found


def _read(
    kind: str, params: Mapping[str, Any], grant: Mapping[str, Any], out: str
) -> tuple[Document, list[int]]:
    turn = grant["path"].partition("/")[0]
    notes = Notes(grant["tokens"], grant["sources"])
    pictures = Pictures(out, turn, frozenset(grant["internal"]))
    blocks = Reader(notes, pictures).read(params["content"])
    if pictures.lost:
        shown = [f"{src} ({why})" for src, why in list(pictures.lost.items())[:LOST_SHOWN]]
        more = f" and {len(pictures.lost) - LOST_SHOWN} more" if len(pictures.lost) > LOST_SHOWN else ""
        message = (
            f"these pictures cannot be drawn: {', '.join(shown)}{more}. A picture is a PNG, JPEG, GIF or WebP of this "
            "turn that the user may see, such as outputs/chart.png; nothing is fetched"
        )
        raise DocumentError("missing_assets", message[:MESSAGE_CHARS])
    sources = notes.sources()
    switch = "include_sources_slide" if kind == "pptx" else "include_sources_section"
    listed = bool(sources) and params.get(switch, kind != "pptx")
    title = " ".join(clean(params.get("title", "")).split())
    return Document(title=title, blocks=blocks, sources=sources, listed=listed), notes.sids
