"""docs/reference/errors.md: the error classes from the code, and the meaning of each code."""

from __future__ import annotations

import re
from typing import Final

from docs.build import DOCS
from stepline import errors

PATH: Final = DOCS / "reference/errors.md"

CLASSES = {kind.__name__: kind for kind in errors.SteplineError.__subclasses__()}

CLIENT = {
    "bad_json": "the message is not JSON",
    "unknown_action": "`action` is none of `send`, `event`, `resume`, `ping`, `auth`",
    "bad_message": "a field is missing, unknown or malformed; the message names the first one",
    "message_too_large": "more than 131,072 bytes of UTF-8, of a message or of an event's text",
    "bad_event": "the event cannot be one: its kind, whether that is reactive, its text, or a payload that JSON would not bring back",
    "bad_timezone": "the `timezone` is no name of the IANA time zone database",
    "payload_too_large": "an event says more beside its text than may stand in the log",
    "too_many_attachments": "an event has more attachments than one may have",
    "attachments_too_large": "the text and the attachments of an event are too large together",
    "bad_attachment": "a reference to a file is malformed, or names another size than what is stored",
    "attachment_missing": "nothing is stored under an attachment's name: store it, then send the event again",
    "message_id_taken": "another service has sent an event of this `message_id` to the conversation: take another one",
    "unauthorized": "the connection is not known any more: connect again; or the ticket of an `auth` is not valid",
    "auth_expired": "the token behind the connection has expired; renew it by `auth`, or connect again",
    "not_found": "the conversation is somebody else's or, for `resume` and `ping`, not there",
    "resume_beyond_end": "`resume` names an event that the conversation does not have: forget what is known of it, and begin at 0",
    "rate_limited": "the user sends more messages a minute than the deployment allows; `retry_after_s` says when to go on",
    "busy": "the conversation was contended ten times in a row; send the same `message_id` again",
    "dependency": "a service we stand on failed for now; send the same `message_id` again",
    "unknown_outcome": "a write's answer was lost; send the same `message_id` again, it is admitted once",
    "batch_too_large": "what the message adds to the log cannot be made small enough",
    "state_too_large": "the state of the conversation outgrew its limit; a mistake of ours",
    "turn_not_found": "feedback on a turn that the conversation does not have",
    "turn_open": "feedback on a turn that has not ended",
    "body_mismatch": "a stored body is not what the log names",
    "limit_exceeded": "a frame is larger than the gateway takes",
    "internal": "a mistake of ours or of the deployment; the log of the function says which",
}
EVENT_SOURCE = {
    "bad_source": "the service's name may not stand in a key",
    "bad_user": "a user's name is printable ASCII of at most 256 characters",
    "bad_message_id": "an event's id may not stand in a key",
    "attachment_too_large": "a file is larger than an attachment may be",
    "another_role": "the process acts under another role already, and takes one only",
}
TERMINAL = {
    "context_limit": "the conversation does not fit into the model's window",
    "model_refused": "the provider refuses the request for good: credentials, billing, an unknown model",
    "model_declined": "the model refuses to answer what it was asked, and so does its fallback; the log's decision has the provider's category",
    "model_overloaded": "the provider sheds load, and the retries are used up",
    "model_rate_limited": "the provider limits our rate, and the retries are used up",
    "model_unreachable": "the model's service cannot be reached, and the retries are used up: its address, or the network",
    "model_timeout": "the model does not answer in time, and the retries are used up",
    "model_stream_broken": "the model's answer breaks off or is no answer, and the retries are used up",
    "model_protocol": "the model broke the protocol in every round, and said nothing that could be shown",
    "model_token_limit": "the same, and its output limit cut the last generation",
    "step_timeout": "a step ran out of time, and so did its retries",
    "step_failed": "a step failed in any other way, and so did its retries",
    "execution_lost": "the turn was taken over three times and its execution ended again",
}
AUTHORIZER = {
    "origin_not_allowed": "a browser of a site that is not in `STEPLINE_ALLOWED_ORIGINS`",
    "bad_tenant": "the token's tenant may not stand in a key; told as `unauthorized`",
    "bad_project": "the token's project may not stand in a key; told as `unauthorized`",
    "bad_conversation": "a conversation's name may not stand in a key",
    "issuer_unreachable": "the issuer's metadata or keys cannot be fetched",
}
MODEL_SERVICE = {
    "model_unavailable": "the provider answered with an error that may pass",
    "model_timeout": "the provider was silent for too long",
    "model_unreachable": "no connection to the provider",
    "stream_cut": "the answer ended before it was complete",
    "stream_malformed": "an event of the stream is none we know",
    "model_credentials": "no API key, or one the provider does not take",
    "secret_unreadable": "the secret with the API key cannot be read",
    "unknown_role": "neither the role nor `*` is mapped to a model",
    "unencodable_text": "the request holds text that is no Unicode",
}
TOOLS = {
    "tool_error": "the tool refuses, without a more precise code",
    "not_found": "nothing stands at this path",
    "steered": "the call was not run: the user steered before it was its turn",
    "turn_not_found": "the conversation has no such turn",
    "view_not_readable": "the path is a view; read what it shows",
    "ref_not_visible": "a [reference](tools.md#references) names no path, nothing stands there, or it is not in view",
    "ref_internal_not_visible": "a reference to an internal file, in a call that renders for the user",
    "ref_not_text": "a reference to bytes that are no text",
    "ref_not_bound": "the call was decided by an earlier release, which bound no references: call again",
    "sources_list_requires_sources_pool": "the parameter takes rows of the pool, `ref:so:sources_pool[…]`",
    "path_not_logical": "the text is no logical path; the error carries the one that was meant, if any",
    "family_not_available": "paths of this family cannot be read here",
    "body_missing": "the log names bytes that are gone from the store",
    "read_nothing_requested": "`react.read` without a path",
    "read_nothing_attached": "`react.read` shows nothing that was asked for: it is not there, or it is bytes; each row says why",
    "range_ambiguous": "lines and an offset were asked for at once",
    "range_outside": "the range begins behind the end of the text",
    "content_type_mismatch": "the name says that the file is no text, and what is written is one; `react.read` says it of a picture that is none",
    "content_not_utf8": "the content holds half of a surrogate pair",
    "scratchpad_requires_internal": "`scratchpad` goes with the channel `internal` only",
    "protocol_violation.plan_steps": "the mode needs steps",
    "protocol_violation.plan_target_required": "the mode needs a `plan_id`",
    "protocol_violation.plan_target_missing": "no open plan has this `plan_id`",
    "protocol_violation.write_extension_mismatch": "a warning: the file was written, but the canvas cannot draw its type",
    "plan_closed": "a notice: the plan is closed, as asked",
    "read_paths_missing": "a notice: some of the paths could not be read; each row of the status says why",
    "hide_nothing_named": "`react.hide` without a path",
    "hide_before_cache": "`react.hide`: it stands in the part of the prompt that is to stay cached",
    "hide_too_old": "`react.hide`: too much stands behind it",
    "hide_gains_nothing": "`react.hide`: the replacement is not shorter",
    "not_a_fi_ref": "only files can be pulled",
    "unresolvable_fi_ref": "the path names no file of a workspace",
    "output_pulls_require_exact_file_ref": "outputs are pulled one by one",
    "attachment_pulls_require_exact_file_ref": "attachments are pulled one by one",
    "invalid_path_empty": "`fetch_ctx`: an empty path",
    "invalid_path_literal": "`fetch_ctx`: a text without a family",
    "invalid_path_file": "`fetch_ctx`: files are not fetched; they lie below `OUTPUT_DIR`",
    "invalid_path_skill": "`fetch_ctx`: skills are for the agent, not for its programs",
    "invalid_path_kind": "`fetch_ctx`: a family that is not fetched",
    "invalid_path_tc": "`fetch_ctx`: no path of a call",
    "invalid_path_so": "`fetch_ctx`: no path into the source pool",
    "content_too_large": "more than 16 MiB are not taken whole; `react.read` shows a part, and a program finds files below `OUTPUT_DIR`",
    "content_not_text": "what stands there is no text; a program finds files below `OUTPUT_DIR`",
    "pull_paths_missing": "a notice: some of the paths could not be pulled; the result says why",
    "too_many_sources": "one call, or one run, brings at most 500 new sources",
    "knowledge_failed": "the documents that the bundle keeps cannot be searched or read now",
    "search_unavailable": "nothing can be looked up here, or the search engine does not answer now",
    "unverified": "the call was interrupted: it may have happened, or not, and is not run again",
}
PROGRAM = {
    "no_supervisor": "the socket is not there: tools can be called by the program of a run only",
    "connection_lost": "the supervisor hung up; the call may have been made",
    "reply_timeout": "no reply in time; the call may have been made",
}
BUNDLE = {
    "bundle_not_found": "there is no package of this name (`STEPLINE_BUNDLE`, `up --bundle`)",
    "bundle_invalid": "the package's `WORKFLOW` is no class made of `BaseWorkflow`, or functions could not call what it holds",
    "bundle_failed": "code of the bundle raises while `stepline up` tries it; file and line follow",
    "tools_module_not_found": "there is no module of this name",
    "tools_module_invalid": "the module has no `TOOLS`, or something among them is no tool",
    "skills_module_not_found": "there is no module of this name",
    "skills_module_invalid": "the module has no `SKILLS`, or something among them is no skill",
    "skill_invalid": "no path can name the skill, or two skills have one path",
    "tool_id_taken": "two tools of an agent have one name",
    "bad_payload": "a workflow is given a mapping with the user's message under `text`",
    "bad_message_id": "a message's id may not stand in a key",
    "bad_block": "what a bundle contributes or announces is no block, or not at a path of its own",
    "turn_not_open": "there is no open turn to contribute to",
    "announce_too_large": "more than 12 lines, or one of more than 400 characters, are announced",
    "invalid_path_empty": "`fetch_ctx`: the path is empty",
    "invalid_path_literal": "`fetch_ctx`: the path has no family",
    "invalid_path_kind": "`fetch_ctx`: there is no such family, or the path breaks its grammar",
    "invalid_path_ar": "`fetch_ctx`: the path breaks the grammar of `ar:`",
    "invalid_path_tc": "`fetch_ctx`: the path breaks the grammar of `tc:`",
    "invalid_path_so": "`fetch_ctx`: the path breaks the grammar of `so:`",
    "invalid_path_file": "`fetch_ctx`: the path breaks the grammar of `fi:`",
    "invalid_path_skill": "`fetch_ctx`: the path breaks the grammar of `sk:`",
    "content_too_large": "`fetch_ctx`: more than 16 MiB are not taken whole",
    "tool_failure": "`fetch_ctx`: what stands there cannot be had now",
}
LOCAL = {
    "needs_extra": "the command line's packages are not installed; the message says how to have them",
    "usage": "a command is not used as it can be; nothing was done, and the exit code is 2",
    "not_running": "the local stage is deployed and does not run",
    "not_writable": "a file cannot be written where `--out` says",
    "bad_setting": "a variable's value cannot be read",
    "api_unreachable": "the HTTP API gives no ticket; the connection goes on, and is replaced when its token expires",
    "socket_unreachable": "the websocket cannot be opened, or broke and does not come back",
    "no_answer": "the server did not answer in time",
    "turn_silent": "an open turn has said nothing for longer than an execution may take; it is not waited for any more",
    "gateway": "the gateway answered in words of its own: a function behind it failed",
    "local_exec": "programs cannot run here in the mode that was asked for; the message says what stands in the way",
    "local_install": "packages of the local stage could not be installed; the last lines follow",
    "local_image": "the image of programs could not be built; its last line follows",
    "local_deploy": "the deployment on the emulator failed; its last lines follow",
    "local_service": "a service of the local stage did not start, its last lines follow; or had to be killed",
    "function_not_found": "the stage has no function of this name; the message lists those it has",
    "conversation_not_found": "the stage has no such conversation",
    "not_deployed": "nothing is deployed here under that name; the message has the command that does it",
    "no_token": "a deployed stage asks for a token, and none was given or the token command printed none",
    "not_confirmed": "a question was asked where nobody can type; `--yes` answers it",
    "bad_stage": "what `--stage` says names no stage in AWS",
    "bad_choice": "what `-c` says is no `key=value`, or no choice of a stage",
    "cloud_account": "nobody is signed in to AWS, or not where the stage is",
    "cloud_deploy": "a step of a deployment or a teardown failed; the message names the next command",
    "smoke_failed": "the deployed stage stands, but the turn that tried it did not complete",
}
NEVER_TOLD = {
    "task_not_started": "ECS was throttled, failed or had no room for a task; the state machine tries again, and then the program is told `fargate_run_failed`",
    "bad_redis_url": "`STEPLINE_REDIS_URL`, or the secret in its place, is no URL of Redis that we take; it is logged, and everything works without Redis",
    "redis_unreachable": "Redis does not answer; it is logged, and everything works without it",
    "corpus_unreadable": "the collection of documents cannot be read, or a line of it; told as `search_unavailable`",
    "grant_refused": "the store refuses a task's right to an object; the run's own code says what that did to it",
    "not_granted": "a task has no right to put this object; no tool that programs call puts any",
    "invalid_path": "every refused path has a more precise code",
    "format_newer": "a batch, a step or a frame is of a release after this one; the state machine tries again, a client has to be updated",
    "fenced": "another attempt owns the step; the next attempt finds its result",
    "gone": "the connection is closed; its subscription is dropped",
}


