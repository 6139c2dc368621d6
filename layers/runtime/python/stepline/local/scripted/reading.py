"""Parse a rendered timeline and a catalogue of tools: the only module of the server that knows the formats.

A line of structure begins in the first column, data is indented; so the text of a user or a file is never mistaken for
a header. Unknown sections are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, Literal

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.programs.outcome import TITLE as PREVIEW

_TURN: Final = re.compile(r"^TURN (?P<id>\S+) \(started at")
_ANNOUNCE: Final = re.compile(r"ANNOUNCE\b.{0,8}Iteration \d+\s*/\s*\d+")
_CALL: Final = re.compile(r"^\[TOOL CALL (?P<id>[^\]]+)\]\.\w+ (?P<tool>\S+)")
_RESULT: Final = re.compile(r"^\[TOOL RESULT (?P<id>[^\]]+)\]\.\w+ (?P<tool>\S+)")
_CODE: Final = re.compile(r"^\[AI Agent wrote code\] (?P<path>\S+)$")
_PATH: Final = re.compile(r"^logical_path: (?P<path>\S+)$")
_ARTIFACT: Final = re.compile(r"^artifact: (?P<path>\S+)$")
_NAMED: Final = re.compile(r"\"(?:path|artifact_path|logical_path)\"\s*:\s*\"(?P<path>[a-z]{2}:[^\"]+)\"")
_FAILED: Final = re.compile(r"^status: (error|failed|unverified|not run)\b")
_WORKSPACE_FILE: Final = re.compile(r"^fi:[^.]+\.(?:outputs|files|user\.attachments)/")
_FACT: Final = re.compile(
    r"^(\[READ (PREVIEW|RANGE)\b.*|(path|lines|line_numbers|visible_lines|partial_line|mime)\s*:.*)$"
)
_GUTTER: Final = re.compile(r"^ *\d+\t")
_INDENT: Final = "  "
_CUT: Final = " PREVIEW TRUNCATED]"
"""The end of a banner of truncated text, which is inside a section and no header."""
_OTHER_HEADER: Final = re.compile(
    r"^(━{8,}|└─|┌─|\[ts:|\[(thinking|AI Agent |USER FEEDBACK\]|REACT DECISION |ASSISTANT |WORKING |COMPACTED |END |"
    r"INTERNAL |TURN |AUTO FEEDBACK|FEEDBACK|SYSTEM MESSAGE|PRUNED |PROTOCOL VIOLATION\]|"
    r"STAGE\]|HIDDEN\]|ATTACHED\]|NOT ATTACHED\]|TRUNCATED FILE\]|MID-TURN |BUDGET\]|OPEN PLANS\]|sources_used: ))"
)
_EVENT: Final = re.compile(r"^\[EXTERNAL EVENT: (?P<kind>[a-z][a-z0-9_-]*)\]$")
_FILE: Final = re.compile(r"^\[USER ATTACHMENT\] .* \| (?P<path>fi:.+)$")
_PAYLOAD: Final = "payload: "
_ROSTER: Final = re.compile(r"^\[TOOLS\] \d+ available: (?P<names>.+)$", re.MULTILINE)
_CARD, _REQUEST, _EXAMPLE = "## ", "request: ", "example: "

Kind = Literal["user", "followup", "steer", "event"]
_MESSAGES: Final[dict[str, Kind]] = {
    "[USER MESSAGE]": "user",
    "[FOLLOWUP DURING TURN]": "followup",
    "[FOLLOWUP MESSAGE]": "followup",
    "[STEER DURING TURN]": "steer",
    "[STEER MESSAGE]": "steer",
}


class ViewMessage(Value):
    """A user message, or an event of kind `event`. If it is not `reactive`, it requests no answer.

    `files` are the paths of its attachments.
    """

    kind: Kind
    text: str
    event: str = ""
    payload: str = ""
    files: tuple[str, ...] = ()
    reactive: bool = True


class ToolCallView(Value):
    """A tool call of the current view with its id and its result; `result` is empty while there is none.

    `blocks` are the result's, each a path and its data; `paths` also has those named in the status; `content` is the
    newest block that is neither status nor notice, without the lines that describe it. An `unverified` call, whose
    effect is unknown, counts as failed.
    """

    tool: str
    id: str = ""
    result: str = ""
    content: str = ""
    blocks: tuple[tuple[str, str], ...] = ()
    paths: tuple[str, ...] = ()
    failed: bool = False
    unverified: bool = False

    @property
    def done(self) -> bool:
        """True if the call succeeded."""
        return bool(self.result) and not self.failed

    @property
    def report(self) -> str:
        """The tool's own report."""
        return next((text for path, text in self.blocks if path.endswith(".result")), "")

    @property
    def files(self) -> tuple[str, ...]:
        """The workspace files that the result names."""
        return tuple(path for path in self.paths if _WORKSPACE_FILE.match(path))


