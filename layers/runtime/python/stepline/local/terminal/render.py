"""Terminal rendering of foreign text and of events, mostly one line each. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from stepline.local.client.change import HandedBack, LaneEnded, LaneKnown, PutOff, Steered, TurnEnded, Waiting
from stepline.local.counted import counted
from stepline.local.safe_text import clean, one_line
from stepline.model.plan_steps import STEP_MARKS
from stepline.model.wire.event import ClientEvent, ErrorFrame
from stepline.model.wire.live_event import STEER

LOG_LINES: Final = 5
BAR_CELLS: Final = 20
PLAIN_COLUMNS: Final = 100
LONG_MS: Final = 10_000
"""A turn of this duration or more shows where its time went."""
ADVICE: Final = "`stepline logs` has the cause"
EXPLAINED: Final = frozenset({"step_failed", "step_timeout", "execution_lost", "model_refused", "internal"})
"""Codes that explain less than the functions' logs do."""


def advise(code: str) -> str:
    """Return a hint at the cause of a turn's error, for codes that do not explain it."""
    return ADVICE if code in EXPLAINED else ""


def render_error(code: str, message: str, *, local: bool) -> str:
    """Return an error on one line, with a hint below it if this machine has more information."""
    line = f"error: {one_line(f'{code}: {message}')}"
    return f"{line}\n{advice}" if local and (advice := advise(code)) else line


def render_failure(ended: TurnEnded, *, local: bool) -> str:
    """Return the error of a failed turn, and below it when its message can be sent again, if it can."""
    lines = [render_error(ended.code, ended.message, local=local)]
    if ended.retryable or ended.retry_after_s:
        wait = f" in {render_wait(ended.retry_after_s)}" if ended.retry_after_s else ""
        lines.append(f"You can send the message again{wait}.")
    return "\n".join(lines)


def render_refusal(frame: ErrorFrame, *, local: bool) -> str:
    """Return a refusal, and below it when the same message can be sent again, if that is known."""
    said = render_error(frame.code, frame.message, local=local)
    wait_s = frame.retry_after_s
    return f"{said}\nYou can send the message again in {render_wait(wait_s)}." if wait_s else said


def render_wait(wait_s: int) -> str:
    """Return a time to wait, rounded up to a readable number."""
    for unit, unit_s, until_s in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if wait_s <= until_s:
            return f"{math.ceil(wait_s / unit_s)} {unit}"
    return f"{math.ceil(wait_s / 86_400)} days"


def render_duration(ms: float) -> str:
    """Return an elapsed time: `142 ms`, `5 s`, `3.2 s`, `2 min 5 s`."""
    if ms < 1_000:
        return f"{round(ms)} ms"
    if ms < 59_950:
        return f"{ms / 1_000:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    return f"{minutes} min {seconds} s"


def render_client_event(event: ClientEvent) -> list[str]:
    """Return the lines that show an event to a person; most events have none."""
    return _single_spaced(_LINES.get(event.type, _nothing)(event))


def render_footer(event: ClientEvent, *, usage: bool = False) -> list[str]:
    """Return the lines below an answer: citations, suggestions, the time of a long turn and, on request, the usage.

    These events precede the terminal one; a view that shows the answer at its end keeps their lines until then.
    """
    match event.type:
        case "chat.citations":
            return _single_spaced([render_citation(item) for item in _items(event)])
        case "chat.followups":
            return _single_spaced([render_suggestion(str(item)) for item in _list(event, "items")])
        case "chat.complete":
            said = [one_line(str(message))] if (message := event.data.get("message")) else []
            return _single_spaced([*said, *render_value(event.data.get("value"))])
        case "chat.turn.summary" if usage or _number(event, "elapsed_ms") >= LONG_MS:
            return [line] if (line := _render_time(event)) else []
        case "accounting.usage" if usage:
            return _single_spaced([render_usage(event.data)])
        case _:
            return []


def _single_spaced(lines: Sequence[str]) -> list[str]:
    """Collapse the gaps that empty fields leave; indented lines are foreign text and stay unchanged."""
    return [line if line.startswith("  ") else " ".join(line.split()) for line in lines]


def render_value(value: Any) -> list[str]:
    """Return the value of an agent with a result type as indented JSON; no lines without one."""
    if value is None:
        return []
    text = clean(json.dumps(value, ensure_ascii=False, indent=2))
    return [f"  {line}" for line in text.split("\n")]


def render_suggestion(text: str) -> str:
    """Return a message that the user may send next, on one line."""
    return f"» {one_line(text)}"


def render_citation(source: Mapping[str, Any]) -> str:
    """Return a cited source on one line: `[1] title — url`, or the path of a document."""
    words = (one_line(str(source.get(part) or "")) for part in ("title", "url", "path"))
    return f"[{one_line(str(source.get('sid')))}] {' — '.join(filter(None, words))}".rstrip()


