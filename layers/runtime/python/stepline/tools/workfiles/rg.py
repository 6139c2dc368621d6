"""`react.rg`: find files of the workspace by name, and lines in them by an expression.

It searches the files that a program of the turn would find below its artifact root: this turn's files, and those that it
pulled. Expressions are RE2's, so the time of a search is linear in the bytes it reads. These are bounded, and an
expression with many instructions reads less in proportion.
Source: docs/reference/tools.md#reactrg; https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from stepline.errors import NotFoundError, PathError, ToolError
from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.ids import TURN
from stepline.model.path import AttachmentPath, FilePath, from_physical, parse_path, physical
from stepline.model.program.execution import WorkFile
from stepline.model.traversal import check_relative, clean_text
from stepline.timeline.workspace import fold_workspace
from stepline.tools.context import ToolContext, ToolOutput, render_json
from stepline.tools.parameter import closed_schema, param
from stepline.tools.read.run import REQUESTS_MAX
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from stepline.tools.window import count_lines

if TYPE_CHECKING:
    from re2 import _Regexp as Expression

FILES_MAX: Final = 20_000
"""Maximum files that a search looks at."""
TOTAL_MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes that a search reads."""
FILE_BYTES: Final = 2 * 1024 * 1024
FILE_MAX_BYTES: Final = 4 * 1024 * 1024
STEPS_MAX: Final = 2**32
"""Maximum bytes read, times the instructions of the expression: a bound on the work of RE2."""
MEMORY_BYTES: Final = 2 * 1024 * 1024
"""Memory of an expression's automaton; one that needs more is refused."""
MATCH_PREVIEW_CHARS: Final = 300
RESULT_CHARS: Final = 100_000
"""The approximate maximum characters of previews in a result."""

_PATTERN: Final = {"type": "string", "minLength": 1, "maxLength": 1_000}
_ROOTS: Final = ("files", "outputs", "attachments")
_SPACES: Final = {"user.attachments": "attachments"}


def _at_most(most: int, default: int, description: str) -> dict[str, Any]:
    return param("integer", description, minimum=1, maximum=most, default=default)


RG: Final = ToolSpec(
    tool_id="react.rg",
    purpose=(
        "Find files of the workspace by name, and lines in them by an expression (RE2, line by line). The workspace "
        "is the files of this turn and those that you pulled; nothing else is searched."
    ),
    schema=closed_schema(
        {
            "root": param(
                "string",
                "where: files/…, outputs/…, attachments/… of this turn, <turn>/files/…, or an fi: path; "
                "everywhere if left out",
                maxLength=2048,
                default="",
            ),
            "name_regex": {**_PATTERN, "description": "part of a file's name, without its folders"},
            "pattern": {**_PATTERN, "description": "part of a line; (?i) in front ignores case"},
            "context_lines": param("integer", "lines shown around a match", minimum=0, maximum=20, default=0),
            "max_matches": _at_most(1_000, 200, "at most so many matching lines"),
            "max_files": _at_most(1_000, 200, "at most so many files"),
            "max_bytes": _at_most(FILE_MAX_BYTES, FILE_BYTES, "how much of each file is searched"),
        }
    ),
    returns=(
        "hits with path, size and matching lines; `read_items` to pass to react.read as `items`; what was cut is said"
    ),
    effect="pure",
    read_only=True,
    cancellable=True,
    strategies=("exploration",),
    examples=(
        {"root": "files/site", "name_regex": r"\.css$", "pattern": r"color:\s*red", "context_lines": 2},
        {"name_regex": "^report"},
    ),
)


class Query(Value):
    """A valid call, with its defaults."""

    root: str = ""
    name_regex: str = ""
    pattern: str = ""
    context_lines: int = 0
    max_matches: int = 200
    max_files: int = 200
    max_bytes: int = FILE_BYTES


class Match(Value):
    """A matching line: its number, its shown part, and the lines around it."""

    line: int
    preview: str
    around: tuple[str, ...]


@dataclass
class Found:
    """The hits so far, and the limits that cut the search short."""

    hits: list[dict[str, Any]] = field(default_factory=list)
    scanned_files: int = 0
    match_count: int = 0
    chars: int = 0
    cut: dict[str, bool] = field(default_factory=dict)


