"""The standard form of entries, blocks and inbound events, and excerpts of their long texts.

Every function returns whole lines, each ended by a line break; their results in log order are the
timeline. A text depends on its own entry and on earlier ones, never on later ones.

The sender of an event, its kind, its files and its payload are lines of structure; its text is data. A header
that names the user means the user's client, unless the line `sent_by` says that a service sent the
event; an external event always has that line. Long values are cut, and the event's path leads to its whole content.

Everything that the model reads is bounded. Messages of user and model are shown up to `TEXT_BYTES`, results
of tools up to `RESULT_PREVIEW_CHARS`; a cut text says how much is missing, and its path leads to the whole text.
Source: docs/concepts/context.md#what-the-model-reads and #long-texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from stepline.model.block import Produced
from stepline.model.decision import FEEDBACK_CHARS, Action, LastingCall, Notice
from stepline.model.entry import Closed, Decided, Deferred, Feedback, Inbound, Opened, Resulted, SteeredEntry
from stepline.model.file.mime import is_media, is_text
from stepline.model.plan_steps import Plan
from stepline.model.usage import BYTES_PER_TOKEN, estimate_tokens
from stepline.model.wire.live_event import FOLLOWUP, PROMPT, STEER
from stepline.rendering.excerpt import BODIES, DICT_KEYS, LIST_ITEMS, render_shape
from stepline.rendering.piece import byte_length
from stepline.rendering.plan_text import count_done
from stepline.rendering.quote import INDENT, clean_for_prompt, clip, inline, inline_json, label, quote
from stepline.rendering.result import PARENT
from stepline.rendering.turn_facts import steer_path

RULE: Final = "━" * 38
ROUND_TOP: Final = ("┌──────── ROUND ", " ────────┐")
ROUND_BOTTOM: Final = "└────────────────────────┘"

UNPREVIEWED: Final = frozenset({"react.read"})
"""Tools that cap their own output."""

CODE_CHARS: Final = 200
EXTRA_CHARS: Final = 2_000
"""Maximum characters of a notice's extra facts, and of an error."""
FORKED_BYTES: Final = 900
"""Maximum bytes of the calls that a fork's first line lists: the whole line is carried through compactions."""
PLANS_SHOWN: Final = 4
EVENTS_SHOWN: Final = 8
"""Maximum events shown of those that came too late for a decision; the newest are shown."""
SOURCES_SHOWN: Final = 20
RAW_BYTES: Final = 6_000
"""Maximum bytes of an interrupted decision."""

TEXT_TOKENS: Final = 12_000
TEXT_BYTES: Final = int(TEXT_TOKENS * BYTES_PER_TOKEN)

LONG_CHARS: Final = 400
"""Longer strings are cut; so are bodies longer than `CONTENT_CHARS`."""
CONTENT_CHARS: Final = 100
PARAMS_CHARS: Final = 12_000
"""Maximum total characters of a call's parameters, as JSON."""

_STATUS: Final = {
    "ok": "ok",
    "error": "error",
    "unverified": "unverified: it may have happened; check before doing it again",
}
_ATTACHMENT: Final = "user.attachment"
_TYPE: Final = re.compile(r"[a-z0-9_.]{1,80}")


def render_opening(entry: Opened) -> str:
    """Render the header of a turn."""
    return f"\n{RULE}\nTURN {entry.turn} (started at {entry.at})\n{RULE}\n"


def render_round(entry: Decided, unseen: Sequence[str]) -> str:
    """Render the top of a round's frame.

    `unseen` are the paths of events that arrived while the model was generating.
    """
    late = f"[decided before it could read: {_newest(unseen)}]\n" if unseen else ""
    return f"\n{ROUND_TOP[0]}{entry.iteration + 1}{ROUND_TOP[1]}\n{late}"


def _newest(paths: Sequence[str]) -> str:
    earlier = [f"{len(paths) - EVENTS_SHOWN} earlier ones"] if len(paths) > EVENTS_SHOWN else []
    return ", ".join([*earlier, *paths[-EVENTS_SHOWN:]])


def render_thinking(text: str, path: str) -> str:
    """Render the model's thinking."""
    return f"[thinking]{_at(text, path)}\n{render_text(text, 'THINKING')}"


def render_notes(text: str, path: str) -> str:
    """Render the model's notes to the user."""
    if not is_short(text):
        return f"[AI Agent say]:{_at(text, path)}\n{render_text(text, 'NOTES')}"
    return f"[AI Agent say]: {render_text(text, 'NOTES')[len(INDENT) :]}"


