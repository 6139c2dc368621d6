"""`rendering_tools.write_*`: documents from Markdown, drawn by a program.

This module holds the contracts, and the grant of a call: the path of its file, the sources that its citations refer
to, and the files that it must not show. It draws nothing: the libraries that do are in the image of programs,
and run in the jail, for a call of a round and for one of a program alike.
Source: docs/concepts/execution.md#documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.errors import ToolError
from stepline.model.path import artifact_path, physical
from stepline.model.source import Citation, Source, web_url
from stepline.protocol.citation.hyperlink import plain_title
from stepline.protocol.citation.token import TOKEN, UNREADABLE_SID, expand, read_ids
from stepline.tools.context import Resolver, ToolContext, ToolOutput
from stepline.tools.parameter import PATH, choice, closed_schema, param
from stepline.tools.registry import Tool, ToolFunction
from stepline.tools.spec import ToolSpec
from stepline.tools.write import check_name

ALIAS: Final = "rendering_tools.write_"
CONTENT_CHARS_MAX: Final = 500_000
TOKENS_MAX: Final = 2_000
"""The maximum number of different citations in one text."""

_MARKDOWN: Final = ("markdown", "md")


def _number(least: float, most: float, default: float, description: str) -> dict[str, Any]:
    kind = "integer" if isinstance(least, int) else "number"
    return param(kind, description, minimum=least, maximum=most, default=default)


_FORMAT: Final = param("string", "markdown alone is drawn here", default="markdown")
_SOURCES: Final = param("boolean", "ends with the cited sources", default=True)
_PICTURE: Final = {
    "fit": choice(
        ["content", "viewport"],
        "content: cut to what is drawn; viewport: width x height",
        default="content",
    ),
    "padding_px": _number(0, 400, 32, "margin, before scaling"),
    "zoom": _number(0.25, 8, 1, "of text and pictures"),
    "width": _number(64, 8_000, 3_000, "pixels"),
    "height": _number(64, 8_000, 2_000, "pixels, for viewport"),
    "device_scale_factor": _number(1.0, 4, 2, "letters have 10 pixels, times this"),
}


def _spec(kind: str, purpose: str, counted: str, example: str, **params: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(
        tool_id=f"{ALIAS}{kind}",
        purpose=purpose,
        schema=closed_schema(
            {
                "path": {**PATH, "description": f"outputs/….{kind} or files/….{kind}"},
                "content": param(
                    "string", "Markdown, or ref:<path> of it", minLength=1, maxLength=CONTENT_CHARS_MAX
                ),
                "title": param("string", "stands above it", maxLength=300),
                **params,
            },
            "path",
            "content",
        ),
        returns=f"its path, size, {counted}; the user gets the file",
        effect="keyed",
        read_only=False,
        key_order=("path", "content"),
        in_exec=True,
        isolated=True,
        strategies=("exploitation",),
        outputs=lambda params: (params["path"],),
        examples=({"path": f"outputs/report.{kind}", "content": example},),
    )


SPECS: Final = (
    _spec(
        "pdf",
        "Make a PDF of Markdown. `[[S:n]]` become footnotes; pictures are files of this turn, `![](outputs/a.png)`; "
        "HTML stays text, nothing is fetched.",
        "pages",
        "ref:outputs/report.md",
        format=_FORMAT,
        include_sources_section=_SOURCES,
        landscape=param("boolean", "wide pages", default=False),
    ),
    _spec("docx", "Make a Word document, as a PDF.", "paragraphs", "# A", include_sources_section=_SOURCES),
    _spec(
        "pptx",
        "Make slides: each begins with a heading #, ## or a line ---.",
        "slides",
        "# A",
        format=_FORMAT,
        include_sources_slide=param("boolean", "ends with the cited sources", default=False),
    ),
    _spec(
        "xlsx",
        "Make a workbook of Markdown's tables: each is a sheet, named by the heading before it.",
        "sheets",
        "# Sales\n| month | total |\n|---|---|\n| May | 12 |",
        include_sources_section=_SOURCES,
    ),
    _spec(
        "png",
        "Make a picture of Markdown, as a PDF.",
        "width and height",
        "# A",
        format=_FORMAT,
        include_sources_section=_SOURCES,
        **_PICTURE,
    ),
    _spec("html", "Make an HTML page, pictures inside.", "elements", "# A", include_sources_section=_SOURCES),
)


def _grant(kind: str) -> ToolFunction:
    def grant(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Return the path and the sources that the call may use. Raises PathError; ToolError for mistakes that the model can correct."""
        where = _target_path(kind, params, context)
        form = params.get("format", _MARKDOWN[0])
        if form.lower() not in _MARKDOWN:
            raise ToolError(
                f"{form[:40]!r} is not drawn here: write Markdown; a chart or a diagram is drawn by a program, as a "
                "PNG that the Markdown shows",
                code="format_unsupported",
            )
        if not params["content"].strip():
            raise ToolError("the content is blank", code="empty_content")
        pool = context.sources.rows
        tokens, missing = read_citations(params["content"], pool)
        cited = sorted({sid for sids in tokens.values() for sid in sids})
        ret = {
            "path": where,
            "tokens": tokens,
            "sources": [_row(pool[sid]) for sid in cited],
            "missing_sources": missing,
            "internal": internal_files(context.timeline, context.turn),
        }
        return ToolOutput(ret=ret)

    return grant


def _target_path(kind: str, params: Mapping[str, Any], context: ToolContext) -> str:
    path = artifact_path(context.turn, params["path"])
    if not path.rel.lower().endswith(f".{kind}"):
        raise ToolError(f"the name of this file ends in .{kind}", code="extension_mismatch")
    check_name(path, context)
    where = physical(path)
    assert where is not None
    return where


def read_citations(text: str, pool: Mapping[int, Source]) -> tuple[dict[str, list[int]], list[int]]:
    """Return the citations of a text as written, each with its known sources, and the unknown numbers.

    UNREADABLE is one of those if a citation cannot be read. Raises ToolError `too_many_citations`.
    """
    tokens: dict[str, list[int]] = {}
    missing: dict[int, None] = {}
    known = sorted(pool)
    for found in TOKEN.finditer(text):
        if found[0] in tokens:
            continue
        if len(tokens) >= TOKENS_MAX:
            raise ToolError(f"a text has at most {TOKENS_MAX} different citations", code="too_many_citations")
        ids = read_ids(found["ids"])
        sids, unknown = expand(ids.ranges, known)
        tokens[found[0]] = list(sids)
        missing |= dict.fromkeys((*unknown, *[UNREADABLE_SID] * ids.unreadable))
    return tokens, list(missing)


def _row(source: Source) -> dict[str, Any]:
    title = plain_title(Citation(sid=source.sid, title=source.title, url=source.url))
    return {"sid": source.sid, "title": title, "url": web_url(source.url)}


def internal_files(timeline: Resolver, turn: str) -> list[str]:
    """Return the files of the turn that the user does not see, by their path below the artifact root."""
    seen: dict[str, bool] = {}
    for block in timeline.turn_blocks(turn):
        if block.body is not None and (where := block.meta.get("physical_path")):
            seen[where] = block.meta.get("visibility") == "internal"
    return [where for where, internal in seen.items() if internal]


RENDERING_TOOLS: Final = tuple(
    Tool(spec=spec, run=_grant(spec.tool_id.removeprefix(ALIAS))) for spec in SPECS
)