def fates() -> dict[str, tuple[str, str]]:
    """Return the meaning and the handling of each class, from the module's docstring."""
    rows = re.findall(r"[├└]── (\w+) +(.+?) +→ (.+)$", errors.__doc__ or "", re.MULTILINE)
    return {kind: (meaning, fate) for kind, meaning, fate in rows}


def render() -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Errors",
            "",
            "Generated by `make docs`; a test keeps it in step with the source.",
            "",
            "Every error of ours is one of these classes, one level below `SteplineError`. Step Functions retries by the",
            "class's name; clients and the model read the `code`. Both are stable, messages are not. A class has a code of",
            "its own, and an error may carry a more precise one.",
            "",
            *_classes(),
            *_group(
                "What a client is told",
                "In an [`error` frame](messages.md#error), the answer to one message. The connection stays open.",
                CLIENT,
            ),
            *_group(
                "What a service is told",
                "As the `code` of an error that [submitting an event](../how-to/send-events.md) raises, besides the codes above.",
                EVENT_SOURCE,
            ),
            *_group(
                "How a turn fails",
                "In the terminal event [`chat.error`](events.md). The prompt stays in the conversation; a client offers to send "
                "it again under a new `message_id`.",
                TERMINAL,
            ),
            *_group(
                "Why a connection is refused",
                "The gateway answers 401 or 403 and no more; the code stands in the authorizer's log, beside `unauthorized` and "
                "`auth_expired`. Where nobody can tell now (`issuer_unreachable`, `dependency`) it answers 500: come again.",
                AUTHORIZER,
            ),
            *_group(
                "What the model's service did",
                "In the logs of `decide`. They are tried again or close the turn, by their class.",
                MODEL_SERVICE,
            ),
            *_group(
                "What the model reads",
                "As the result of a call, which it can mend. Refused paths have the codes of [paths](paths.md#what-is-refused), "
                "refused decisions those of [channels](channels.md#notices), runs those of [execution](execution.md#errors).",
                TOOLS,
            ),
            *_group(
                "What a program reads",
                "As a `ToolCallError` of its call; the rest is in [the executor's protocol](executor-protocol.md#order-of-checks).",
                PROGRAM,
            ),
            *_group(
                "What the code of a bundle is told",
                "While its agent is built, and by what it calls; [how to write one](../how-to/write-a-bundle.md).",
                BUNDLE,
            ),
            *_group("What the command line says", "On a developer's machine.", LOCAL),
            *_group("What nobody is told", "", NEVER_TOLD),
        ]
    )


def _classes() -> list[str]:
    rows = [
        f"| `{kind}` | `{CLASSES[kind].code}` | {'yes' if CLASSES[kind].retryable else 'no'} | {meaning} | {fate} |"
        for kind, (meaning, fate) in fates().items()
    ]
    return ["| class | code | retried | means | fate |", "|---|---|---|---|---|", *rows, ""]


def _group(title: str, lead: str, rows: dict[str, str]) -> list[str]:
    text = [lead, ""] if lead else []
    return [
        f"## {title}",
        "",
        *text,
        "| code | means |",
        "|---|---|",
        *(f"| `{code}` | {m} |" for code, m in rows.items()),
        "",
    ]