def render_code(action: Action, turn: str) -> str:
    """Render the program of an action."""
    return f"[AI Agent wrote code] fi:{turn}.code.{action.call_id}\n{render_text(action.code or '', 'CODE')}"


def render_call(action: Action, turn: str) -> str:
    """Render one tool call. It names its path if not everything is shown."""
    params, whole = render_params(action.params)
    path = "" if whole else f"[path: tc:{turn}.{action.call_id}.call]\n"
    return f"[TOOL CALL {action.call_id}].call {action.tool_id}\n{path}Params: {params}\n"


def render_params(params: dict[str, Any]) -> tuple[str, bool]:
    """Return parameters as JSON on one line, and True if they are complete; cuts are counted in the text."""
    shown = {name: _cut(name, value) for name, value in islice(params.items(), DICT_KEYS)}
    text = inline_json(shown)
    whole = shown == params
    if len(text) > PARAMS_CHARS:
        return f"{text[:PARAMS_CHARS]}… [{len(text) - PARAMS_CHARS} more characters]", False
    return text, whole


def _cut(name: str, value: Any) -> Any:
    match value:
        case str():
            most = CONTENT_CHARS if name in BODIES and not value.startswith("ref:") else LONG_CHARS
            if len(value) <= most:
                return value
            return f"{value[:CONTENT_CHARS]}… [{len(value) - CONTENT_CHARS} more characters]"
        case dict():
            kept = {key: _cut(str(key), item) for key, item in islice(value.items(), DICT_KEYS)}
            return kept if len(kept) == len(value) else {**kept, "…": f"[{len(value) - len(kept)} more keys]"}
        case list():
            items = [_cut(name, item) for item in value[:LIST_ITEMS]]
            more = len(value) - len(items)
            return [*items, f"… [{more} more items]"] if more else items
        case _:
            return value


def render_edited(replaced: str, action: Action, turn: str) -> str:
    """Render the call that the user wrote to replace another one."""
    return f"[EDITED BY THE USER] instead of {replaced}, which was not run:\n{render_call(action, turn)}"


def render_raw(text: str, path: str) -> str:
    """Render the text of an interrupted decision, if it is not long."""
    where = "" if is_short(text, RAW_BYTES) else f" {path}"
    return f"[REACT DECISION RAW INTERRUPTED]{where}\n{render_text(text, 'RAW', RAW_BYTES)}"


def render_answer(text: str, path: str, number: int = 1) -> str:
    """Render the `number`-th answer of a turn."""
    counted = f"[completion: {number}]\n" if number > 1 else ""
    return f"\n[ASSISTANT MESSAGE]\n[path: {path}]\n{counted}{render_text(text, 'ASSISTANT MESSAGE')}"


def render_round_end() -> str:
    """Render the end of a round's frame."""
    return f"{ROUND_BOTTOM}\n"


def render_notice(notice: Notice, path: str, accepted: bool) -> str:
    """Render a correction by the runtime."""
    dropped = PARENT in notice.extra
    violation = not accepted or dropped or notice.code.startswith("protocol_violation.")
    header = "[PROTOCOL VIOLATION]" if violation else "[REACT NOTICE]"
    extra = f"extra: {_json(notice.extra)}\n" if notice.extra else ""
    message = render_text(notice.message, "NOTICE")
    return f"{header}\n[path: {path}]\ncode: {clip(notice.code, CODE_CHARS)}\nmessage:\n{message}{extra}"


def render_result_head(entry: Resulted) -> str:
    """Render the head of a result."""
    if entry.error and entry.error.get("code") == "steered" and not entry.blocks:
        return (
            f"[TOOL RESULT {entry.call_id}].result {entry.tool_id}\nstatus: not run, because of the steer\n"
        )
    error = f"error: {_json(entry.error)}\n" if entry.error else ""
    return f"[TOOL RESULT {entry.call_id}].result {entry.tool_id}\nstatus: {_STATUS[entry.status]}\n{error}"


def render_block(block: Produced, path: str, tool_id: str) -> str:
    """Render one block of a result: its path and its text, or the facts of a stored file."""
    if block.type == "react.notice":
        return f"[REACT NOTICE]\n[path: {path}]\n{render_text(block.text, 'NOTICE')}"
    where = f"logical_path: {inline(path)}\n"
    if block.body is not None:
        return f"{where}{_body(block, tool_id)}"
    most = READ_CHARS if tool_id in UNPREVIEWED else RESULT_PREVIEW_CHARS
    return f"{where}{render_result_text(block.text, path, most=most)}"