def render_usage(usage: Mapping[str, Any]) -> str:
    """Return a turn's usage on one line."""
    names = ("rounds", "total_input_tokens", "cache_read_tokens", "output_tokens")
    rounds, read, cached, written = (one_line(str(usage.get(name, 0))) for name in names)
    about = "about " if usage.get("estimated") else ""
    return f"  rounds {rounds}, tokens {about}{read} in ({cached} cached), {written} out"


def _render_time(event: ClientEvent) -> str:
    """Return on one line where a turn's time went; "" if the event has no times."""
    timed = [(_number(event, name), words) for name, words in _PARTS.items()]
    rest = _number(event, "elapsed_ms") - sum(ms for ms, _ in timed)
    parts = [f"{render_duration(ms)} {words}" for ms, words in (*timed, (rest, "between steps")) if ms > 0]
    whole = render_duration(_number(event, "elapsed_ms"))
    return f"  {whole}: {', '.join(parts)}" if parts else ""


_PARTS: Final[Mapping[str, str]] = {
    "model_ms": "in the model",
    "tools_ms": "in tools and programs",
    "starting_ms": "starting programs",
    "collecting_ms": "collecting their files",
    "preparing_ms": "for title, summaries and hooks",
    "waiting_ms": "waiting for the model's provider",
}


def render_program(effect: LaneKnown | LaneEnded) -> str:
    """Return the state of a program by its lane: running, or collecting its files; "" for any other lane."""
    if isinstance(effect, LaneKnown):
        return "running" if effect.facts.began_at else ""
    return "collecting its files" if effect.at else ""


