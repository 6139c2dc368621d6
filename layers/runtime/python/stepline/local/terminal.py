"""Text of strangers, made fit for a terminal, and events in a line each. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from stepline.model.event import ClientEvent
from stepline.model.glyph import show_hidden
from stepline.model.plan import MARKS

_LINE_CHARS: Final = 160


def clean(text: str) -> str:
    """Return the text with every hidden character made visible, so that no control reaches the terminal."""
    return show_hidden(text.replace("\r\n", "\n"))


def one_line(text: str, limit_chars: int = _LINE_CHARS) -> str:
    """Return the text on one line, cut at the limit."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit_chars else f"{line[: limit_chars - 1]}…"


def render_event(event: ClientEvent) -> list[str]:
    """Return what a person wants to know of one event, in lines; most events say nothing."""
    return _LINES.get(event.type, _nothing)(event)


def _call(event: ClientEvent) -> list[str]:
    return [f"→ {_tool(event)} {_params(event.data.get('params'))}".rstrip()]


def _result(event: ClientEvent) -> list[str]:
    data = event.data
    ok = data.get("status") == "ok"
    why = "" if ok else f": {one_line(str(data.get('code') or data.get('status')))}"
    return [f"{'✓' if ok else '✗'} {_tool(event)}, {data.get('duration_ms', 0)} ms{why}"]


def _rejected(event: ClientEvent) -> list[str]:
    return [f"✗ the decision was not taken: {one_line(str(event.data.get('code')))}"]


def _decision(event: ClientEvent) -> list[str]:
    notes = one_line(str(event.data.get("notes") or ""))
    return [f"· {notes}"] if notes else []


def _plan(event: ClientEvent) -> list[str]:
    marks: Mapping[str, str] = {str(name): mark for name, mark in MARKS.items()}
    status = event.data.get("status", {})
    return [
        f"  {marks.get(status.get(str(n)), '□')} {n}. {one_line(str(step))}"
        for n, step in enumerate(event.data.get("steps", ()), 1)
    ]


def _restarted(_: ClientEvent) -> list[str]:
    return ["… this round begins again"]


def _step(event: ClientEvent) -> list[str]:
    return ["… the answer waits for what came in since"] if event.step == "deferred" else []


def _files(event: ClientEvent) -> list[str]:
    return [f"⎙ {one_line(str(item.get('logical_path')))}" for item in event.data.get("items", ())]


def _program(event: ClientEvent) -> list[str]:
    lines = str(event.data.get("text", "")).splitlines()
    first = next((line for line in lines if line.strip()), "")
    return [f"  {len(lines)} lines of {one_line(str(event.data.get('language')))}: {one_line(first, 80)}"]


def _status(event: ClientEvent) -> list[str]:
    return ["  … running"] if event.data.get("status") == "exec" else []


def _told(event: ClientEvent) -> list[str]:
    said = json.dumps(event.data.get("data", {}), ensure_ascii=False)
    return [f"  {one_line(str(event.data.get('type')))}: {one_line(said, 100)}"]


def _nothing(_: ClientEvent) -> list[str]:
    return []


_LINES: Final[Mapping[str, Callable[[ClientEvent], list[str]]]] = {
    "react.tool.call": _call,
    "react.tool.result": _result,
    "react.tool.rejected": _rejected,
    "solver.react.decision": _decision,
    "round.restarted": _restarted,
    "chat.files": _files,
    "react.tool.event": _told,
    "code_exec.code": _program,
    "code_exec.status": _status,
    "react.plan": _plan,
    "chat.step": _step,
}


def _tool(event: ClientEvent) -> str:
    return one_line(str(event.data.get("tool_id", "a tool")))


def _params(params: Any) -> str:
    if not isinstance(params, Mapping):
        return one_line(str(params or ""))
    shown = (
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in params.items()
    )
    return one_line(" ".join(one_line(part, 60) for part in shown))