def shows_text(text: str, tool_id: str) -> bool:
    """Return True if all of a text is shown."""
    if not tool_id:
        return is_short(text)
    return len(text) <= (READ_CHARS if tool_id in UNPREVIEWED else RESULT_PREVIEW_CHARS)


def shows_call(action: Action) -> bool:
    """Return True if every parameter of a call is shown in full."""
    return render_params(action.params)[1]


def render_deferred(
    entry: Deferred,  # noqa: ARG001 - another form may use it
    path: str,
    unseen: Sequence[str],
) -> str:
    """Render why the turn continued after the answer above."""
    waiting = f"waiting: {_newest(unseen)}\n" if unseen else ""
    return (
        f"\n[ASSISTANT MESSAGE ATTEMPT OUTCOME]\n[path: {path}]\n"
        "The user has this message. The turn goes on, because of events that came before it was finished:\n"
        f"{waiting}"
    )


def render_takeover() -> str:
    """Render the message that the turn continues after an interruption."""
    return (
        "\n[SYSTEM MESSAGE]\nThe turn was interrupted and goes on from here; everything above is settled.\n"
    )


def render_forked(effects: Sequence[LastingCall]) -> str:
    """Render that the conversation goes on without what followed, except for these calls; "" for none."""
    if not effects:
        return ""
    rows: list[str] = []
    left = FORKED_BYTES
    for call in effects:
        title = f" {label(call.title)}" if call.title else ""
        row = f"{clip(call.tool, CODE_CHARS)}{title} {call.status}"
        left -= byte_length(row)
        if left < 0:
            break
        rows.append(row)
    more = f"; … {len(effects) - len(rows)} more" if len(effects) > len(rows) else ""
    return (
        "\n[FORKED] The conversation goes on from here without what followed. These calls followed, too, and are not "
        f"undone: {'; '.join(rows)}{more}\n"
    )


def render_closing(entry: Closed, plans: Sequence[Plan]) -> str:
    """Render the end of a turn: its outcome, its cost, and its `plans`: those that it changed and left open."""
    if entry.outcome == "error":
        title = f"error: {clip(entry.code, CODE_CHARS)}"
    else:
        title = f"{clip(entry.reason, CODE_CHARS)}; answer: ar:{entry.turn}.assistant.completion"
    return f"\n[TURN ENDED] {title}\n{_cited(entry)}{_budget(entry)}{_open_plans(plans)}"


def _cited(entry: Closed) -> str:
    sids = [cited.sid for cited in entry.citations]
    if not sids:
        return ""
    more = f", … {len(sids) - SOURCES_SHOWN} more" if len(sids) > SOURCES_SHOWN else ""
    return f"[sources_used: [{', '.join(map(str, sids[:SOURCES_SHOWN]))}{more}]]\n"


def _budget(entry: Closed) -> str:
    if not entry.rounds:
        return ""
    return f"[BUDGET] rounds={entry.rounds} elapsed={render_elapsed(entry.elapsed_ms / 1000)}\n"


def _open_plans(plans: Sequence[Plan]) -> str:
    if not plans:
        return ""
    rows = [
        f"plan_id={plan.plan_id}{' (current)' if plan.current else ''}: {count_done(plan)}\n"
        for plan in plans[-PLANS_SHOWN:]
    ]
    return f"[OPEN PLANS]\n{''.join(rows)}"


def render_elapsed(seconds: float) -> str:
    """Return a duration as `42s`, `2m15s` or `1h05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole // 60 % 60:02}m"


def render_note(block: Produced, path: str) -> str:
    """Render a note of the agent for itself."""
    return f"[INTERNAL NOTE]\n{_where(path)}{render_text(block.text, 'INTERNAL NOTE')}"


def render_stage(block: Produced, path: str, at: str) -> str:
    """Render a block of a bundle's code; of an attachment, its facts and the available text."""
    head = f"\n[ts: {at}]\n"
    if block.type.startswith(_ATTACHMENT):
        return f"{head}{_attachment(block)}\n{_where(path)}{_summary(block)}{_text(block)}"
    kind = block.type.removeprefix("stage.") if _TYPE.fullmatch(block.type) else "block"
    return f"{head}[STAGE] {kind}\n{_where(path)}{_text(block)}"


def _attachment(block: Produced) -> str:
    meta = block.meta
    name = clip(str(meta.get("name") or meta.get("filename") or ""), 200)
    mime = clip(block.body.mime if block.body else str(meta.get("mime", block.mime)), 100)
    text = " TEXT" if block.type == f"{_ATTACHMENT}.text" else ""
    return f"[USER ATTACHMENT{text}] {name} | {mime}"