def render_progress(event: ClientEvent, *, columns: int = PLAIN_COLUMNS) -> str:
    """Return how far a call is, on one line: `acme.work [####------] 40%, 4 of 10, reading`; no bar without a total."""
    done, total = _amount(event, "done"), _amount(event, "total")
    text = one_line(str(event.data.get("text") or ""), max(20, columns // 2))
    if total <= 0:
        return f"  {_tool(event)} {done:,g}{f', {text}' if text else ''}"
    share = min(max(done / total, 0.0), 1.0)
    filled = round(share * BAR_CELLS)
    bar = "#" * filled + "-" * (BAR_CELLS - filled)
    shown = (f"{share:.0%}", f"{done:,g} of {total:,g}", text)
    return f"  {_tool(event)} [{bar}] {', '.join(filter(None, shown))}"


def render_progress_step(event: ClientEvent) -> str:
    """Return a key of a progress that changes with each tenth of it, with its number of digits, or with its text."""
    done, total = _amount(event, "done"), _amount(event, "total")
    step = math.floor(10 * done / total) if total > 0 else len(str(int(done)))
    return f"{event.data.get('call_id')} {total} {step} {event.data.get('text')}"


def _amount(event: ClientEvent, name: str) -> float:
    found = event.data.get(name)
    return found if isinstance(found, int | float) and math.isfinite(found) else 0.0


def render_outcome(effect: Steered | HandedBack | PutOff | Waiting) -> str:
    """Return the effect of a steer, the reason for a returned or delayed message, or a queue position, on one line."""
    if isinstance(effect, Waiting):
        return _POSITIONS.get(effect.place, f"… queued at position {effect.place}")
    if isinstance(effect, PutOff):
        frame = effect.frame
        return one_line(f"… {frame.code}: {frame.message} Sent again in {frame.retry_after_s} s.")
    if isinstance(effect, HandedBack):
        why = _HANDED_BACK.get(effect.reason, one_line(effect.reason))
        what = effect.text or ("stop" if effect.kind == STEER else effect.kind)
        return f"↩ not read, {why}: {one_line(what)}"
    if not effect.finalize_rounds:
        return "■ stopped"
    left = counted(effect.finalize_rounds, "round")
    return f"■ interrupted: {one_line(effect.text)} (at most {left} to finish)"


_POSITIONS: Final[Mapping[int, str]] = {0: "… no longer queued", 1: "… queued: next to begin"}
_HANDED_BACK: Final[Mapping[str, str]] = {
    "nothing_to_steer": "no turn is running",
    "turn_closed": "the turn had ended",
    "stopped": "the turn was stopped first",
}


def _number(event: ClientEvent, name: str) -> int:
    found = event.data.get(name)
    return round(found) if isinstance(found, int | float) else 0


def _seconds_between(start: str, end: str) -> int:
    """Return the whole seconds from one time to another, rounded up; 0 if one cannot be read, or there are none."""
    try:
        lasts = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    except (ValueError, TypeError):
        return 0
    return max(0, math.ceil(lasts.total_seconds()))


def _list(event: ClientEvent, name: str) -> Sequence[Any]:
    found = event.data.get(name)
    return found if isinstance(found, list | tuple) else ()


def _items(event: ClientEvent) -> list[Mapping[str, Any]]:
    return [item for item in _list(event, "items") if isinstance(item, Mapping)]


def _call(event: ClientEvent) -> list[str]:
    return [f"→ {_tool(event)} {_params(event.data.get('params'))}"]


def _result(event: ClientEvent) -> list[str]:
    """Return how a call ended; one that never ran, or may not have run, has no duration."""
    data = event.data
    status, code = data.get("status"), one_line(str(data.get("code") or ""))
    if status == "unverified":
        return [f"? {_tool(event)} may have run, or in part; it is not run again"]
    if status != "ok" and data.get("executed") is False:
        return [f"✗ {_tool(event)} was not run: {_NOT_RUN.get(code, code)}"]
    lasted = data.get("duration_ms")
    lasted = render_duration(lasted) if isinstance(lasted, int | float) else "0 ms"
    return [
        f"✓ {_tool(event)}, {lasted}"
        if status == "ok"
        else f"✗ {_tool(event)}, {lasted}: {code or one_line(str(status))}"
    ]


_NOT_RUN: Final[Mapping[str, str]] = {
    "steered": "you interrupted the turn first",
    "denied": "you denied it",
    "approval_expired": "the approval expired",
    "cancelled": "you interrupted the turn first",
}


def _rejected(event: ClientEvent) -> list[str]:
    """Return that the model's reply, or an action in it, was unusable; the model reads the code next."""
    index = event.data.get("action_index")
    if isinstance(index, int) and index:
        return [f"… action {index} of the model's reply was unusable and did not run"]
    return ["… the model's reply was unusable; asking again"]


def render_rejection(index: object, code: object) -> str:
    """Return the name of a refused action, with the code of its refusal, for `stepline log`."""
    return f"✗ action {index} was not run: {one_line(str(code))}"


def _decision(event: ClientEvent) -> list[str]:
    notes = one_line(str(event.data.get("notes") or ""))
    return [f"· {notes}"] if notes else []


def render_thinking(event: ClientEvent) -> str:
    """Return the thinking before a decision; its own lines are kept."""
    texts = [str(one.get("text") or "") for one in _list(event, "thinking") if isinstance(one, Mapping)]
    return clean("\n\n".join(texts)).strip()


def _plan(event: ClientEvent) -> list[str]:
    """Return a plan, one step per line; a replaced plan is one line, before its successor."""
    steps, found = _list(event, "steps"), event.data.get("status")
    status = [str(found.get(str(n))) if isinstance(found, Mapping) else "" for n in range(1, len(steps) + 1)]
    if event.data.get("current") is False:
        first = one_line(str(steps[0]), 80) if steps else ""
        done = f"{status.count('done')} of {counted(len(steps), 'step')}"
        return [f"  ✂ replaced, {done} done: {first} …"]
    marks: Mapping[str, str] = {str(name): mark for name, mark in STEP_MARKS.items()}
    rows = enumerate(zip(status, steps, strict=True), 1)
    return [f"  {marks.get(state, '□')} {n}. {one_line(str(step))}" for n, (state, step) in rows]


def _restarted(_: ClientEvent) -> list[str]:
    return ["… this round starts over"]


def _waiting(event: ClientEvent) -> list[str]:
    """Return when the request to a busy model is retried; an event of an earlier release lacks the attempt."""
    attempt, attempts = (_number(event, name) for name in ("attempt", "attempts"))
    which = f" (attempt {attempt} of {attempts})" if attempts else ""
    wait_s = _seconds_between(event.ts, str(event.data.get("until") or ""))
    return [f"… The model is busy, retrying in {render_wait(wait_s)}{which}"]


def _step(event: ClientEvent) -> list[str]:
    return ["… the agent reads your newer messages before it answers"] if event.step == "deferred" else []


def _files(event: ClientEvent) -> list[str]:
    return [f"⎙ {one_line(str(item.get('logical_path')))}" for item in _items(event)]


def _sources(event: ClientEvent) -> list[str]:
    numbers = ", ".join(str(item.get("sid")) for item in _items(event))
    return [f"  sources {one_line(numbers, 100)}"]


def _program(event: ClientEvent) -> list[str]:
    lines = str(event.data.get("text", "")).splitlines()
    first = next((line for line in lines if line.strip()), "")
    size = f"{counted(len(lines), 'line')} of {one_line(str(event.data.get('language')))}"
    return [f"  {size}: {one_line(first, 80)}"]


def _log(event: ClientEvent) -> list[str]:
    lines = [line for line in str(event.data.get("text", "")).splitlines() if line.strip()]
    return [f"  {one_line(line, 100)}" for line in lines[-LOG_LINES:]]


def _status(event: ClientEvent) -> list[str]:
    """Return that a program is starting, or how long its phases took."""
    if event.data.get("status") == "exec":
        return ["  … starting"]
    timings = event.data.get("timings")
    timings = timings if isinstance(timings, Mapping) else {}
    if not isinstance(timings.get("start"), int | float):
        return []
    parts = (("started in", "start"), ("ran for", "exec"), ("collected in", "collect"))
    said = [f"{words} {render_duration(ms)}" for words, name in parts if (ms := timings.get(name) or 0)]
    return [f"  {', '.join(said)}"] if said else []


def _emitted(event: ClientEvent) -> list[str]:
    said = json.dumps(event.data.get("data", {}), ensure_ascii=False)
    return [f"  {one_line(str(event.data.get('type')))}: {one_line(said, 100)}"]


def _found(event: ClientEvent) -> list[str]:
    queries = ", ".join(map(str, _list(event, "queries")))
    return [f"  {counted(len(_list(event, 'results')), 'result')} for {one_line(queries, 100)}".rstrip()]


def _pages(event: ClientEvent) -> list[str]:
    rows = [row for row in _list(event, "results") if isinstance(row, Mapping)]
    refused = [
        f"  {one_line(str(row.get('url')), 80)}: {one_line(str(row.get('status')), 40)}"
        for row in rows
        if "sid" not in row
    ]
    return [f"  {len(rows) - len(refused)} of {counted(len(rows), 'page')} read", *refused]


def _asked(event: ClientEvent) -> list[str]:
    """Return an approval request with the whole call: the user must see everything that they allow."""
    data = event.data
    params = json.dumps(data.get("params", {}), ensure_ascii=False, indent=2)
    whole = [*params.splitlines(), *str(data.get("code") or "").splitlines()]
    ways = "approve, deny or edit" if data.get("editable") else "approve or deny"
    until = f", expires {one_line(str(data.get('until')))}" if data.get("until") else ""
    return [
        f"? Allow {_tool(event)}?",
        *(f"  {clean(line)}" for line in whole),
        f"  {ways} {one_line(str(data.get('call_id')))}{until}",
    ]


def _settled(event: ClientEvent) -> list[str]:
    data = event.data
    said = f": {one_line(str(data.get('text')))}" if data.get("text") else ""
    edited = f" runs with {_params(data.get('params'))}" if data.get("edited_call_id") else ""
    verdict = one_line(str(data.get("verdict")))
    client = f" by {one_line(str(data.get('client')))}" if data.get("client") else ""
    return [f"· {_VERDICTS.get(verdict, verdict)}{client}: {_tool(event)}{edited}{said}"]


_VERDICTS: Final[Mapping[str, str]] = {"withdrawn": "cancelled, you interrupted the turn first"}


def _rated(event: ClientEvent) -> list[str]:
    data = event.data
    word = "removed" if data.get("withdrawn") else one_line(str(data.get("reaction") or "said"))
    said = f": {one_line(str(data.get('text')))}" if data.get("text") else ""
    return [f"☆ {one_line(str(data.get('origin')))} on {one_line(event.turn_id)}, {word}{said}"]


def _compaction(event: ClientEvent) -> list[str]:
    data = event.data
    if event.status == "started":
        return ["… summarizing earlier turns, to make room"]
    if event.status != "completed":
        reason = one_line(str(data.get("reason") or ""))
        return [f"… nothing was summarized: {reason}" if reason else "… nothing was summarized"]
    before, left = (one_line(str(data.get(name, 0))) for name in ("before_tokens", "after_tokens"))
    return [f"… summarized earlier turns: from {before} to {left} tokens"]


def _nothing(_: ClientEvent) -> list[str]:
    return []


_LINES: Final[Mapping[str, Callable[[ClientEvent], list[str]]]] = {
    "react.tool.call": _call,
    "react.tool.result": _result,
    "react.tool.rejected": _rejected,
    "solver.react.decision": _decision,
    "round.restarted": _restarted,
    "round.waiting": _waiting,
    "approval.requested": _asked,
    "approval.answered": _settled,
    "chat.sources": _sources,
    "chat.files": _files,
    "react.tool.event": _emitted,
    "web_search.filtered_results": _found,
    "web_fetch.results": _pages,
    "code_exec.code": _program,
    "code_exec.log": _log,
    "code_exec.status": _status,
    "react.plan": _plan,
    "chat.compaction": _compaction,
    "chat.step": _step,
    "turn.feedback": _rated,
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
