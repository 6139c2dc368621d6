"""Cut a case out of a conversation: what came before a turn becomes the history, the turn becomes steps and checks.

    FOLDER/NAME.yaml            the case
    FOLDER/NAME.history/        the documents of the turns before it, and their files
    FOLDER/NAME.zip             or, of more than LONG_TURNS, the record of the conversation up to the turn
    FOLDER/NAME.files/          the files that its messages attached

Source: docs/how-to/evaluate.md#cut-a-case-out-of-a-conversation.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepline.bundle.document import render_document
from stepline.errors import InputError, NotFoundError
from stepline.local.exported_files import plan_files
from stepline.local.named_files import write_files
from stepline.log.spill import fetch_body
from stepline.model.batch import Batch, home_lane
from stepline.model.decision import Action
from stepline.model.entry import ApprovalAnswered, Closed, Decided, Entry, Inbound, Resulted
from stepline.model.file.attachment import Attachment
from stepline.replay.record_file import write_record_file
from stepline.timeline.export import export_conversation, export_sources, export_turn
from stepline.timeline.fold import Timeline

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Artifacts
    from stepline.rendering.turn_facts import Turn
    from stepline.replay.record_file import ConversationRecord
    from stepline.timeline.export import Export

HEAD: Final = """\
# Cut out of a conversation. The checks repeat what the agent did then: keep those that every good answer passes, and
# add your own. docs/how-to/evaluate.md has them all.
"""
TTL_S: Final = 300
LONG_TURNS: Final = 10
"""The most turns before a case that are documents of a history: a reader of the set can change them."""
VERDICTS: Final[Mapping[str, str]] = {"approved": "approve", "denied": "deny", "edited": "edit"}


@dataclass(frozen=True, kw_only=True)
class CutConversation:
    """A conversation to cut: its batches with their texts, and the record that has its log and its files."""

    batches: Sequence[Batch]
    record: ConversationRecord

    @property
    def artifacts(self) -> Artifacts:
        """Its files."""
        return self.record.artifacts

    @property
    def lane(self) -> Lane:
        """Its lane."""
        return self.record.lane


def cut_case(found: CutConversation, turn_id: str, folder: Path, name: str) -> list[str]:
    """Write the case of a turn into a folder; return the paths that were written.

    Raises:
        NotFoundError: `turn_not_found`.
        InputError: `file_exists`, a path is taken, nothing was written; `not_writable`; `turn_not_cut`, a turn that no
            message has begun.
        DependencyError: a file's bytes are lost.
    """
    timeline = Timeline.empty(found.lane).extended(found.batches)
    turn = next((one for one in timeline.history if one.id == turn_id), None)
    if turn is None:
        raise NotFoundError(f"this conversation has no turn {turn_id[:80]}", code="turn_not_found")
    case, attached = _case(found, timeline, turn, name)
    before = timeline.history.index(turn)
    history = _history(found, timeline, turn) if before <= LONG_TURNS else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as fresh:
            made = Path(fresh)
            if history:
                case = {**case, "history": f"{name}.history"}
                files = plan_files(history, found.artifacts, found.lane)
                list(write_files(made / f"{name}.history", files, overwrite=False))
            elif before:
                case = {**case, "conversation": {"from": f"{name}.zip"}}
                write_record_file(
                    made / f"{name}.zip", found.record, upto=min(turn.opened, *turn.prompts) - 1
                )
            for file_name, body in attached.items():
                path = made / f"{name}.files" / file_name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(body)
            (made / f"{name}.yaml").write_text(f"{HEAD}{render_document(case)}", encoding="utf-8")
            return _move(made, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}", code="not_writable") from error


def _move(made: Path, folder: Path) -> list[str]:
    """Move all parts of a case, its YAML last: without that there is no case. Raises InputError `file_exists`."""
    parts = sorted(made.iterdir(), key=lambda path: (path.suffix == ".yaml", path.name))
    taken = [str(folder / part.name) for part in parts if os.path.lexists(folder / part.name)]
    if taken:
        raise InputError(f"{', '.join(taken)} exists already; choose another --name", code="file_exists")
    for part in parts:
        shutil.move(part, folder / part.name)
    return [str(folder / part.name) for part in parts]


def _history(found: CutConversation, timeline: Timeline, turn: Turn) -> list[Export]:
    """Return the documents of the conversation as it was when the turn before this one had ended."""
    before = timeline.history[: timeline.history.index(turn)]
    if not before:
        return []
    cut = Timeline.empty(found.lane).extended(
        [batch for batch in found.batches if batch.n <= (before[-1].closed or turn.opened - 1)]
    )
    if turn.id not in cut.turns:
        return list(export_conversation(cut, ttl_s=TTL_S))
    # The batch that ended the turn before has opened this one: it is left out, and with it the document of the whole.
    return [export_sources(cut), *(export_turn(cut, one.id) for one in before)]


def _case(
    found: CutConversation, timeline: Timeline, turn: Turn, name: str
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the case of a turn, and the files that its messages attach, by name."""
    last = turn.closed or timeline.n
    files: dict[str, bytes] = {}
    steps: list[dict[str, Any]] = []
    rounds, entries = 0, []
    for n, entry in _entries(found.batches, turn, last):
        entries.append(entry)
        match entry:
            case Inbound() if n in turn.prompts or not steps:
                steps.append(_message(found, n, entry, name, files))
            case Inbound(event="steer" | "stop" | "followup") if rounds:
                event = _event(entry)
                steps[-1].setdefault("meanwhile", []).append({"after_round": rounds, **event})
            case ApprovalAnswered() if entry.verdict in VERDICTS:
                steps.append(_verdict(entry))
                rounds = 0
            case Decided():
                rounds += 1
            case _:
                pass
    if not steps or not steps[0].get("message"):
        raise InputError(f"no message began the turn {turn.id}", code="turn_not_cut")
    owner = found.batches[-1].state.owner
    about = f"Turn {turn.id} of conversation {found.lane.conversation}."
    asked = {entry.tool_id: "always" for entry in entries if isinstance(entry, ApprovalAnswered)}
    settings = {"settings": {"STEPLINE_APPROVALS": json.dumps(asked)}} if asked else {}
    checks = list(_checks(entries))
    return {"about": about, "user": owner, **settings, "steps": steps, "checks": checks}, files


