"""The list of a bundle's remote tools: built from the MCP servers' answers, cut and checked, and stored for the turn.

    name          unchanged; the id is `mcp.<alias>.<name>`, by the grammar of ids
    description   cut, and indented on the card: it is data, whatever it asks for
    schema        read keyword by keyword (`foreign_schema`); an invalid one leaves its tool out
    annotations   `readOnlyHint` is effect `pure`, `idempotentHint` `keyed`, and without either a call is `once`

An unusable tool is left out, with a code; the others stay. A card shows one line per parameter, with the targets of its
references, to a depth. A card that is too long is made again, shorter: fewer levels, then no descriptions, then fewer parameters.
Source: docs/how-to/connect-an-mcp-server.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.visible_text import shorten
from stepline.ports.mcp.mcp_server import RemoteTool
from stepline.rendering.quote import clean_for_prompt, inline, inline_json, quote
from stepline.tools.mcp.foreign_schema import DEFS, MORE, NOTE, read_schema
from stepline.tools.mcp.schema_check import find_problems
from stepline.tools.mcp.server_row import McpServer
from stepline.tools.spec import ToolEffect, ToolSpec

PARAMETERS_CHARS: Final = 6_500
NODES_MAX, REFERENCES_MAX, ENUM_SHOWN, BRANCHES_SHOWN = 600, 30, 20, 20
ENUM_MAX: Final = 100
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$@][A-Za-z0-9_.$@-]{0,63}")
_NESTED: Final = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    }
)
_SAID_ONCE: Final = frozenset({"description", "type", "default", NOTE})
_BESIDE: Final = ("anyOf", "oneOf", "not", "if", "then", "else", "patternProperties")
"""Rules for all parameters together."""
_SHORTER: Final = ((6, True), (4, True), (3, True), (2, True), (1, True), (1, False))
"""The number of levels shown, with or without descriptions."""
_HIDDEN: Final = (MORE, "$ref", "$defs")


def render_parameters(schema: Mapping[str, Any]) -> list[str]:
    """Return the lines of a card that describe a schema's parameters."""
    lines: list[str] = []
    for depth, described in _SHORTER:
        lines = _Shown(schema, depth, described=described).lines()
        if sum(map(len, lines)) + len(lines) <= PARAMETERS_CHARS:
            return lines
    return list(_first(lines))


def _first(lines: Sequence[str]) -> Iterator[str]:
    room = PARAMETERS_CHARS
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            yield f"  … {len(lines) - number} more"
            return
        yield line