class TurnView(Value):
    """A rendered turn. `violations` counts corrections since the last tool result, `codes` are programs by path."""

    turn_id: str = ""
    messages: tuple[ViewMessage, ...] = ()
    calls: tuple[ToolCallView, ...] = ()
    violations: int = 0
    codes: tuple[tuple[str, str], ...] = ()


class ExampleRequest(Value):
    """A sentence that a user may send, from the card of a tool, and the parameters that answer it."""

    text: str
    tool: str
    params: dict[str, Any]


class Roster(Value):
    """The tools of a request and the requests on their cards; without `tools`, the available tools are unknown."""

    tools: frozenset[str] | None = None
    requests: tuple[ExampleRequest, ...] = ()

    def has(self, tools: Iterable[str]) -> bool:
        """Return True if all of these tools can be called."""
        return self.tools is None or self.tools.issuperset(tools)


class PromptView(Value):
    """A parsed prompt. The last turn is the current one.

    `finalize` is true if a steer asks the turn to end. `staged` are contents that the journal shows in full, by path,
    and `attached` the paths of pictures and documents after it.
    """

    turns: tuple[TurnView, ...]
    last_round: bool = False
    finalize: bool = False
    staged: tuple[tuple[str, str], ...] = ()
    attached: tuple[str, ...] = ()

    @property
    def current(self) -> TurnView:
        """The turn that needs a decision."""
        return self.turns[-1]

    @property
    def attachments(self) -> tuple[str, ...]:
        """The paths of files from outside, newest last."""
        return tuple(path for turn in self.turns for message in turn.messages for path in message.files)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files, those written by calls last."""
        return self.attachments + tuple(p for turn in self.turns for call in turn.calls for p in call.files)

    def text_at(self, path: str) -> str:
        """Return the newest data shown at a path, in any turn; of a program's file without the head of its preview."""
        blocks = [block for turn in self.turns for call in turn.calls for block in call.blocks]
        codes = [code for turn in self.turns for code in turn.codes]
        found = next((text for at, text in reversed(blocks + codes) if at == path), "")
        return found.partition("\n\n")[2] if found.startswith(PREVIEW) else found