def render_feedback(entry: Feedback, path: str) -> str:
    """Render a feedback on a turn's answer, or that it was withdrawn."""
    header = "[USER FEEDBACK]" if entry.origin == "user" else "[AUTO FEEDBACK]"
    text = f"{fit_text(entry.text, FEEDBACK_CHARS)}\n" if entry.text else ""
    return f"\n[ts: {entry.at}]\n{header}\n[path: {path}]\nreaction: {entry.word}\n{text}"


def _body(block: Produced, tool_id: str) -> str:
    """Return the facts of a stored file, whose content is not shown."""
    body = block.body
    assert body is not None
    hidden = "visibility: internal\n" if block.meta.get("visibility") == "internal" else ""
    facts = f"mime: {clip(body.mime, 100)}\nsize_bytes: {body.size_bytes}\n{hidden}"
    if tool_id in UNPREVIEWED:
        about = block.meta.get("media")
        return f"{facts}{_attached(about) if isinstance(about, dict) else '[BINARY FILE NOT ATTACHED]'}\n"
    readable = is_text(body.mime) or is_media(body.mime)
    return f"{facts}content: stored, not shown here{'; react.read shows it' if readable else ''}\n"


def _attached(about: dict[str, Any]) -> str:
    """Return the line that represents a picture or a PDF; it never changes, even if a request no longer has the file."""
    scaled = f", scaled down from {about['original']}" if about.get("original") else ""
    first = ", the first frame" if about.get("animated") else ""
    return (
        f"[FILE ATTACHED] {about['extent']}{scaled}{first}; seen behind the timeline while it is one of the two "
        "newest, and after that when it is read again"
    )


def _summary(block: Produced) -> str:
    summary = clip(str(block.meta.get("summary") or ""), EXTRA_CHARS)
    return f"summary: {summary}\n" if summary else ""


def _text(block: Produced) -> str:
    if block.body is not None:
        return _body(block, "")
    return render_text(block.text, "BLOCK") if block.text else ""


def _where(path: str) -> str:
    return f"[path: {inline(path)}]\n" if path else ""


def _at(text: str, path: str) -> str:
    """Return the path of a text that is not shown whole."""
    return "" if is_short(text) else f" {path}"


def _json(value: dict[str, Any]) -> str:
    text = inline_json(value)
    return text if len(text) <= EXTRA_CHARS else f"{text[:EXTRA_CHARS]}…"


SOURCE_CHARS: Final = 120
MIME_CHARS: Final = 100

_HEADERS: Final = {FOLLOWUP: "[FOLLOWUP DURING TURN]", STEER: "[STEER DURING TURN]"}
_CUT_SHORT: Final = {
    "": "",
    "decision": " The decision you were writing was cut off, and nothing of it counts.",
    "tools": " The calls above that say so were not run.",
}
_STOPPED_SHORT: Final = {
    **_CUT_SHORT,
    "decision": " Of the decision you were writing only what they had seen of an answer counts.",
}


def render_prompt(
    event: Inbound, path: str, carried: str = "", files: Sequence[str] = (), most: int = TEXT_BYTES
) -> str:
    """Render an event that opened the turn; `carried` is its path in the previous turn, if it arrived there."""
    header = "[USER MESSAGE]" if event.event in (PROMPT, FOLLOWUP) else _external(event)
    origin = f"[carried over from: {carried}]\n" if carried else ""
    return f"\n[ts: {event.at}]\n{header}\n[path: {path}]\n{origin}{_event_lines(event, files, 'USER MESSAGE', most)}"


def render_event(event: Inbound, path: str, files: Sequence[str] = (), most: int = TEXT_BYTES) -> str:
    """Render an event that arrived during a turn or between turns; `files` are the paths of its files."""
    header = _HEADERS.get(event.event) or _external(event)
    return f"\n[ts: {event.at}]\n{header}\n[path: {path}]\n{_event_lines(event, files, 'EVENT', most)}"


def render_steered(entry: SteeredEntry) -> str:
    """Render the message about an applied steer: the interrupted work, and the remaining rounds."""
    asked = "steered" if entry.finalize else "said stop"
    rounds = "1 round" if entry.finalize == 1 else f"{entry.finalize} rounds"
    left = (
        f" Unless a later message lets the turn go on, it has {rounds} left: do what the steer says as far as they "
        "allow, and answer."
        if entry.finalize
        else " The turn ends here."
    )
    cut = (_CUT_SHORT if entry.finalize else _STOPPED_SHORT)[entry.phase]
    return f"\n[SYSTEM MESSAGE]\nThe user {asked} ({steer_path(entry)}).{cut}{left}\n"