def _entries(batches: Sequence[Batch], turn: Turn, last: int) -> Iterator[tuple[int, Entry]]:
    """Yield the entries of a turn with the numbers of their batches, its prompts first."""
    for batch in batches:
        if batch.n in turn.prompts or turn.opened <= batch.n <= last:
            for entry in batch.entries:
                if batch.n >= turn.opened or isinstance(entry, Inbound):
                    yield batch.n, entry


def _message(
    found: CutConversation, n: int, entry: Inbound, name: str, files: dict[str, bytes]
) -> dict[str, Any]:
    given = [_attached(found, n, file, files) for file in entry.attachments]
    paths = {"files": [f"{name}.files/{one}" for one in given]} if given else {}
    return {"message": entry.text, **paths}


def _attached(found: CutConversation, n: int, file: Attachment, files: dict[str, bytes]) -> str:
    """Add a file's bytes and return its name here, which is never a path, and never hidden."""
    home = home_lane(found.lane, found.batches, n)
    body = fetch_body(found.artifacts, file.key(home), file.sha256)
    plain = "".join(c if c.isalnum() or c in "-_. " else "_" for c in file.filename).lstrip(".") or "file"
    chosen = next(
        one
        for one in (plain, *(f"{at}-{plain}" for at in range(2, 1_000)))
        if one not in files or files[one] == body
    )
    files[chosen] = body
    return chosen


def _event(entry: Inbound) -> dict[str, Any]:
    match entry.event:
        case "steer" if entry.text:
            return {"steer": entry.text}
        case "steer" | "stop":
            return {"stop": True}
        case _:
            return {"message": entry.text}


def _verdict(entry: ApprovalAnswered) -> dict[str, Any]:
    step: dict[str, Any] = {VERDICTS[entry.verdict]: entry.tool_id}
    if entry.text:
        step["text"] = entry.text
    if isinstance(entry.action, Action):
        step["params"] = dict(entry.action.params)
    return step


def _checks(entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    """Yield checks that the turn itself passes: its calls, its cited sources, its rounds, its end."""
    called = Counter(
        entry.tool_id for entry in entries if isinstance(entry, Resulted) and entry.status == "ok"
    )
    yield from ({"called": {"tool": tool, "status": "ok", "times": times}} for tool, times in called.items())
    decided = [entry for entry in entries if isinstance(entry, Decided)]
    for entry in entries:
        if isinstance(entry, Closed):
            # The end of an imported turn has no citations, its last decision has them.
            sources = entry.citations or (decided[-1].citations if decided else ())
            cited = [one.url or one.path for one in sources if one.url or one.path]
            yield from [{"cites": list(dict.fromkeys(cited))}] if cited else []
            yield {"rounds": {"max": entry.rounds}}
            yield {"outcome": "stopped" if entry.reason == "stop" else entry.outcome}
