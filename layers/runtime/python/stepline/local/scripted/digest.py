"""Parse an operational digest: the server's knowledge of the layout `journal`.

Messages, calls and results have the format of a timeline; contents of results are in a separate section, and earlier
turns are presentations. Staged content follows the session log, below its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from stepline.local.scripted.reading import PromptView, ToolCallView, TurnView, ViewMessage, fold_sections
from stepline.rendering.quote import INDENT

DIGEST_MARK: Final = "[OPERATIONAL DIGEST]"
_PRIOR: Final = re.compile(r"^=== PRIOR TURN (?P<id>\S+) \(", re.MULTILINE)
_CURRENT: Final = re.compile(r"^=== CURRENT TURN \(live\) (?P<id>\S+) \(", re.MULTILINE)
_SECTION: Final = re.compile(r"^\[(?P<title>[A-Z][^\]\n]{0,100})\]$", re.MULTILINE)
_PROMPT: Final = "USER PROMPT STRUCTURAL/SEMANTIC INVENTORIZATION SUMMARY"
_EVENTS: Final = "SOLVER.REACT.EVENTS (oldest -> newest)"
_ARTIFACTS: Final = "SOLVER.CURRENT ARTIFACTS (oldest -> newest)"
_LOG: Final = "\n[SESSION LOG "
_ROUNDS: Final = "\n[LOOP ROUNDS]\n"
_SAID: Final = re.compile(r"^\[USER PROMPT SUMMARY\] \S+\n(?P<text>(?:  .*\n)*)", re.MULTILINE)
_ATTACHMENT: Final = re.compile(r"^- attachment (?P<path>fi:\S+) \| ", re.MULTILINE)
_SLOT: Final = re.compile(r"^- [^:\n]+: (?P<path>fi:\S+) \| ", re.MULTILINE)
_ROW: Final = re.compile(
    r"^- (?P<path>\S+) \| \S+ by (?P<call>\S+) \S+ \| .*\n(?P<text>(?:  .*\n)*)", re.MULTILINE
)
_STAGED: Final = re.compile(
    r"^### (?P<path>\S+) \[(?:artifact|skill)\]\nmeta: .*\ncontent:(?P<why> .*)?\n(?:```text\n(?P<text>(?:  .*\n|\n)*)```)?",
    re.MULTILINE,
)
_FILE: Final = re.compile(r"^\[ATTACHED\] (?P<path>\S+) \| ", re.MULTILINE)
_SECTIONS: Final = (
    *(
        _PROMPT,
        "CONTEXT USED (digest of past turns)",
        "SOLVER.TURN CONTRACT SLOTS (to fill)",
        _EVENTS,
        _ARTIFACTS,
    ),
    "FILES (CURRENT) -- OUT_DIR-relative paths",
)


def parse_digest(text: str, system: str = "") -> PromptView:
    """Parse a message of this layout; `system` may contain staged skills."""
    begun = _CURRENT.search(text)
    head = text[: begun.start()] if begun else text
    prior = tuple(map(_prior, _split(head, _PRIOR)))
    own, _, rest = (text[begun.start() :] if begun else "").partition(_LOG)
    _, _, rounds = rest.partition(_ROUNDS)
    sections = _by_title(own)
    turn = TurnView(turn_id=begun["id"] if begun else "")
    for title in (_PROMPT, _EVENTS):
        turn = fold_sections(turn, sections.get(title, ""))
    shown = [*_STAGED.finditer(system), *_STAGED.finditer(rest)]
    return PromptView(
        turns=(*prior, replace(turn, calls=tuple(_filled(turn.calls, sections.get(_ARTIFACTS, ""))))),
        last_round="LAST ROUND" in rounds,
        finalize="\n[FINALIZE]" in rounds,
        staged=tuple((one["path"], _plain(one["text"] or "") or (one["why"] or "").strip()) for one in shown),
        attached=tuple(one["path"] for one in _FILE.finditer(rest)),
    )


def _split(text: str, head: re.Pattern[str]) -> Iterator[str]:
    bounds = [*(match.start() for match in head.finditer(text)), len(text)]
    return (text[start:end] for start, end in pairwise(bounds))


def _by_title(text: str) -> Mapping[str, str]:
    """Return the sections that the server reads, and those after them, by title."""
    found = [match for match in _SECTION.finditer(text) if match["title"] in _SECTIONS]
    ends = [*(match.start() for match in found), len(text)][1:]
    return {match["title"]: text[match.end() + 1 : end] for match, end in zip(found, ends, strict=False)}


def _prior(text: str) -> TurnView:
    """Return an ended turn: its messages and its files; delivered files appear as those of one call."""
    named, said = _PRIOR.match(text), _SAID.search(text)
    files = tuple(match["path"] for match in _ATTACHMENT.finditer(text))
    slots = tuple(match["path"] for match in _SLOT.finditer(text))
    return TurnView(
        turn_id=named["id"] if named else "",
        messages=(ViewMessage(kind="user", text=_plain(said["text"]) if said else "", files=files),),
        calls=(ToolCallView(tool="", result="slots", paths=slots),) if slots else (),
    )


def _filled(calls: tuple[ToolCallView, ...], artifacts: str) -> Iterator[ToolCallView]:
    """Yield the calls with the contents of their results, if the digest shows them."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for row in _ROW.finditer(artifacts):
        rows.setdefault(row["call"], []).append((row["path"], _plain(row["text"])))
    for call in calls:
        blocks = rows.get(call.id, [])
        shown = [text for path, text in blocks if text and not path.endswith((".result", ".notice"))]
        report = "\n".join(text for path, text in blocks if path.endswith(".result"))
        yield replace(
            call,
            blocks=tuple(blocks),
            content=shown[-1] if shown else "",
            result=f"{call.result}\n{report}".strip() if call.result else "",
            paths=tuple(dict.fromkeys([*call.paths, *(path for path, _ in blocks)])),
        )


def _plain(text: str) -> str:
    return "\n".join(line.removeprefix(INDENT) for line in text.split("\n")).strip("\n")
