"""`react.search_knowledge` and the paths `ks:`: a bundle's documents, searched and read by its functions.

The values that a bundle's function returns are checked here. An exception other than a SteplineError is
logged, and the model is told that search or document failed; the turn goes on.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from stepline.errors import PathError, SteplineError, ToolError
from stepline.model.path import KnowledgePath, parse_path
from stepline.model.shorten import shorten_line
from stepline.tools.context import Shelf, Shelved, ToolContext, ToolOutput
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

logger = logging.getLogger(__name__)

T = TypeVar("T")

KnowledgeSearch: TypeAlias = Callable[[str, int], Iterable[Mapping[str, Any]]]
"""Takes a query and the maximum rows; returns rows, best first, with `path` (`ks:…`) and any of `TEXTS`."""

KnowledgeRead: TypeAlias = Callable[[str], Any]
"""Takes a path (`ks:…`); returns a text, bytes, a mapping (`text` or `base64`, `mime`, `missing`, `error`)
or None.
"""

TEXTS: Final[Mapping[str, int]] = {"title": 120, "summary": 300, "excerpt": 420, "kind": 40}
"""Texts of a row, with the maximum characters shown of each."""
QUERY_CHARS: Final = 400
LIMIT_MAX: Final = 20
FAILED: Final = "knowledge_failed"

SEARCH: Final = ToolSpec(
    tool_id="react.search_knowledge",
    purpose=(
        "Search the documents that this agent was given (ks:). Rows show where something is said; read a document with "
        "react.read at the row's path."
    ),
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["query"],
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": QUERY_CHARS,
                "pattern": "\\S",
                "description": "what to look for, in a few words",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": LIMIT_MAX,
                "default": 5,
                "description": "how many rows at most",
            },
        },
    },
    returns="rows, best first: path, title, summary, excerpt, kind and score, as far as they are known",
    effect="pure",
    read_only=True,
    strategies=("exploration",),
    reads="outside",
    examples=({"query": "how a release is rolled back", "limit": 5},),
)


def knowledge_tool(search: KnowledgeSearch) -> Tool:
    """Return the tool that searches with a bundle's function."""

    def run(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        limit = params.get("limit", 5)
        rows = _call(lambda: [_row(row) for row in list(search(params["query"], limit))[:limit]])
        facts = {"status": "ok", "query": params["query"], "count": len(rows), "results": rows}
        return ToolOutput(blocks=(context.result(SEARCH.tool_id, facts),))

    return Tool(spec=SEARCH, run=run)


def knowledge_shelf(read: KnowledgeRead) -> Shelf:
    """Return the shelf of a bundle's documents."""
    return lambda path: _call(lambda: _shelved(read(path)))


def _call(ask: Callable[[], T]) -> T:
    """Call the bundle's function. Raises its own SteplineError, or ToolError `knowledge_failed`."""
    try:
        return ask()
    except SteplineError:
        raise
    except Exception as error:
        logger.exception("a bundle's knowledge failed")
        raise ToolError("the documents cannot be searched or read now", code=FAILED) from error


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the model reads it. Raises ToolError for one without a valid path."""
    try:
        path = parse_path(_with_family(str(row["path"])))
    except (KeyError, PathError) as error:
        raise ToolError("a row of the search has no path", code=FAILED) from error
    texts = {key: _clip(str(row[key]), chars) for key, chars in TEXTS.items() if row.get(key)}
    score = row.get("score")
    known = {"score": round(float(score), 3)} if isinstance(score, int | float) else {}
    return {"path": str(path), **texts, **known}


def _with_family(path: str) -> str:
    return path if path.startswith("ks:") else str(KnowledgePath(rel=path))


def _clip(text: str, chars: int) -> str:
    return shorten_line(text[: chars * 4], chars)


def _shelved(found: Any) -> Shelved | None:
    match found:
        case None:
            return None
        case str():
            return Shelved(text=found)
        case bytes():
            return Shelved(data=found, mime="application/octet-stream")
        case {"missing": missing} if missing:
            return None
        case {"error": error} if error:
            raise ToolError(_clip(str(error), 300), code=FAILED)
        case {"base64": str(encoded)}:
            return Shelved(data=_decode(encoded), mime=str(found.get("mime") or "application/octet-stream"))
        case {"text": str(text)}:
            return Shelved(text=text, mime=str(found.get("mime") or "text/markdown"))
        case _:
            raise ToolError("the document came back as something that is none", code=FAILED)


def _decode(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ToolError("the document is no base64", code=FAILED) from error
