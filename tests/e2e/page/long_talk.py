"""A conversation of many turns imported instead of played, each turn with a call and an answer."""

from __future__ import annotations

import json

CALL = "tc_0123456789ab"


def move_in(stage, conversation, turns, folder):
    """Import a conversation with a number of turns for the user of a stage; return its name."""
    for at in range(turns):
        (folder / f"turn.log.{at}.json").write_text(json.dumps(turn_log(at)))
    words = ("import", f"{folder}", "--conversation", conversation, "--user", stage.user)
    stage.command(*words)
    return conversation


def turn_log(at):
    """Return the document of turn `at`, from 0."""
    moment = f"2026-02-01T{at // 60:02}:{at % 60:02}"
    turn = f"turn_{moment.replace('T', '-').replace(':', '-')}-00-001"

    def block(kind, author, text, path="", **meta):
        fields = {"type": kind, "author": author, "turn_id": turn, "ts": f"{moment}:00Z", "path": path}
        mime = "text/markdown" if isinstance(text, str) else "application/json"
        text = text if isinstance(text, str) else json.dumps(text)
        return {**fields, "mime": mime, "text": text, "meta": {"turn_id": turn, **meta}}

    params = {"paths": [f"ar:{turn}.user.prompt"]}
    called = {"tool_id": "react.read", "tool_call_id": CALL, "params": params, "ts": f"{moment}:00Z"}
    result = {"tool_call_id": CALL, "error": None, "ts": f"{moment}:00Z"}
    of_call = {"tool_call_id": CALL}
    return {
        "turn_id": turn,
        "ts": f"{moment}:00Z",
        "end_ts": f"{moment}:01Z",
        "blocks": [
            block("turn.header", "system", f"TURN {turn}"),
            block("user.prompt", "user", f"Question {at + 1}", f"ar:{turn}.user.prompt"),
            block(
                "react.round.start",
                "react",
                "thinking",
                f"ar:{turn}.react.round.start.{CALL}",
                **of_call,
                iteration=0,
                phase="decision",
            ),
            block("react.tool.call", "react", called, f"tc:{turn}.{CALL}.call", **of_call),
            block("react.tool.result", "react", result, f"tc:{turn}.{CALL}.result", **of_call),
            block(
                "assistant.completion", "assistant", f"Answer {at + 1}.", f"ar:{turn}.assistant.completion"
            ),
        ],
    }
