"""docs/reference/parity.md: the terms of the design, each with its module and its test.

A term is `done` if it is implemented and tested, `partial` if a part of it is (the note names the rest),
`planned` otherwise. For the first two the module must contain the word and the test file must exist. A name that
differs here stands in a table of its own, with the reason.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, NamedTuple

from docs.build import DOCS

PATH: Final = DOCS / "reference/parity.md"

Status = Literal["done", "partial", "planned"]


class Term(NamedTuple):
    """One row. `module` is below `stepline/` and holds `word`; `test` is below `tests/`."""

    term: str
    status: Status
    module: str = ""
    word: str = ""
    test: str = ""
    note: str = ""


class Name(NamedTuple):
    """A name of the design, and the one it has here: `module` holds `word`."""

    old: str
    new: str
    module: str
    word: str
    reason: str


def done(term: str, module: str, word: str, test: str, note: str = "") -> Term:
    return Term(term, "done", module, word, test, note)


def partial(term: str, module: str, word: str, test: str, note: str) -> Term:
    return Term(term, "partial", module, word, test, note)


def planned(term: str, note: str = "") -> Term:
    return Term(term, "planned", note=note)


_DECISION: Final = "unit/protocol/decision/test_read_decision.py"
_CHANNEL: Final = "unit/protocol/parser/test_channel_parser.py"
_VIEW: Final = "unit/timeline/test_view.py"
_RENDER: Final = "unit/context/test_request.py"
_ANNOUNCE: Final = "unit/context/test_announce.py"
_EVENT: Final = "unit/events/test_derive.py"
_PATH: Final = "unit/model/test_path.py"
_READ: Final = "unit/tools/read/test_read.py"
_PLAN: Final = "unit/tools/test_plan_tool.py"
_WRITE: Final = "unit/tools/test_write.py"
_PROTOCOL: Final = "contract/test_log_protocol.py"
_SETTINGS: Final = "unit/test_settings.py"
_EXECUTOR: Final = "contract/test_executor.py"

AREAS: Final[dict[str, tuple[Term, ...]]] = {
    "The loop": (
        done("one agent, one loop, no planner and no gate", "loop/decide.py", "def decide", _PROTOCOL),
        done("`AI_REACT_MAX_ITERATIONS`, 15 if absent or not positive", "settings.py", "AI_REACT_MAX_ITERATIONS", _SETTINGS),
        done("`react.max_iterations` in bundle properties, then `ai.react.max_iterations`, then the variable", "bundle/overrides.py", "ROUND_CAP", "unit/bundle/test_overrides.py"),
        done("last round reserved for an answer", "protocol/decision/body.py", "last_round_requires_answer", _DECISION),
        done("single-action rounds", "protocol/decision/fanout.py", "TOO_MANY", "unit/protocol/decision/test_fanout_rules.py"),
        done("`AI_REACT_AGENT_MULTI_ACTION=safe_fanout`", "bundle/overrides.py", "MULTI_ACTION", "unit/loop/test_round.py"),
        done("`safe_fanout`: an independent write behind two searches", "protocol/decision/read.py", "_check_apart", "unit/protocol/decision/test_fanout_rules.py"),
        done("the older allow-list of `safe_fanout`", "protocol/decision/fanout.py", "read_write_search", "unit/protocol/decision/test_fanout_rules.py", "named `read_write_search`, after what it allows"),
        done("`AI_REACT_AGENT_VERSION` `v2` and `v3`", "bundle/overrides.py", "VERSION", "unit/loop/test_title.py"),
        done("protocol violations are notices the model reads next round", "protocol/decision/notice.py", "NOTICES", _DECISION),
        done("tools' names of earlier versions answer with the new one", "protocol/decision/call_check.py", "OLD_NAMES", _DECISION),
        done("parameters in their documented order: refused where they stream, else told", "protocol/decision/call_check.py", "def check_order", _DECISION),
        done("title of a new conversation, by a gate agent or from the working summary", "loop/title.py", "gate.simple", "unit/loop/test_title.py"),
        done("a turn whose rounds are used up answers with its status", "loop/close.py", "def status_answer", "unit/loop/test_status_answer.py"),
    ),
    "Events": (
        done("events stand in the timeline first", "ingress/admit.py", "Inbound", _PROTOCOL),
        done("`followup` folded into the open turn", "loop/close.py", "Deferred", _PROTOCOL),
        done("a round's start stands on the timeline while it is open", "timeline/turn_blocks.py", "react.round.start", "unit/timeline/test_turn_blocks.py"),
        done("a later `assistant.completion` replaces the answer; `.1`, `.2` for earlier ones", "timeline/view.py", "assistant.completion", _VIEW),
        done("`ar:<turn>.external.<kind>.<message>`", "rendering/turn_facts.py", "external.", _VIEW),
        done("`[LIVE TURN EVENTS]`", "context/announce.py", "LIVE TURN EVENTS", _ANNOUNCE),
        done("`steer`: the generation, tools and programs end, then a bounded finalize; without a text it stops", "loop/steer.py", "def heed", "unit/loop/test_event_phase.py"),
        done("`REACT_STEER_FINALIZE_ROUNDS`, `REACT_STEER_FINALIZE_MAX_TOKENS`", "loop/steer.py", "FINALIZE_TOOLS", "unit/loop/test_event_phase.py"),
        done("forms, wizards, alerts and any other event, reactive or not", "model/wire/live_event.py", "REACTIVE_KINDS", "unit/ingress/test_event_validation.py"),
        done("`iteration_credit`", "model/wire/live_event.py", "iteration_credit", "unit/ingress/test_event_validation.py"),
        done("events of other services, under a role of their own", "bootstrap/event_source.py", "def submit_event", "unit/bootstrap/test_event_source.py"),
    ),
    "Channels and streaming": (
        done("`<channel:NAME>` tags", "protocol/parser/grammar.py", "<channel:", _CHANNEL),
        done("`thinking`", "protocol/parser/grammar.py", 'ChannelSpec("thinking"', _CHANNEL),
        done("`ReactDecisionOutV2` with `call_tool`, `complete`, `exit`", "protocol/parser/grammar.py", "ReactDecisionOutV2", _DECISION),
        done("`code`, bound to the decision before it", "protocol/decision/program_channel.py", "bind_programs", "unit/protocol/decision/test_fanout_rules.py"),
        done("working summary as a channel", "protocol/parser/grammar.py", 'ChannelSpec("summary"', _DECISION),
        done("repeated channels are instances", "protocol/parser/transcript.py", "instance", _CHANNEL),
        done("`final_answer` streamed while the decision is generated", "protocol/stream/live_decision.py", "final_answer", "unit/loop/test_stream_generation.py"),
        done("suggested followups", "events/derive_close.py", "suggested_followups", _EVENT),
        done("answer, followup, usage and canvas channels of one's own", "bundle/generation/stream.py", "stream_with_channels", "unit/docs/test_stream_channels.py"),
        done("citation tokens replaced in the stream", "bundle/generation/shown_text.py", "CitationStream", "unit/bundle/generation/test_stream_with_channels.py"),
        done("field deltas of managed JSON artifacts", "bundle/generation/artifact_stream.py", "CompositeJsonArtifactStreamer", "unit/bundle/generation/test_artifact_stream.py"),
        done("channel subscribers", "bundle/generation/subscriber.py", "ChannelSubscribers", "unit/bundle/generation/test_stream_with_channels.py"),
        done("events derived from the log", "events/derive.py", "def derive", _EVENT),
        done("`chat.citations`, `chat.followups`, `accounting.usage`, `chat.turn.summary`", "events/derive_close.py", "def closing_events", "unit/events/test_derive_close.py"),
        done("`conv_status`", "events/types.py", "conv_status", "unit/events/test_derive_close.py"),
        done("an event filter that fails closed", "events/filter.py", "class EventFilter", "unit/events/test_event_filter.py"),
        done("`chat.compaction` on `chat_compaction`", "events/types.py", "chat.compaction", "unit/loop/test_make_room.py"),
    ),
    "Tools": (
        partial("`react.read`", "tools/read/run.py", "react.read", _READ, "families `ar tc fi ws so`; `sk ks` are refused as not available, and no `su` exists yet; pictures, PDFs and other bytes are named, never attached, and the row and the call say so"),
        done("`react.read` ranges, caps, `stats_only`", "tools/read/run.py", "stats_only", _READ),
        done("`react.write` with `canvas`, `timeline_text`, `internal`, `display`, `file`", "tools/write.py", "timeline_text", _WRITE),
        done("`scratchpad` notes (`react.note`)", "tools/write.py", "react.note", _WRITE),
        done("`[P] [D] [S] [A] [K]` tags of notes, kept behind a compaction", "context/summary_text.py", "read_note", "unit/context/test_summary_ledger.py"),
        done("`react.plan` with `new`, `replace`, `activate`, `close`", "tools/plan.py", "react.plan", _PLAN),
        planned("`react.patch`"),
        planned("`react.rg`"),
        done("`react.pull`", "tools/pull.py", "react.pull", "unit/tools/test_pull.py"),
        planned("`react.checkout`"),
        done("`react.hide`", "tools/hide.py", "react.hide", "unit/tools/test_hide.py"),
        planned("`react.memsearch`"),
        planned("`react.search_files`"),
        planned("`react.search_knowledge`"),
        partial("`web_tools.web_search`", "tools/web_search.py", "web_tools.web_search", "unit/tools/test_web_search.py", "over a collection of documents; no provider yet"),
        planned("`web_tools.web_fetch`"),
        done("tools of bundles", "bundle/parts.py", "def load_tools", "unit/docs/test_write_a_bundle.py"),
        planned("MCP tools"),
        done("`ref:<path>` in parameters of `react.write` and of external tools", "protocol/decision/reference.py", "def check_references", "unit/loop/test_referred_content.py", "but for a call that runs a program; bound with the decision, so that a retry gets the same"),
        done("large results shown by their beginning", "rendering/excerpt.py", "RESULT_PREVIEW_CHARS", _RENDER),
    ),
    "Timeline and context": (
        done("ordered blocks with logical paths", "timeline/turn_blocks.py", "class", _VIEW),
        done("`user.prompt`, `react.tool.call`, `react.tool.result`, `react.notice`, `react.notes`", "timeline/turn_blocks.py", "react.notes", _VIEW),
        done("`ws:<turn>.conv.working.summary`", "timeline/view.py", "conv.working.summary", _VIEW),
        done("path families `ar tc fi so su ws sk ks`", "model/path.py", "_PARSERS", _PATH),
        done("ANNOUNCE behind the last cache mark", "context/announce.py", "ANNOUNCE", _RENDER),
        done("cache points prev-turn, pre-tail and tail, and one for the system part", "context/request.py", "MARKS_MAX", _RENDER),
        done("`user_timezone`, and the time there", "context/announce.py", "user_timezone", _ANNOUNCE),
        done("SOURCES POOL, with a short text for rows that were cited", "context/announce.py", "def render_pool", "unit/context/test_announced_sources.py"),
        done("TTL pruning", "context/pruning.py", "def plan_pruning", "unit/loop/test_pruning.py"),
        done("`cache_ttl_seconds` in bundle properties, then `ai.react.cache_ttl_seconds`, then the variable", "bundle/overrides.py", "CACHE_TTL", "unit/bundle/test_overrides.py"),
        done("compaction (`conv.range.summary`), and of the earlier rounds of an open turn", "context/compaction.py", "def plan_room", "unit/context/test_compaction.py"),
        done("`covered_turn_ids` of a `conv.range.summary`", "timeline/turn_blocks.py", "covered_turn_ids", "unit/timeline/test_turn_blocks.py"),
        done("truncation limits of older turns", "rendering/reduce.py", "CLIP_BYTES", "unit/context/test_pruned_pieces.py"),
        done("`ar:<turn>.artifacts.summary`", "timeline/view.py", "artifacts.summary", "unit/timeline/test_turn_index.py"),
        done("`ar:<turn>.react.turn.index`", "timeline/view.py", "def render_turn_index", "unit/timeline/test_turn_index.py"),
        done("`conversation_order()` by truthful start times", "timeline/order.py", "def conversation_order", "unit/timeline/test_order.py"),
        done("`react.turn.finalize`, `react.state`, `react.exit`", "timeline/turn_blocks.py", "react.turn.finalize", "unit/timeline/test_turn_blocks.py"),
        done("`stage.gate`, `stage.react`", "timeline/turn_blocks.py", "stage.react", "unit/timeline/test_turn_blocks.py"),
        done("`user.attachment.meta`", "rendering/inbound.py", ".meta", "unit/rendering/test_inbound.py"),
        done("exports `artifact:conv.timeline.v1`, `artifact:conv:sources_pool`, `artifact:turn.log`", "timeline/export.py", "artifact:turn.log", "unit/timeline/test_export.py"),
        planned("skills (`sk:`)", "the path family is there"),
    ),
    "Plans": (
        done("snapshots with `plan_id`, `steps`, `status`, `origin_turn_id`, `last_turn_id`", "model/plan_steps.py", "origin_turn_id", _PLAN),
        done("marks ✓ ✗ … □ in the notes", "tools/plan.py", "parse_acks", _PLAN),
        done("`react.plan.ack`", "timeline/turn_blocks.py", "react.plan.ack", _VIEW),
        done("`ar:plan.latest:<plan_id>`", "model/path.py", "plan.latest", _VIEW),
        done("the last four open plans in ANNOUNCE, `(current)` marked", "context/announce.py", "PLANS_SHOWN", _ANNOUNCE),
        done("`react.plan.history` after compaction", "timeline/compacted.py", "def _plans", "unit/timeline/test_compacted.py"),
    ),
    "Execution of generated code": (
        done("supervisor and executor", "adapters/sandbox/tool_server.py", "SupervisorServer", _EXECUTOR),
        done("backends `docker` (split, combined) and `process`", "adapters/docker/command_line.py", "_plan_combined", _EXECUTOR),
        done("backend `fargate`", "loop/programs/remote.py", "execute_task", "contract/test_task_faults.py", "run in Docker and on the emulator, in no AWS account yet"),
        done("snapshots with manifests, restored in the task", "adapters/http_artifacts.py", "class GrantedArtifacts", "contract/test_depot.py"),
        done("heartbeat, budgets and partial outputs of a task", "loop/programs/make_outcome.py", "def conclude", "contract/test_task_faults.py"),
        done("orphaned tasks and secrets swept", "loop/programs/remote.py", "def sweep_tasks", "contract/test_task_faults.py"),
        partial("`EXEC_PAYLOAD_SECRET_ID`, `RUNTIME_GLOBALS_JSON`, `RUNTIME_TOOL_MODULES`", "model/program/handover.py", "EXEC_PAYLOAD_SECRET_ID", "contract/test_duty.py", "the first with our prefix, for a task; the others have no variables: what they would hold is in the parcel of the run"),
        done("`BUNDLE_ID`", "adapters/sandbox/payload.py", "bundle_id", _EXECUTOR, "made in `exec_task/executor/main.py`"),
        planned("`BUNDLE_ROOT`", "a program sees no file of its bundle: its jail has the workspace and Python only"),
        done("`WORKDIR`, `OUTPUT_DIR`, `EXECUTION_ID`, `AGENT_IO_CONTEXT`", "adapters/sandbox/payload.py", "exec_id", _EXECUTOR, "made in `exec_task/executor/main.py`"),
        done("result envelope `ok`, `artifacts`, `error`, `report_text`, `user_out_tail`, `runtime_err_tail`", "programs/outcome.py", "user_out_tail", "unit/programs/test_envelope.py"),
        done("`execution.runtime`: profiles, selection, precedence", "bootstrap/runtime_profile.py", "SELECTORS", "unit/bootstrap/test_runtime_profile.py"),
        done("five descriptors, `get_plain`, `get_secret`, `descriptor_payload_scope`", "bundle/descriptor_set.py", "get_secret", "unit/bundle/test_descriptor_set.py"),
        done("descriptors, `get_plain`, `get_secret` and the model for tools called in a round, as for those of programs", "loop/attempt.py", "services", "unit/loop/test_tool_services.py"),
        done("`fetch_ctx`", "tools/fetch.py", "fetch_ctx", _EXECUTOR),
    ),
    "Files": (
        done("`fi:<turn>.files/…` and `fi:<turn>.outputs/…`", "model/path.py", "files", _PATH),
        partial("attachments `fi:<turn>.user.attachments/<name>`, `…external.<kind>.attachments/…`", "model/path.py", "attachments", _PATH, "of events whose files a service stored; no upload by clients yet"),
        planned("`MODALITY_MAX_IMAGE_BYTES`, `MODALITY_MAX_DOC_BYTES`, `MESSAGE_MAX_BYTES`", "a websocket message has the gateway's limit"),
        planned("`APP_AV_SCAN` and the preflight of uploads"),
        planned("hosted URLs and resource names (`ef:`)"),
        planned("git workspaces"),
    ),
    "Citations and sources": (
        done("`[[S:1,3-5]]` tokens", "protocol/citation/citation_stream.py", "[[", "unit/protocol/citation/test_citation_stream.py"),
        done("`so:sources_pool[1,3-5]`", "tools/content.py", "sources_pool", "unit/tools/read/test_source_rows.py"),
        done("pool rows `sid`, `title`, `url`, `source_type`, `objective_relevance`, `published_time_iso`, `favicon_url`", "model/source.py", "objective_relevance", "unit/timeline/test_sources_pool.py"),
        done("numbers that never change, sources merged by their addresses", "timeline/sources_pool.py", "def merge_sources", "unit/timeline/test_sources_pool.py"),
        partial("images of attachments and programs as sources", "programs/returned_sources.py", "def run_sources", "unit/loop/test_returned_sources_logged.py", "those of programs and `react.write`, not those of attachments"),
        done("`sources_used` of answers, files, searches and turns", "timeline/turn_blocks.py", "sources_used", "unit/timeline/test_turn_blocks.py"),
    ),
    "Memory, knowledge, conversations, feedback": (
        planned("semantic, ordinal and temporal search of past turns"),
        partial("knowledge space (`ks:`), `on_bundle_load`, `pre_run_hook`", "tools/knowledge.py", "react.search_knowledge", "unit/bundle/test_parts.py", "by a bundle's functions; no index of our own"),
        partial("list of a user's conversations", "ports/log.py", "def conversations", "contract/test_log.py", "in the log's port; no HTTP endpoint"),
        planned("`POST …/fetch`, `…/turns-with-feedbacks`, `…/feedback/conversations-in-period`"),
        partial("feedback `ok`, `not_ok`, `neutral`, of users and machines", "ingress/feedback.py", "def submit_feedback", "unit/ingress/test_feedback.py", "recorded and shown to the model; no client sends one yet"),
    ),
    "At home on AWS": (
        done("any OpenID Connect issuer; a Cognito pool where none is named", "adapters/oidc.py", "token_use", "security/test_identity.py", "the pool is in `stacks/identity.py`"),
        done("`POST /v1/socket-tickets`", "ingress/access.py", "def issue_ticket", "handlers/test_api.py"),
        done("message `auth` renews a connection; expiry counts with every message and for listening", "model/wire/client_message.py", "class Auth", "unit/ingress/test_receive.py"),
        done("messages a minute for each user", "ingress/access.py", "rate_limited", "unit/ingress/test_receive.py"),
        done("`stepline deploy`, `destroy`, `doctor --aws`", "local/cloud/deploy.py", "def deploy", "unit/local/cloud/test_deploy_command.py"),
        done("formats carry a version", "model/batch.py", "format_newer", "e2e/test_deploy.py"),
    ),
    "Bundles": (
        partial("an agent bundle", "bundle/assembly.py", "def build_agent", "unit/bundle/test_parts.py", "by `STEPLINE_BUNDLE`; hooks in a process of one's own only"),
        done("`BaseWorkflow`, `build_react(scratchpad, tools_module, skills_module, knowledge_space_fn, knowledge_read_fn)`, `react.run`", "bundle/workflow.py", "class BaseWorkflow", "contract/test_workflow.py"),
        done("`ctx_browser`: `load_timeline`, `contribute`, `announce`, `timeline`, `persist_timeline`, `sources_pool`, `fetch_ctx`", "bundle/browser.py", "class ContextBrowser", "unit/bundle/test_browser.py"),
        planned("`ctx_client.search`, `store`, `hosting_service`"),
        done("`history_blocks`, `current_turn_blocks`, `event_blocks` of v2", "timeline/fold.py", "history_blocks", _VIEW),
        done("`stream_with_channels` for bundles", "bundle/generation/stream.py", "def stream_with_channels", "unit/bundle/generation/test_stream_with_channels.py"),
        partial("`tools_descriptor`, `skills_descriptor`", "bundle/parts.py", "def load_tools", "unit/bundle/test_parts.py", "`TOOLS` and `SKILLS`; no `SKILL.md` folders, no MCP"),
    ),
}  # fmt: skip


NAMES: Final = (
    Name(
        "a streaming endpoint, Socket.IO",
        "the messages `send`, `event`, `resume` of a websocket",
        "model/wire/client_message.py",
        "class Resume",
        "API Gateway holds the connection; a function that is idle costs nothing",
    ),
    Name(
        "`react.stream`, `react.file`",
        "`react.write`",
        "protocol/decision/call_check.py",
        "OLD_NAMES",
        "one tool with `channel` and `kind`; the older names are answered with the new one",
    ),
    Name(
        "`react.memory_read`",
        "`react.memsearch`, once there is one",
        "protocol/decision/call_check.py",
        "react.memsearch",
        "the name of the newer seeds",
    ),
    Name(
        "`react.completion`",
        "`assistant.completion`",
        "timeline/turn_blocks.py",
        "assistant.completion",
        "the name of the newer seeds",
    ),
    Name(
        "`show_artifacts`, `show_skills`",
        "`react.read`",
        "tools/read/run.py",
        "react.read",
        "a read stays in the timeline, so the instructions and what a cache holds do not change",
    ),
    Name(
        "coordinator, contract, slots",
        "`react.plan` and files in `outputs/`",
        "tools/plan.py",
        "react.plan",
        "one loop has no second agent to hand a contract to",
    ),
    Name(
        "`is_wrapup_round`",
        "the reserved last round",
        "protocol/decision/body.py",
        "last_round_requires_answer",
        "a rule of the protocol holds where an instruction may not",
    ),
    Name(
        "`time_evidence_reminder`",
        "`[AUTHORITATIVE TEMPORAL CONTEXT (GROUND TRUTH)]` of ANNOUNCE",
        "context/announce.py",
        "AUTHORITATIVE TEMPORAL CONTEXT",
        "a date in the system part would end its cache every day",
    ),
    Name(
        "turn session journal, operational digest, session log summary",
        "the rendered timeline, and `ar:<turn>.react.turn.index`",
        "timeline/view.py",
        "react.turn.index",
        "one text that only grows is cached; a digest made anew in each round is not",
    ),
    Name(
        "`TurnView` of an earlier turn",
        "the card of its working summary, or its rows",
        "rendering/render_reduction.py",
        "PRUNED TURN DATA",
        "a reduction replaces text that stands, and its paths lead to the whole",
    ),
    Name(
        "`TurnLog`",
        "`artifact:turn.log`",
        "timeline/export.py",
        "artifact:turn.log",
        "made from the log on demand, and stored only as a document for others",
    ),
    Name(
        "`TurnScratchpad`",
        "the mapping `scratchpad` of a workflow",
        "bundle/workflow.py",
        "scratchpad",
        "what has to last is in the log",
    ),
    Name(
        "`ReactContext`",
        "`Timeline`, and `ContextBrowser` for bundles",
        "bundle/browser.py",
        "class ContextBrowser",
        "a fold of the log has no state of its own to lose",
    ),
    Name(
        "`ReactRound`, `ReactSolver`, `ReactStateV2`",
        "`decide` and `act`, `React`, `State`",
        "loop/decide.py",
        "def decide",
        "a round is several steps of a state machine, in functions that remember nothing",
    ),
    Name(
        "`PlanSnapshot`",
        "`Plan`",
        "model/plan_steps.py",
        "class Plan",
        "each plan in the log is a snapshot",
    ),
    Name(
        "`iteration_index`",
        "`iteration`",
        "model/entry.py",
        "iteration: int",
        "one word for it in log, blocks and events",
    ),
    Name(
        "`create_cached_system_message`, `message_blocks`",
        "`Part` with `cache`",
        "ports/model.py",
        "class Part",
        "the adapter of a provider makes its messages",
    ),
    Name(
        "`react_tools`",
        "the alias `react`",
        "adapters/sandbox/payload.py",
        "def plan_aliases",
        "a program calls a tool by the name that the model knows",
    ),
    Name(
        "`PrivilegedSupervisor`",
        "`SupervisorServer`",
        "adapters/sandbox/tool_server.py",
        "class SupervisorServer",
        "it has the rights of its step only",
    ),
    Name(
        "`EXEC_SNAPSHOT`, `containerOverrides.environment`",
        "the parcel of a run, named by a secret",
        "model/program/handover.py",
        "class Parcel",
        "an environment is readable by who may describe tasks, and has 8 KB",
    ),
    Name(
        "`…_RUNTIME_ASSEMBLY_YAML_B64` and its like, `…_EXEC_PAYLOAD_SECRET_ID`",
        "the same behind `STEPLINE_`",
        "bundle/descriptor_set.py",
        "STEPLINE_RUNTIME_ASSEMBLY_YAML_B64",
        "the prefix is the product's",
    ),
    Name(
        "modules of streamers",
        "`stream_with_channels` of the package",
        "bundle/generation/stream.py",
        "def stream_with_channels",
        "a public name instead of a place in a tree",
    ),
)
"""Names of the design that have another one here."""


def render() -> str:
    """Return the page."""
    counts = Counter(term.status for area in AREAS.values() for term in area)
    lines = [
        "# Parity",
        "",
        "Generated by `make docs` from `docs/build/parity.py`; a test keeps it in step.",
        "",
        "The terms of the design, where each one lives, and the test that holds it. Modules are below",
        "`layers/runtime/python/stepline/`, tests below `tests/`. A partial term says what is missing.",
        "",
        f"Of {sum(counts.values())} terms {counts['done']} are done, {counts['partial']} partial and {counts['planned']} planned.",
        "",
    ]
    for area, terms in AREAS.items():
        lines += [f"## {area}", "", "| term | status | module | test | note |", "|---|---|---|---|---|"]
        lines += [
            f"| {_cell(t.term)} | {t.status} | {_code(t.module)} | {_code(t.test)} | {_cell(t.note)} |"
            for t in terms
        ]
        lines.append("")
    lines += [
        "## Other names",
        "",
        "What the design, or an earlier version of the agent, has under another name.",
        "",
        "| there | here | module | why |",
        "|---|---|---|---|",
    ]
    lines += [f"| {n.old} | {n.new} | {_code(n.module)} | {_cell(n.reason)} |" for n in NAMES]
    return "\n".join([*lines, ""])


def _code(path: str) -> str:
    return f"`{path}`" if path else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
