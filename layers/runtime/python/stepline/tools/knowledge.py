"""`react.search_knowledge` and the paths `ks:`: a bundle's documents, searched and read by its functions.

A document that a search finds gets a number in the pool of sources, by which an answer cites it. The values that a
bundle's function returns are checked here. An exception other than a SteplineError is logged, and the model is
informed that the search or the document failed; the turn continues.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replace_fields
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from stepline.errors import PathError, SteplineError, ToolError
from stepline.model.file.attachment import MIME
from stepline.model.file.mime import OCTET_STREAM
from stepline.model.path import KnowledgePath, parse_path
from stepline.model.source import Source
from stepline.model.visible_text import shorten_line
from stepline.tools.context import Shelf, Shelved, ToolContext, ToolOutput
from stepline.tools.parameter import closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

logger = logging.getLogger(__name__)

T = TypeVar("T")

KnowledgeSearch: TypeAlias = Callable[..., Iterable[Mapping[str, Any]]]
"""Takes a query, the maximum rows and, if it has a third parameter, the path above the documents, or "".

Returns rows, best first, with `path` (`ks:…`) and any of `TEXTS`, `LISTS`, `line` and `score`.
"""

KnowledgeRead: TypeAlias = Callable[[str], Any]
"""Takes a path (`ks:…`); returns a text, bytes, a mapping (`text`, `data` or `base64`; `mime`, `missing`, `error`)
or None.
"""

TEXTS: Final[Mapping[str, int]] = {"title": 120, "summary": 300, "heading": 120, "excerpt": 420, "kind": 40}
"""Texts of a row, with the maximum characters shown of each."""
LISTS: Final = ("tags", "keywords", "see_also")
LIST_MAX, WORD_CHARS = 8, 60
QUERY_CHARS: Final = 400
LIMIT_MAX: Final = 100
LIMIT: Final = 5
_COUNT: Final = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}
FAILED: Final = "knowledge_failed"

SEARCH_KNOWLEDGE: Final = ToolSpec(
    tool_id="react.search_knowledge",
    purpose=(
        "Search the documents that this agent was given (ks:). Rows show where something is said, each with a number by "
        "which you cite it: [[S:<sid>]]. Read a document with react.read at the row's path, from its line."
    ),
    schema=closed_schema(
        {
            "query": param(
                "string",
                "what to look for, in a few words",
                minLength=1,
                maxLength=QUERY_CHARS,
                pattern="\\S",
            ),
            "limit": {**_COUNT, "default": LIMIT, "description": "how many rows at most"},
            "top_k": {**_COUNT, "description": "the same as limit"},
            "max_hits": {**_COUNT, "description": "the same as limit"},
            "root": param("string", "only documents below this path, such as ks:docs", maxLength=300),
            "keywords": param(
                "array",
                "more words to look for",
                maxItems=20,
                items={"type": "string", "maxLength": WORD_CHARS},
            ),
        },
        "query",
    ),
    returns=(
        "rows, best first: sid, path, title, summary, heading, line, excerpt, kind, score, tags, keywords and see_also, as "
        "far as they are known"
    ),
    effect="pure",
    read_only=True,
    strategies=("exploration",),
    reads="outside",
    examples=({"query": "how a release is rolled back", "limit": 5},),
)


def knowledge_tool(search: KnowledgeSearch, requests: Iterable[str] = ()) -> Tool:
    """Return the tool that searches with a bundle's function; `requests` are questions that its documents answer."""
    asked = tuple(requests)
    examples = tuple({"query": request} for request in asked) or SEARCH_KNOWLEDGE.examples
    spec = replace_fields(SEARCH_KNOWLEDGE, requests=asked, examples=examples)
    rooted = _takes_root(search)

    def run(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        limit = next((params[name] for name in ("limit", "top_k", "max_hits") if name in params), LIMIT)
        query, root = " ".join([params["query"], *params.get("keywords", ())]), _root(params.get("root", ""))
        found = _call(lambda: list(search(query, limit, root) if rooted else search(query, limit)))
        rows = [row for row in map(_row, found) if _is_below(row["path"], root)][:limit]
        cited = context.cite(_source(row) for row in rows)
        rows = [{"sid": source.sid, **row} for source, row in zip(cited, rows, strict=True)]
        facts = {"status": "ok", "query": query, "count": len(rows), "results": rows}
        result = replace(
            context.result(SEARCH_KNOWLEDGE.tool_id, facts),
            meta={"sources_used": [row["sid"] for row in rows]},
        )
        return ToolOutput(blocks=(result,), ret=rows, sources=cited)

    return Tool(spec=spec, run=run)


def knowledge_shelf(read: KnowledgeRead) -> Shelf:
    """Return the shelf of a bundle's documents."""
    return lambda path: _call(lambda: shelve(read(path), code=FAILED))


def _call(ask: Callable[[], T]) -> T:
    """Call the bundle's function. Raises its own SteplineError, or ToolError `knowledge_failed`."""
    try:
        return ask()
    except SteplineError:
        raise
    except Exception as error:
        logger.exception("a bundle's knowledge failed")
        raise ToolError("the documents cannot be searched or read now", code=FAILED) from error


def _takes_root(search: KnowledgeSearch) -> bool:
    """Return True if the function takes a third argument."""
    try:
        inspect.signature(search).bind("query", LIMIT, "")
    except (TypeError, ValueError):  # ValueError: a C function without a signature
        return False
    return True


def _root(text: str) -> str:
    """Return the path above the documents; "" for all. Raises PathError."""
    rel = text.strip().removeprefix("ks:").strip("/")
    return str(parse_path(_with_family(rel))) if rel else ""


def _is_below(path: str, root: str) -> bool:
    return not root or path == root or path.startswith(f"{root}/")


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the model reads it. Raises ToolError for one without a valid path."""
    try:
        path = parse_path(_with_family(str(row["path"])))
    except (KeyError, TypeError, PathError) as error:
        raise ToolError("a row of the search has no path", code=FAILED) from error
    texts = {key: _clip(str(row[key]), chars) for key, chars in TEXTS.items() if row.get(key)}
    lists = {
        key: [_clip(str(one), WORD_CHARS) for one in row[key][:LIST_MAX]]
        for key in LISTS
        if isinstance(row.get(key), list | tuple) and row[key]
    }
    line, score = row.get("line"), row.get("score")
    known: dict[str, Any] = {"line": line} if isinstance(line, int) else {}
    known |= {"score": round(float(score), 3)} if isinstance(score, int | float) else {}
    return {"path": str(path), **texts, **lists, **known}


def _source(row: Mapping[str, Any]) -> Source:
    """Return a document as a row of the pool: by its path, with the text that was found."""
    title, text = row.get("title") or row["path"], row.get("excerpt") or row.get("summary", "")
    return Source(title=title, text=text, path=row["path"], source_type="file", mime="text/markdown")


def _with_family(path: str) -> str:
    return path if path.startswith("ks:") else str(KnowledgePath(rel=path))


def _clip(text: str, chars: int) -> str:
    return shorten_line(text[: chars * 4], chars)


def shelve(found: Any, *, code: str) -> Shelved | None:
    """Return the content that a bundle's function returned for a path. Raises ToolError `code` for anything else."""
    match found:
        case None:
            return None
        case str():
            return Shelved(text=found)
        case bytes():
            return Shelved(data=found, mime=OCTET_STREAM)
        case {"missing": missing} if missing:
            return None
        case {"error": error} if error:
            raise ToolError(_clip(str(error), 300), code=code)
        case {"data": bytes(data)} | {"base64": str(data)}:
            return Shelved(data=_decode(data, code), mime=_mime(found, OCTET_STREAM, code))
        case {"text": str(text)}:
            return Shelved(text=text, mime=_mime(found, "text/markdown", code))
        case _:
            raise ToolError("the document came back as something that is none", code=code)


def _decode(encoded: str | bytes, code: str) -> bytes:
    if isinstance(encoded, bytes):
        return encoded
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ToolError("the document is no base64", code=code) from error


def _mime(found: Mapping[str, Any], default: str, code: str) -> str:
    """Return the media type of a document, without its parameters: it is part of the prompt and of a header."""
    mime = str(found.get("mime") or default).partition(";")[0].strip().lower()
    if not MIME.fullmatch(mime):
        raise ToolError("the document has a media type that is none", code=code)
    return mime
