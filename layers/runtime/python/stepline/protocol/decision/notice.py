"""Notices of the protocol to the model: every code, and the function that makes a notice."""

from __future__ import annotations

from typing import Any

from stepline.model.decision import Notice

NOTICES: dict[str, str] = {
    # the shape of the generation
    "decision_missing_protocol_channels": "refused: text without any channel",
    "decision_preamble_before_first_channel": "text before the first channel; refused if strict or if it is long, else dropped",
    "decision_first_channel_not_thinking": "the first channel is not `thinking`; refused if strict, else tolerated",
    "generation_truncated": "a limit or an error cut the generation; refused unless the decision is whole",
    "text_outside_channels": "tolerated: text between or after channels was dropped",
    "unknown_channel": "tolerated: a channel that does not exist was dropped",
    "channel_not_closed": "tolerated: a channel opened before the one before it was closed",
    # the JSON of the decision
    "action_schema_error": "refused: no decision",
    "no_json_candidate": "refused: the decision channel holds no JSON object",
    "multi_decision_in_one_channel": "refused: one channel holds several JSON objects; if the second is broken, the first counts",
    "json_decode_error": "refused: the decision is not JSON",
    "decision_repaired": "tolerated: broken JSON that was mended, of an answer; of a call only if not strict",
    "decision_validate_error": "refused: a field of the decision has the wrong type",
    # the content of the decision
    "invalid_action": "refused: `action` is none of call_tool, complete, exit",
    "final_answer_required": "refused: complete or exit without a final_answer",
    "tool_call_with_final_answer": "refused: complete or exit with a tool_call",
    "final_answer_with_tool_call": "tolerated: call_tool with a final_answer; the tool runs, the answer is dropped",
    "final_answer_with_notes": "tolerated: complete or exit with notes that are no plan marks; they are dropped",
    "suggested_followups_dropped": "tolerated: suggested_followups holds something else than texts",
    "citation_unreadable": "tolerated: a citation in the notes or the answer is none that can be read; it is left out",
    "identity_not_first": "tolerated: action and tool_id are not written before what is long",
    "staging_invalid": "tolerated: show_artifacts or show_skills names what is none; it is left out",
    "staging_too_many": "tolerated: more than a round stages; the first ones count",
    "staging_with_answer": "tolerated: show_artifacts or show_skills beside an answer; they are dropped",
    "value_invalid": "refused: complete without a value that fits the agent's result type",
    "value_dropped": "tolerated: in the last round a value that does not fit; the answer counts as exit",
    "last_round_requires_answer": "refused: call_tool in the last round",
    "answer_kept_from_stream": "the decision was refused, but its answer had reached the user and stands",
    # the workspace
    "workspace_publish_failed": "no slip: the project of an earlier turn is not saved in its git history yet; the end of this turn tries again",
    # the tool call
    "missing_tool_id": "refused: call_tool without a tool_call.tool_id",
    "unknown_tool_id": "refused: there is no such tool; an old name is answered with the new one",
    "tool_not_allowed_in_react": "refused: the tool is there for generated code only",
    "bad_params": "refused: the parameters break the tool's schema, unknown ones included",
    "path_not_first": "refused: `path` must be the first parameter",
    "channel_not_second": "refused: `channel` must be the second parameter",
    "content_not_third": "refused: `content` must be the third parameter",
    "patch_not_third": "refused: `patch` must be the third parameter",
    "kind_not_fourth": "refused: `kind` must be the fourth parameter",
    "params_out_of_order": "refused: the parameters are not in the tool's documented order",
    "params_not_as_documented": "tolerated: the parameters are not in the order of the tool's card, which nothing depends on here",
    "protocol_violation.param_ref_not_visible": "refused: a parameter `ref:<path>` that cannot be bound; `violations` says which, by its code",
    "protocol_warning.ref_path_normalized": "tolerated: a reference by a physical path, or one below the turn; it runs with the logical path",
    "missing_contract": "refused: a call that runs code without a contract",
    "invalid_contract": "refused: the contract of a call that runs code is no list of objects, nor JSON text of one",
    "code_channel_without_single_exec": "program text without one call that runs it; refused for call_tool, else dropped",
    "code_channel_missing": "refused: a call that runs code without a program right behind it",
    # several actions in one round
    "multi_action_bundle_too_many_actions": "refused: the round has as many actions as it may have",
    "multi_action_bundle_invalid_item": "refused: a decision beside others does not say what it is",
    "multi_action_bundle_strategy_incompatible": "refused: it may depend on what an earlier action of the round returns",
    "multi_action_bundle_final_answer_after_non_neutral": "refused: an answer behind an action that is not neutral",
    "multi_action_bundle_non_neutral_after_final_answer": "refused: an action that is not neutral behind an answer",
    "multi_action_bundle_mixed_actions": "refused: an answer beside a call, in mode `read_write_search`",
    "multi_action_bundle_unsafe_tool": "refused: a second program; in mode `read_write_search` also a tool that is not on its list",
    "multi_action_bundle_duplicate": "refused: the same call as an earlier one of the round",
    "multi_action_bundle_same_file_collision": "refused: an earlier action of the round writes the same file",
    "multi_action_bundle_render_consumes_same_round_source": "refused: it uses a file that an earlier action of the round writes",
}

NOTHING_RAN = "Nothing ran."
MISPLACED = "code_channel_without_single_exec"
MESSAGE_CHARS_MAX = 900
_FACT_CHARS_MAX = {"raw_preview": 600, "parser_error": 500, "preamble_preview": 900}
_FACT_CHARS = 1800


def make_notice(code: str, message: str, **facts: Any) -> Notice:
    """Return a notice within its size limits. Raises ValueError for a code that is not in `NOTICES`."""
    if code not in NOTICES:
        raise ValueError(f"unlisted notice code {code}")
    extra = {
        key: cap(value, _FACT_CHARS_MAX.get(key, _FACT_CHARS)) if isinstance(value, str) else value
        for key, value in facts.items()
        if value is not None
    }
    return Notice(code=code, message=cap(message, MESSAGE_CHARS_MAX), extra=extra)


def unsaved_notices(turn: str) -> tuple[Notice, ...]:
    """Return the notice that the project of `turn` has no version in the git history yet; none for ""."""
    message = "The project of this turn is not in its git history yet. Its files stay readable; the end of this turn tries again."
    return (make_notice("workspace_publish_failed", message, turn_id=turn),) if turn else ()


def cap(text: str, chars_max: int) -> str:
    """Return `text`, cut at the limit with the number of missing characters."""
    if len(text) <= chars_max:
        return text
    tail = f"… [{len(text)} chars]"
    return text[: chars_max - len(tail)] + tail