def run_rg(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Search. Raises ToolError `rg_invalid_root`, `rg_invalid_regex`, `cancelled`."""
    query = Query(**params)
    root = read_root(query.root, context.turn)
    name, pattern = (compile_expression(text) for text in (query.name_regex, query.pattern))
    everything = fold_workspace(context.timeline, context.turn)
    below = [file for file in everything if file.path.startswith(root) or f"{file.path}/" == root]
    visible = [file for file in below if "/." not in file.path]
    found = Found(cut={"files_scan_truncated": True} if len(visible) > FILES_MAX else {})
    named = [file for file in visible[:FILES_MAX] if _is_named(file, name)]
    found.scanned_files = len(visible[:FILES_MAX])
    if pattern is None:
        found.hits = [_row(file) for file in named[: query.max_files]]
        found.cut |= {"files_truncated": True} if len(named) > query.max_files else {}
    else:
        try:
            _scan(named, pattern, query, found, context)
        except NotFoundError as error:
            raise ToolError(
                "the log names bytes that are gone from the store", code="body_missing"
            ) from error
    status = context.result(RG.tool_id, _status(query, root, found))
    turn = root.partition("/")[0]
    unpulled = not below and turn not in ("", context.turn)
    return ToolOutput(blocks=(*([_not_pulled(root, context)] if unpulled else []), status))


def read_root(text: str, turn: str) -> str:
    """Return the physical folder of a root, which ends with a slash; "" for everything.

    Raises ToolError `rg_invalid_root`.
    """
    try:
        return _root(text.strip(), turn)
    except PathError as refused:
        raise ToolError(
            f"{refused}; a root is files/…, outputs/… or attachments/…, the same below a turn, or an fi: path",
            code="rg_invalid_root",
        ) from refused


def _root(text: str, turn: str) -> str:
    if text in ("", "outdir", "outdir/"):
        return ""
    cleaned = clean_text(text).removeprefix("conv:").removeprefix("outdir/").removesuffix("/")
    if cleaned.startswith("fi:"):
        head, _, rest = cleaned.removeprefix("fi:").partition(".")
        space, _, rel = rest.partition("/")
        space = _SPACES.get(space, space)
        if not (TURN.fullmatch(head) and space in _ROOTS):
            path = parse_path(cleaned)
            if not isinstance(path, FilePath | AttachmentPath):
                raise PathError("a program's source is no file of the workspace", code="path_bad_form")
            return f"{physical(path)}/"
        cleaned = f"{head}/{space}" + (f"/{rel}" if rel else "")
    head, _, rest = cleaned.partition("/")
    if head not in _ROOTS and not TURN.fullmatch(head):
        raise PathError(f"{head[:80]!r} is neither a folder of this turn nor a turn", code="path_bad_form")
    where = cleaned if TURN.fullmatch(head) else f"{turn}/{cleaned}"
    of, _, below = where.partition("/")
    space, _, rel = below.partition("/")
    if space not in _ROOTS:
        return f"{physical(from_physical(where))}/"
    if rel:
        check_relative(rel)
    return f"{of}/{below}/"


def compile_expression(text: str) -> Expression | None:
    """Return an expression for lines of a text; None for an empty one. Raises ToolError `rg_invalid_regex`."""
    if not text:
        return None
    import re2  # noqa: PLC0415 - 9 ms of CPU, for the rounds that search

    options = re2.Options()
    options.max_mem, options.never_nl, options.log_errors = MEMORY_BYTES, True, False
    try:
        return re2.compile(f"(?m){text}", options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ToolError(
            f"{text[:80]!r} is no expression of RE2, which has neither look-around nor back-references: {reason[:200]}",
            code="rg_invalid_regex",
        ) from error
    finally:
        re2.purge()  # a warm function would keep up to 128 automata


def _is_named(file: WorkFile, name: Expression | None) -> bool:
    return name is None or name.search(file.path.rpartition("/")[2].encode()) is not None


def _scan(
    files: Sequence[WorkFile], pattern: Expression, query: Query, found: Found, context: ToolContext
) -> None:
    """Search files until there is enough, or the bounds of a search are reached."""
    room = min(TOTAL_MAX_BYTES, STEPS_MAX // max(1, pattern.programsize))
    found.scanned_files = 0
    heads = context.artifacts.heads([file.key for file in files], max_bytes=query.max_bytes)
    for file, data in zip(files, heads, strict=True):
        context.check_cancelled()
        room -= len(data)
        if room < 0:
            found.cut["scan_truncated"] = True
            return
        found.scanned_files += 1
        if b"\0" in data:
            continue
        matches = list(_matches(data, pattern, query, found))
        if matches and len(found.hits) == query.max_files:
            found.cut["files_truncated"] = True
            return
        if matches:
            found.hits.append(_row(file, data, matches, query))
        if "matches_truncated" in found.cut:
            return


def _matches(data: bytes, pattern: Expression, query: Query, found: Found) -> Iterator[Match]:
    """Yield the matching lines of a file while the result has room."""
    at, line, counted = 0, 1, 0
    while at < len(data) and (match := pattern.search(data, at)) is not None:
        where = match.start()
        if where == len(data) and data.endswith(b"\n"):  # after the last line
            return
        if found.match_count == query.max_matches or found.chars > RESULT_CHARS:
            found.cut["matches_truncated"] = True
            return
        begin = data.rfind(b"\n", 0, where) + 1
        line += data.count(b"\n", counted, begin)
        counted = begin
        end = data.find(b"\n", where)
        end = len(data) if end < 0 else end
        around = tuple(_around(data, begin, end, line, query.context_lines))
        made = Match(line=line, preview=_show(line, data[begin:end], where - begin), around=around)
        found.match_count += 1
        found.chars += len(made.preview) + sum(map(len, around))
        yield made
        at = end + 1


def _around(data: bytes, begin: int, end: int, line: int, count: int) -> Iterator[str]:
    """Yield the lines before and after the one from `begin` to `end`."""
    before: list[bytes] = []
    at = begin
    while at > 0 and len(before) < count:
        start = data.rfind(b"\n", 0, at - 1) + 1
        before.append(data[start : at - 1])
        at = start
    for back in range(len(before), 0, -1):
        yield _show(line - back, before[back - 1])
    at = end + 1
    for number in range(line + 1, line + count + 1):
        if at >= len(data):
            return
        stop = data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop
        yield _show(number, data[at:stop])
        at = stop + 1


def _show(line: int, data: bytes, where: int = 0) -> str:
    """Return a line as shown: its number, and of a long one the part around the byte `where`."""
    begin = max(0, where - MATCH_PREVIEW_CHARS // 3) if len(data) > MATCH_PREVIEW_CHARS else 0
    shown = data[begin : begin + MATCH_PREVIEW_CHARS]
    cut = "…" if begin + len(shown) < len(data) else ""
    text = shown.decode(errors="replace").rstrip("\r")
    return f"{line}: {'…' if begin else ''}{text}{cut}"


def _row(
    file: WorkFile, data: bytes | None = None, matches: Sequence[Match] = (), query: Query | None = None
) -> dict[str, Any]:
    logical = str(from_physical(file.path))
    row: dict[str, Any] = {"path": file.path, "logical_path": logical, "size_bytes": file.size_bytes}
    if data is None or query is None:
        return row
    if len(data) < file.size_bytes:
        row |= {"scanned_bytes": len(data), "scan_truncated": True}
    else:
        text = data.decode(errors="replace")
        row |= {"text_symbols": len(text), "line_count": count_lines(text)}
    around = query.context_lines
    row["matches"] = [
        {
            "line": match.line,
            "preview": match.preview,
            **({"context_lines": match.around} if around else {}),
            "read_item": _item(logical, match.line - around, match.line + around),
        }
        for match in matches
    ]
    return row


def _item(path: str, first: int, last: int) -> dict[str, Any]:
    first = max(1, first)
    return {"path": path, "line_start": first, "line_count": last - first + 1}


def _status(query: Query, root: str, found: Found) -> dict[str, Any]:
    status: dict[str, Any] = {
        "root": root or "all",
        "hits": found.hits,
        "hit_count": len(found.hits),
        "scanned_files": found.scanned_files,
    }
    if query.pattern:
        status["match_count"] = found.match_count
        status["read_items"] = _merge_items(found.hits)
        status["max_bytes"] = query.max_bytes
        if query.context_lines:
            status["context_lines"] = query.context_lines
        if any("scan_truncated" in hit for hit in found.hits):
            found.cut["scan_truncated"] = True
    return status | found.cut


def _merge_items(hits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the ranges of all matches for one `react.read`, ranges of a file that touch as one."""
    items: list[dict[str, Any]] = []
    for hit in hits:
        for match in hit["matches"]:
            item = match["read_item"]
            last = items[-1] if items and items[-1]["path"] == item["path"] else None
            if last and item["line_start"] <= last["line_start"] + last["line_count"]:
                last["line_count"] = item["line_start"] + item["line_count"] - last["line_start"]
            elif len(items) == REQUESTS_MAX:
                return items
            else:
                items.append(dict(item))
    return items


def _not_pulled(root: str, context: ToolContext) -> Block:
    """Return the notice about a root of an earlier turn; only below files/ may a whole folder be pulled."""
    where = root.removesuffix("/")
    try:
        path = str(from_physical(where))
    except PathError:
        of, _, space = where.partition("/")
        path = f"fi:{of}.files/" if space == "files" else ""
    return context.notice(
        RG.tool_id,
        "rg_root_not_pulled",
        "Nothing was pulled from there, so nothing was searched.",
        {"pull_hint": f"react.pull {render_json({'paths': [path]})}"} if path else {},
    )


RG_TOOL: Final = Tool(spec=RG, run=run_rg)