class _Section(Value):
    header: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The data, without its indentation."""
        return _data(self.lines)


def parse_roster(system: str) -> Roster:
    """Parse the catalogue of tools in the instructions."""
    found = _ROSTER.search(system)
    if found is None:
        return Roster()
    tools, tool = frozenset(found["names"].split(", ")), ""
    requests: list[ExampleRequest] = []
    for line, following in pairwise([*system[found.end() :].split("\n"), ""]):
        if line.startswith(_CARD):
            tool = line.removeprefix(_CARD)
        elif tool in tools and line.startswith(_REQUEST) and following.startswith(_EXAMPLE):
            params = json.loads(following.removeprefix(_EXAMPLE))["params"]
            requests.append(ExampleRequest(text=line.removeprefix(_REQUEST), tool=tool, params=params))
    return Roster(tools=tools, requests=tuple(requests))


def parse_view(text: str) -> PromptView:
    """Parse a prompt. Text that is no timeline becomes one turn with one user message."""
    timeline, announce = _split_announce(text)
    turns: list[TurnView] = []
    calls: dict[str, ToolCallView] = {}
    for section in _sections(timeline):
        if opened := _TURN.match(section.header):
            turns.append(TurnView(turn_id=opened["id"]))
            calls = {}
        elif turns:
            turns[-1] = _fold(turns[-1], section, calls)
    return PromptView(
        turns=tuple(turns) or (TurnView(messages=(ViewMessage(kind="user", text=text.strip()),)),),
        last_round="LAST ROUND" in announce,
        finalize="\n[FINALIZE]" in announce,
    )


def fold_sections(turn: TurnView, text: str) -> TurnView:
    """Return a turn extended by the sections in a text."""
    calls: dict[str, ToolCallView] = {}
    for section in _sections(text):
        turn = _fold(turn, section, calls)
    return turn


def _split_announce(text: str) -> tuple[str, str]:
    found = [match.start() for match in _ANNOUNCE.finditer(text)]
    cut = found[-1] if found else len(text)
    sources = text.rfind("\n[SOURCES POOL] ", 0, cut)
    return (text[:sources] if sources >= 0 else text[:cut]), text[cut:]


def _sections(text: str) -> Iterator[_Section]:
    header = ""
    lines: list[str] = []
    for line in text.split("\n"):
        if _is_header(line):
            if header:
                yield _Section(header=header, lines=tuple(lines))
            header, lines = line, []
        else:
            lines.append(line)
    if header:
        yield _Section(header=header, lines=tuple(lines))


def _is_header(line: str) -> bool:
    known = line in _MESSAGES or any(kind.match(line) for kind in (_EVENT, _TURN, _CALL, _RESULT))
    return known or bool(_OTHER_HEADER.match(line) and not line.endswith(_CUT))


def _fold(turn: TurnView, section: _Section, calls: dict[str, ToolCallView]) -> TurnView:
    header = section.header
    if said := _message(section):
        return replace(turn, messages=(*turn.messages, said))
    if code := _CODE.match(header):
        return replace(turn, codes=(*turn.codes, (code["path"], section.text)))
    if call := _CALL.match(header):
        calls[call["id"]] = ToolCallView(tool=call["tool"], id=call["id"])
        return replace(turn, calls=tuple(calls.values()))
    if result := _RESULT.match(header):
        calls[result["id"]] = _result(result["tool"], result["id"], section.lines)
        return replace(turn, calls=tuple(calls.values()), violations=0)
    if header.startswith("[PROTOCOL VIOLATION]"):
        return replace(turn, violations=turn.violations + 1)
    return turn


def _message(section: _Section) -> ViewMessage | None:
    """Return the message under a header; None if it is empty or no message header."""
    event = _EVENT.match(section.header)
    kind = "event" if event else _MESSAGES.get(section.header)
    files = tuple(found["path"] for line in section.lines if (found := _FILE.match(line)))
    if kind is None or not (section.text or files or kind in ("steer", "event")):
        return None
    payloads = (line.removeprefix(_PAYLOAD) for line in section.lines if line.startswith(_PAYLOAD))
    return ViewMessage(
        kind=kind,
        text=section.text,
        event=event["kind"] if event else "",
        payload=next(payloads, ""),
        files=files,
        reactive="reactive: no" not in section.lines,
    )


def _result(tool: str, call: str, lines: tuple[str, ...]) -> ToolCallView:
    blocks = _blocks(lines)
    shown = [text for path, text in blocks if text and not path.endswith((".result", ".notice"))]
    named = [match["path"] for line in lines for match in _NAMED.finditer(line)]
    named += [match["path"] for line in lines if (match := _ARTIFACT.match(line))]
    flaw = next((match for line in lines if (match := _FAILED.match(line))), None)
    return ToolCallView(
        tool=tool,
        id=call,
        result="\n".join(line.removeprefix(_INDENT) for line in lines).strip() or "(nothing)",
        content=_without_facts(shown[-1]) if shown else "",
        blocks=tuple(blocks),
        paths=tuple(dict.fromkeys([*(path for path, _ in blocks), *named])),
        failed=bool(flaw),
        unverified=bool(flaw and flaw[1] == "unverified"),
    )


def _blocks(lines: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the paths of a result's blocks, each with its data."""
    starts = [(n, match["path"]) for n, line in enumerate(lines) if (match := _PATH.match(line))]
    ends = pairwise([*starts, (len(lines), "")])
    return [(path, _data(lines[start + 1 : end])) for (start, path), (end, _) in ends]


def _data(lines: tuple[str, ...]) -> str:
    return "\n".join(line.removeprefix(_INDENT) for line in lines if line.startswith(_INDENT)).strip("\n")


def _without_facts(text: str) -> str:
    return "\n".join(_GUTTER.sub("", line) for line in text.split("\n") if not _FACT.match(line)).strip("\n")
