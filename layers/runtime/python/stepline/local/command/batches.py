"""Read and print the log of a conversation: as JSON, or in one or two lines per entry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.table import Table
from stepline.events.derive_close import turn_usage
from stepline.local.command.argument import no_conversation
from stepline.local.counted import counted
from stepline.local.safe_text import clean_line, one_line
from stepline.local.stage.deployed import LocalStage, credentials
from stepline.local.terminal.render import render_citation, render_rejection, render_usage
from stepline.log.journal import read_since
from stepline.log.spill import hydrate
from stepline.model.batch import Batch
from stepline.model.decision import Notice
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Begun,
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Deferred,
    Deleted,
    Dropped,
    Entry,
    Feedback,
    Forked,
    Imported,
    Importing,
    Inbound,
    Listed,
    Opened,
    Owner,
    Pruned,
    Queued,
    Reopened,
    Resulted,
    Started,
    SteeredEntry,
    TakenOver,
    Titled,
)
from stepline.model.ids import Lane
from stepline.ports.artifacts import Artifacts
from stepline.ports.log import Log, StageLog
from stepline.timeline.fold import Timeline


def open_log(stage: LocalStage) -> tuple[StageLog, Artifacts]:
    """Return the stage's log and artifacts, through the same adapters that the functions use."""
    # As inside a function, botocore finds the emulator by the process's environment.
    place = {"AWS_ENDPOINT_URL": stage.endpoint, "AWS_DEFAULT_REGION": stage.region}
    os.environ.update(credentials(Path(stage.home)) | place)  # noqa: TID251 - botocore's own variables, not settings of Stepline
    os.environ.pop("AWS_PROFILE", None)  # noqa: TID251 - as above; a profile would override the credentials
    return DynamoLog(Table(stage.table)), S3Artifacts(stage.bucket)


def read_batches(log: Log, artifacts: Artifacts, lane: Lane, *, after: int = 0) -> list[Batch]:
    """Return every batch after `after`, with spilled strings restored."""
    return [hydrate(artifacts, batch) for batch in read_since(log, lane, after, consistent=True)]


def read_timeline(log: Log, artifacts: Artifacts, lane: Lane) -> Timeline:
    """Return a conversation, folded from its whole log. Raises NotFoundError `not_found`."""
    timeline = Timeline.empty(lane).extended(read_batches(log, artifacts, lane))
    if not timeline.n:
        raise no_conversation(lane.conversation)
    return timeline


def render_summary(batch: Batch) -> Iterator[str]:
    """Yield a batch's entries as lines; the first line begins with the batch number."""
    label = f"{batch.n:>5}"
    for entry in batch.entries:
        for line in render_entry(entry):
            yield clean_line(f"{label}  {line}")
            label = " " * 5


def render_entry(entry: Entry) -> list[str]:  # noqa: PLR0911 - one return per kind of entry
    """Return an entry as lines."""
    match entry:
        case Owner(user=user, bundle=bundle):
            return [f"belongs to {one_line(user)}{f', with the bundle {bundle}' if bundle else ''}"]
        case Inbound(event=event, text=text, payload=payload):
            said = text or (msgspec.json.encode(payload).decode() if payload else "")
            return [f"{event}: {one_line(said)}".rstrip()]
        case Opened() | Closed():
            return _boundary(entry)
        case Decided():
            return _decided(entry)
        case Resulted():
            failed = f" {entry.error.get('code', '')}" if entry.error else ""
            paths = " ".join(block.path for block in entry.blocks if block.path)
            return [f"{entry.status}{failed}: {entry.tool_id} {entry.call_id} {one_line(paths)}".rstrip()]
        case Pruned() | Compacting() | Compacted() | Titled() | Contributed() | Feedback():
            return _context(entry)
        case Listed():
            without = (*entry.failed, *entry.left_out)
            failed = f", without {', '.join(without)}" if without else ""
            return [
                one_line(f"{counted(entry.tools, 'tool')} of MCP servers listed until {entry.until}{failed}")
            ]
        case ApprovalRequested() | ApprovalAnswered() | Queued() | Begun():
            return [_waiting(entry)]
        case Importing() | Imported() | Forked():
            return [_origin(entry)]
        case _:
            return _protocol(entry)


def _origin(entry: Importing | Imported | Forked) -> str:
    if isinstance(entry, Forked):
        kind = "branch" if entry.branch_of else "fork"
        return f"{kind} of {one_line(entry.origin)}, with its batches up to {entry.n}"
    return f"import {entry.digest[:12]} {'started' if isinstance(entry, Importing) else 'completed'}"