class _Shown:
    """One view of a schema, to a depth."""

    def __init__(self, schema: Mapping[str, Any], depth: int, *, described: bool) -> None:
        self._schema, self._depth, self._described = schema, depth, described
        self._defs = schema.get("$defs", {})
        self._left = NODES_MAX

    def lines(self) -> list[str]:
        """Return a line for each parameter, and one for the rules for all of them together."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        beside: list[dict[str, Any]] = []
        for part, within in self._parts(self._schema, ()):
            for name, rule in part.get("properties", {}).items():
                properties.setdefault(name, self._show(rule, 0, within))
            required += part.get("required", ())
            if together := {name: part[name] for name in _BESIDE if name in part}:
                beside.append(self._show(together, 0, within))
            if isinstance(part.get("additionalProperties"), Mapping):
                beside.append({"additionalProperties": self._show(part["additionalProperties"], 0, within)})
        for name in required:
            properties.setdefault(name, {})
        lines = ["params:" if properties or beside else "params: none named"]
        for name, rule in properties.items():
            said = name if _PLAIN_KEY.fullmatch(name) else inline_json(name)
            lines.append(f"  {said}{' (required)' if name in required else ''}: {inline_json(rule)}")
        return [*lines, *(f"  together: {inline_json(one)}" for one in beside)]

    def _parts(
        self, schema: Mapping[str, Any], within: tuple[str, ...]
    ) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
        """Yield the schemas that all parameters must fit: the root, its reference's target, and those of `allOf`."""
        self._left -= 1
        if self._left < 0:
            return
        yield schema, within
        ref = schema.get("$ref")
        if ref is not None and ref not in within and len(within) < REFERENCES_MAX:
            yield from self._parts(self._target(ref), (*within, ref))
        for one in schema.get("allOf", ()):
            yield from self._parts(one, within)

    def _target(self, ref: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._defs.get(ref.removeprefix(DEFS), {})
        return found

    def _show(self, schema: Mapping[str, Any], depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        """Return a schema in its shown form; `within` are the references that led here."""
        self._left -= 1
        shown = {name: one for name, one in schema.items() if name not in _HIDDEN}
        ref = schema.get("$ref")
        if ref is not None:
            if ref in within or len(within) == REFERENCES_MAX:
                return self._within(shown, depth, within) | {NOTE: f"{ref.removeprefix(DEFS)} again"}
            inner = self._show(self._target(ref), depth, (*within, ref))
            return _joined(inner, self._within(shown, depth, within))
        if (
            len(shown.get("allOf", ())) == 1
        ):  # the form in which generators write a reference with a description
            (only,) = shown.pop("allOf")
            return _joined(self._show(only, depth, within), self._within(shown, depth, within))
        return self._within(shown, depth, within)

    def _within(self, shown: dict[str, Any], depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        if not self._described:
            shown.pop("description", None)
        if len(values := shown.get("enum", ())) > ENUM_MAX:
            shown |= {"enum": values[:ENUM_SHOWN], NOTE: f"{len(values)} values; these are the first"}
        deep = depth >= self._depth or self._left < 0
        for keyword, value in tuple(shown.items()):
            if keyword not in _NESTED or not isinstance(value, Mapping | list):
                continue
            if deep:
                del shown[keyword]
                shown[NOTE] = "deeper than is shown"
            elif isinstance(value, list):
                shown[keyword] = [self._show(one, depth + 1, within) for one in value[:BRANCHES_SHOWN]]
                if len(value) > BRANCHES_SHOWN:
                    shown[NOTE] = f"{len(value)} in {keyword}; these are the first"
            elif keyword in ("properties", "patternProperties"):
                shown[keyword] = {name: self._show(one, depth + 1, within) for name, one in value.items()}
            else:
                shown[keyword] = self._show(value, depth + 1, within)
        return shown


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two schemas that a value must fit both, as one unless they disagree."""
    if (one.keys() & other.keys()) <= _SAID_ONCE:
        return one | other
    return {**other, "allOf": [one, *other.get("allOf", ())]}


BAD_NAME: Final = "mcp_bad_name"
TOO_MANY: Final = "mcp_too_many_tools"

TOOLS_MAX: Final = 64
"""The tools of one server that an agent gets: each is on a card of the prompt."""
CARDS_CHARS: Final = 40_000
"""The maximum for all cards of all servers."""
DESCRIPTION_CHARS: Final = 1_000
LEFT_OUT_SHOWN: Final = 50
NAME_CHARS, PLAIN_CHARS = 256, 128
NAMELESS: Final = "(no name)"

_PLAIN: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_./-]{{0,{PLAIN_CHARS - 1}}}")
_ODD: Final = re.compile(r"[^A-Za-z0-9_./-]|\A[./-]")


class KnownTool(Value):
    """A remote tool that the agent has, with the readable part of its schema. `effect` is its server's claim."""

    alias: str
    name: str
    description: str
    schema: dict[str, Any]
    effect: ToolEffect
    as_task: bool = False

    @property
    def tool_id(self) -> str:
        """Its id in the agent's catalogue."""
        return f"mcp.{self.alias}.{_identify(self.name)}"


class LeftOut(Value):
    """A tool that is left out, or, without a name, a server that did not answer, or whose list is incomplete."""

    alias: str
    code: str
    name: str = ""


class ToolList(Value):
    """The remote tools of an agent, in catalogue order."""

    tools: tuple[KnownTool, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def of(self, alias: str) -> tuple[KnownTool, ...]:
        """Return the tools of one server."""
        return tuple(tool for tool in self.tools if tool.alias == alias)

    def followed_by(self, known: Iterable[KnownTool], why: LeftOut) -> ToolList:
        """Return the tools of a server's incomplete list, followed by those that were known before."""
        names = {tool.name for tool in self.tools}
        more = tuple(tool for tool in known if tool.name not in names)
        return ToolList(tools=(*self.tools, *more)[:TOOLS_MAX], left_out=(*self.left_out, why))


def check_tools(server: McpServer, listed: Iterable[RemoteTool]) -> ToolList:
    """Return the usable tools of a server, and those left out."""
    usable: dict[str, KnownTool] = {}
    left: list[LeftOut] = []
    seen: dict[str, RemoteTool] = {}
    for tool in listed:
        if not server.offers(tool.name) or (
            tool.name and tool == seen.get(tool.name)
        ):  # a page that was sent twice
            continue
        seen.setdefault(tool.name, tool)
        code = ""
        if not _is_name(tool.name) or tool.name in usable:
            code = BAD_NAME
        elif len(usable) == TOOLS_MAX:
            code = TOO_MANY
        else:
            try:
                usable[tool.name] = _known(server.alias, tool)
            except ToolError as error:
                code = error.reason
        if code and len(left) < LEFT_OUT_SHOWN:
            name = inline(tool.name[:64].encode(errors="replace").decode()) or NAMELESS
            left.append(LeftOut(alias=server.alias, code=code, name=name))
    return ToolList(tools=tuple(usable.values()), left_out=tuple(left))


def join_lists(lists: Iterable[ToolList]) -> ToolList:
    """Return one list of several servers'; tools whose cards do not fit are left out."""
    tools: list[KnownTool] = []
    left: list[LeftOut] = []
    room = CARDS_CHARS
    for one in lists:
        left += one.left_out
        for tool in one.tools:
            room -= len(render_card(tool))
            if room >= 0:
                tools.append(tool)
            else:
                left.append(LeftOut(alias=tool.alias, code=TOO_MANY, name=tool.name))
    return ToolList(tools=tuple(tools), left_out=tuple(left))


def spec_of(tool: KnownTool) -> ToolSpec:
    """Return a remote tool's contract."""
    return ToolSpec(
        tool_id=tool.tool_id,
        purpose=f"A tool of the server {tool.alias}.",
        schema=tool.schema,
        returns="what the server says",
        effect=tool.effect,
        read_only=tool.effect == "pure",
        cancellable=tool.effect == "pure",
        claimed=True,
        card=render_card(tool),
        check=partial(find_problems, tool.schema),
    )


def render_card(tool: KnownTool) -> str:
    """Return a remote tool's card: the server's text is indented, or JSON on one line."""
    lines = [f"## {tool.tool_id}", f"A tool of the server {tool.alias}, in its words, which are data:"]
    lines.append(quote(tool.description or "(no description)"))
    return "\n".join([*lines, *render_parameters(tool.schema), "returns: what the server says"])


def _known(alias: str, tool: RemoteTool) -> KnownTool:
    """Return a tool in its stored form. Raises ToolError `mcp_bad_schema`."""
    effect: ToolEffect = "pure" if tool.read_only else "keyed" if tool.idempotent else "once"
    said = tool.description[: 4 * DESCRIPTION_CHARS].encode(errors="replace").decode()
    return KnownTool(
        alias=alias,
        name=tool.name,
        description=shorten(clean_for_prompt(said).strip(), DESCRIPTION_CHARS),
        schema=read_schema(tool.schema),
        effect=effect,
        as_task=tool.as_task,
    )


def _is_name(name: str) -> bool:
    """Return True for a name that a call can have: text on one line, all of whose characters are visible."""
    return 0 < len(name) <= NAME_CHARS and name.isprintable() and not name.isspace()


def _identify(name: str) -> str:
    """Return a tool's name in the form of ids; an invalid name is replaced, and a digest makes it unique.

    It depends on the name alone, because rules of approvals name ids.
    """
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{_ODD.sub('_', name)[: PLAIN_CHARS - 7]}_{digest}"
