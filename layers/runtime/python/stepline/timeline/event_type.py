"""The types of client events: the table that the reference page and the routes come from."""

from __future__ import annotations

from typing import Final, NamedTuple


class EventType(NamedTuple):
    """One row of the reference: an event's type, the family a client binds to, its cause, and its data."""

    type: str
    route: str
    cause: str
    data: str


TABLE: Final = (
    EventType(
        "chat.conversation.accepted",
        "chat_step",
        "a message stands in the log",
        "`message_id`, `kind` (`prompt`, `followup`, `steer`, `event`), `text`, `chars`",
    ),
    EventType(
        "chat.start",
        "chat_start",
        "a turn begins",
        "`turn_id`, `prompts` (numbers of the events that opened it)",
    ),
    EventType(
        "solver.react.decision",
        "chat_step",
        "the model decided; settles the delta stream `claim`",
        "`claim`, `iteration`, `action`, `accepted`, `notes`, `tools` (`tool_id`, `call_id`), `interrupted`",
    ),
    EventType(
        "react.tool.call",
        "chat_service",
        "an accepted action is about to run",
        "`tool_id`, `call_id`, `iteration`, `params` (strings up to 120 characters; bodies as `{chars}`)",
    ),
    EventType("react.tool.rejected", "chat_service", "a decision broke the protocol", "`iteration`, `code`"),
    EventType(
        "react.notice", "chat_service", "the runtime corrected an accepted decision", "`iteration`, `code`"
    ),
    EventType(
        "round.restarted",
        "chat_step",
        "another attempt takes the round: drop what streamed under an older claim",
        "`claim`, `iteration`, `attempt`",
    ),
    EventType(
        "react.tool.result",
        "chat_service",
        "an action ended",
        "`tool_id`, `call_id`, `iteration`, `status` (`ok`, `error`, `unverified`), `duration_ms`, `paths`, `preview` "
        "(600 characters), `code` if it failed",
    ),
    EventType(
        "react.tool.event",
        "chat_service",
        "a tool told the user something on its way",
        "`tool_id`, `call_id`, `type` (the tool's own word), `data`",
    ),
    EventType(
        "code_exec.objective",
        "chat_step",
        "a program is about to run",
        "`execution_id`, `text`: what it is for",
    ),
    EventType("code_exec.program.name", "chat_step", "a program is about to run", "`execution_id`, `text`"),
    EventType(
        "code_exec.code",
        "chat_step",
        "a program is about to run",
        "`execution_id`, `language`, `text`: its source",
    ),
    EventType(
        "code_exec.contract",
        "chat_step",
        "a program is about to run",
        "`execution_id`, `contract` (`filename`, `description`, `visibility`)",
    ),
    EventType(
        "code_exec.status",
        "chat_step",
        "a program started, or its run ended",
        "`execution_id`, `status` (`exec`, `done`, `error`), `deadline` at the start, `timings` (`exec` in ms) and "
        "`error` (`code`) at the end",
    ),
    EventType(
        "react.plan",
        "chat_step",
        "a plan changed",
        "`plan_id`, `steps`, `status` (by step number), `current`, `open`",
    ),
    EventType(
        "chat.files",
        "chat_step",
        "an action wrote files for the user",
        "`count`, `items` (`logical_path`, `filename`, `mime`, `size_bytes`)",
    ),
    EventType(
        "chat.step",
        "chat_step",
        "`step` `deferred`: an answer was not the last word; `dropped`: an event belongs to no turn",
        "deferred: `iteration`, `answer`; dropped: `n`, `reason`",
    ),
    EventType(
        "chat.complete",
        "chat_complete",
        "the turn's end, with the recorded answer, which replaces streamed text",
        "`final_answer`, `answer`, `followups`, `suggested_followups`, `reason`",
    ),
    EventType("chat.error", "chat_error", "the turn's end without an answer", "`code`, `error`"),
)
TERMINAL: Final = frozenset({"chat.complete", "chat.error"})
ROUTES: Final = {row.type: row.route for row in TABLE}


def render_reference() -> str:
    """Return docs/reference/events.md."""
    rows = [f"| `{row.type}` | `{row.route}` | {row.cause} | {row.data} |" for row in TABLE]
    return "\n".join(
        [
            "# Client events",
            "",
            "Generated from `stepline/timeline/event.py`; a test keeps it in step.",
            "",
            "Durable events come in frames `{frame: events, conversation, n, prev, claim, events}`: all events of batch",
            "`n` of the log. Apply a frame if its `prev` is your cursor, and make `n` the cursor; drop it if `n` is not",
            "beyond the cursor; ask to resume if `prev` is. Each event is",
            "`{type, route, ts, turn_id, step, status, data}`. A turn ends with exactly one of "
            + " and ".join(f"`{kind}`" for kind in sorted(TERMINAL))
            + ".",
            "",
            "| type | route | when | data |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