def shows_event(event: Inbound) -> bool:
    """Return True if the whole content of an event is shown."""
    return is_short(event.text) and (not event.payload or render_params(event.payload)[1])


def _external(event: Inbound) -> str:
    return f"[EXTERNAL EVENT: {event.event}]"


def _sender(event: Inbound) -> str:
    """Return the line with the sender of an event, if its header does not name one."""
    if event.source:
        return f"sent_by: service {label(clip(event.source, SOURCE_CHARS))}"
    return "" if event.event in (PROMPT, *_HEADERS) else "sent_by: user"


def _event_lines(event: Inbound, files: Sequence[str], what: str, most: int) -> str:
    """Return the lines below an event's path: the facts, one per line, and the text in `most` bytes."""
    reactive = event.reactive or event.event in _HEADERS
    facts = [
        "" if reactive else "reactive: no",
        _sender(event),
        *(
            f"[USER ATTACHMENT] {path.rpartition('/')[2]} | {clip(file.mime, MIME_CHARS)} | {file.size_bytes} bytes | {path}"
            for file, path in zip(event.attachments, files, strict=True)
        ),
        f"payload: {render_params(event.payload)[0]}" if event.payload else "",
    ]
    return "".join(f"{fact}\n" for fact in facts if fact) + (
        render_text(event.text, what, most) if event.text else ""
    )


RESULT_PREVIEW_CHARS: Final = 12_000
READ_CHARS: Final = 200_000
"""Maximum characters of tools that cap their own output: more than any setting allows."""


def is_short(text: str, most: int = TEXT_BYTES) -> bool:
    """Return True if `render_text` shows all of a text."""
    return len(text) <= most // 4 or _length(quote(text)) <= most


def render_text(text: str, what: str, most: int = TEXT_BYTES) -> str:
    """Return a text as lines of data; a long one as beginning and end, after a banner named `what`."""
    quoted = quote(text)
    if len(text) <= most // 4 or _length(quoted) <= most:
        return f"{quoted}\n"
    first = _beginning(quoted, most - most // 4)
    last = _end(quoted, most // 4)
    left_out = max(0, len(quoted) - len(first) - len(last))
    return (
        f"[{what} PREVIEW TRUNCATED]\n{_facts(text)}{first.rstrip()}\n"
        f"...[truncated]: {left_out} characters left out; react.read shows all of it by its path\n"
        f"{INDENT}{last.strip()}\n"
    )


def render_result_text(text: str, path: str, *, most: int = RESULT_PREVIEW_CHARS) -> str:
    """Return a tool's text as lines of data, or a preview if it is longer than `most`."""
    if len(text) <= most:
        return f"{quote(text)}\n"
    start = text[:most]
    shape = render_shape(text)
    shown = f"shape:\n{quote(shape)}\npreview:\n" if shape else ""
    return (
        f"[{_banner(path)} PREVIEW TRUNCATED]\n{_facts(text)}visible_preview_chars: {len(start)}\n"
        f"preview_lines: 1-{start.count(chr(10)) + 1} of {text.count(chr(10)) + 1}\n{shown}{quote(start)}\n"
        f"...[truncated]: to go on, react.read this path from offset_text_symbols {len(start)}\n"
    )


def _banner(path: str) -> str:
    if not path.startswith("fi:"):
        return "TOOL RESULT"
    return "CODE" if ".code." in path else "ARTIFACT"


def _facts(text: str) -> str:
    return (
        f"full_text_chars: {len(text)}\nfull_text_bytes: {_length(text)}\n"
        f"tokens_estimate: {estimate_tokens(text)}\n"
    )


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _beginning(text: str, size: int) -> str:
    return text[:size].encode("utf-8", "surrogatepass")[:size].decode("utf-8", "ignore")


def _end(text: str, size: int) -> str:
    return text[-size:].encode("utf-8", "surrogatepass")[-size:].decode("utf-8", "ignore")


def fit_text(text: str, chars: int) -> str:
    """Return at most about `chars` characters of foreign text as lines of data, with a mark if it is cut."""
    cleaned = clean_for_prompt(text[: chars * 4])
    if len(cleaned) <= chars and len(text) <= chars * 4:
        return quote(text)
    return f"{quote(cleaned[: chars - 1].rstrip())}…"