def _boundary(entry: Opened | Closed) -> list[str]:
    if isinstance(entry, Opened):
        return [f"── {entry.turn} opened"]
    why = f" ({entry.code} {entry.message})" if entry.code else ""
    lines = [f"answer: {one_line(entry.answer)}"] if entry.answer else []
    lines += [f"  {render_citation(msgspec.to_builtins(source))}" for source in entry.citations]
    lines += [f"  » {one_line(text)}" for text in entry.followups]
    if entry.usage is not None:
        lines.append(render_usage(msgspec.to_builtins(turn_usage(entry, entry.usage))))
    return [*lines, f"── {entry.turn} {entry.outcome}: {entry.reason}{one_line(why)}"]


def _decided(entry: Decided) -> list[str]:
    tokens = (
        f", {counted(entry.usage.prompt_tokens, 'token')} in, {entry.usage.output_tokens:,} out"
        if entry.usage
        else ""
    )
    verdict = ", interrupted" if entry.interrupted else "" if entry.accepted else ", rejected"
    if entry.declined:
        why = one_line(f"{entry.declined.category} {entry.declined.explanation}".strip())
        verdict = f", declined by {one_line(entry.model)}{f' ({why})' if why else ''}"
    staged = (*entry.show_artifacts, *(f"sk:{skill}" for skill in entry.show_skills))
    return [
        f"round {entry.iteration}: {entry.action}{verdict}{tokens}",
        *(f"  call {action.call_id} {action.tool_id}" for action in entry.actions),
        *([f"  stages {one_line(' '.join(staged))}"] if staged else []),
        *(line for notice in entry.notices for line in _notice(notice, accepted=entry.accepted)),
    ]


def _notice(notice: Notice, *, accepted: bool) -> list[str]:
    """Return the notice as a line, without its message, which is written for the model."""
    index = notice.extra.get("index")
    refused = render_rejection(index, notice.code) if accepted and index else ""
    return [f"  {refused or f'notice {notice.code}'}"]


def _context(entry: Pruned | Compacting | Compacted | Titled | Contributed | Feedback) -> list[str]:
    match entry:
        case Pruned():
            return [f"turns before the last {entry.keep} shortened ({entry.cause})"]
        case Compacting():
            return [f"compaction started: {entry.before_tokens:,} of {counted(entry.max_tokens, 'token')}"]
        case Compacted():
            why = f" ({entry.reason})" if entry.reason else ""
            return [
                f"compaction {entry.status}{why}: {entry.before_tokens:,} → {counted(entry.after_tokens, 'token')}"
            ]
        case Titled():
            return [f"title: {one_line(entry.title)}"]
        case Contributed():
            ended = f"{entry.hook} {entry.status} {entry.code}".rstrip()
            return [
                *([one_line(ended)] if entry.hook else []),
                *(
                    f"contributed {one_line(block.type)} {one_line(block.path)}".rstrip()
                    for block in entry.blocks
                ),
            ]
        case Feedback():
            return [f"feedback on {entry.turn}: {entry.reaction or 'none'} {one_line(entry.text)}".rstrip()]


def _waiting(entry: ApprovalRequested | ApprovalAnswered | Queued | Begun) -> str:
    if isinstance(entry, Queued):
        return f"queued at position {entry.place}"
    if isinstance(entry, Begun):
        return f"started after {entry.waited_ms / 1000:.1f} s in the queue"
    if isinstance(entry, ApprovalRequested):
        return f"waits for an approval: {entry.action.call_id} {entry.action.tool_id} ({entry.rule})"
    instead = f", {entry.action.call_id} runs instead" if entry.action else ""
    said = f": {one_line(entry.text)}" if entry.text else ""
    client = f" by {one_line(entry.client)}" if entry.client else ""
    return f"{entry.call_id} {entry.verdict}{client}{instead}{said}"


def _protocol(  # noqa: PLR0911 - one return per kind of entry
    entry: Reopened | Started | Deferred | Dropped | SteeredEntry | TakenOver | Deleted,
) -> list[str]:
    match entry:
        case Reopened():
            waits = f"waits until {entry.until} ({entry.code})" if entry.until else ""
            failed = f" failed after {counted(entry.usage.prompt_tokens, 'token')}" if entry.usage else ""
            return [one_line(f"round {entry.iteration}: {waits or f'attempt {entry.attempt}'}{failed}")]
        case Started():
            until = f" as a task, until {entry.task.until}" if entry.task else ""
            return [f"runs {entry.call_id}{until}"]
        case Deferred():
            return [f"round {entry.iteration}: answer held back: a new event arrived"]
        case Dropped():
            return [f"dropped {entry.n}: {entry.reason}"]
        case SteeredEntry():
            then = f"{counted(entry.finalize, 'round')} left" if entry.finalize else "stopped"
            return [f"steered by {entry.n}: {then}"]
        case Deleted():
            return ["deleted"]
        case TakenOver():
            return [f"taken over ({entry.reason}), {counted(entry.takeovers, 'takeover')}"]
