"""A conversation that a model answers, in the memory of this process: what a case plays in.

It is the test kit's conversation (`stepline.testing`) with a model instead of a list of decisions.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from stepline.adapters.memory.model import MemoryModelClient
from stepline.adapters.provider.client import ProviderClient
from stepline.bundle.runtime import submit
from stepline.errors import InputError
from stepline.ingress.admit import Arrival
from stepline.log.journal import Journal
from stepline.log.spill import fetch_body, hydrate
from stepline.model.batch import Batch
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import ApprovalAnswered, Closed, Compacted, Decided, Resulted
from stepline.model.ids import utc
from stepline.model.tenancy.price import dollars
from stepline.model.usage import ModelCall
from stepline.model.wire.live_event import FOLLOWUP, STEER, STOP
from stepline.ports.model import Completion, ModelClient, ModelRequest, ModelStream, Part
from stepline.replay.model_recording import PlayedModel, RecordingModel, write_recording
from stepline.testing import LANE, Conversation, PlayedTurn, answer, call_tool

if TYPE_CHECKING:
    from stepline.bundle.turn_payload import TurnResult
    from stepline.ingress.fork import ForkPoint
    from stepline.local.evaluation.case_file import CaseStep, Meanwhile, PastTurn
    from stepline.local.imported_documents import ImportedDocuments
    from stepline.model.ids import Lane
    from stepline.replay.record_file import ConversationRecord

FAR: Final = sys.maxsize // 1000
"""A time that no import reaches, in epoch seconds."""
JUDGE: Final = "evaluation.judge"
"""The role of the judging model, in the map from role to model."""
DECISIONS: Final = "solver."
"""The beginning of the roles of a round."""
TURN_S: Final = 60.0
"""The time between two turns; no other time passes in a case."""


@dataclass(frozen=True, kw_only=True)
class MadeCall:
    """A call of a tool with its result; `params` are those that it ran with."""

    tool_id: str
    params: Mapping[str, Any]
    status: str
    data: Any


@dataclass(frozen=True, kw_only=True)
class LiveTurn:
    """A turn of a case. `usd` is the cost of its calls of models; without `priced` some have no known price."""

    played: PlayedTurn
    calls: tuple[MadeCall, ...] = ()
    usd: float = 0.0
    priced: bool = True
    tokens: int = 0


class LiveConversation(Conversation):
    """A conversation with a bundle, answered by `model`. Raises the errors of `Conversation`."""

    def __init__(
        self, bundle: str, model: ModelClient, *, user: str, settings: Mapping[str, str], lane: Lane = LANE
    ) -> None:
        """Begin a conversation of `user`."""
        super().__init__(bundle, user=user, settings=settings, lane=lane)
        self._model = _KeptRequests(model)
        self._recorded = model if isinstance(model, PlayedModel | RecordingModel) else None

    def close(self) -> None:
        """End the conversation's backends, and the connections of its model."""
        super().close()
        if isinstance(self._model.model, ProviderClient):
            self._model.model.close()

    # --- the conversation so far

    def take_history(self, imported: ImportedDocuments) -> None:
        """Begin with an exported conversation. Raises the errors of `import_conversation`."""
        from stepline.ingress.import_conversation import ImportInput, import_conversation
        from stepline.log.importing.plan_import import named_files
        from stepline.model.file.attachment import Attachment, attachment_key
        from stepline.model.file.upload_slot import Upload
        from stepline.ports.channel import Principal

        ports, uploads = self._runtime.ports, []
        for file in named_files(imported.documents):
            if (read := imported.files.get(file.sha256)) is None:
                continue
            data, upload_id = read(), f"up_{file.sha256[:32]}"
            found = Attachment(
                filename=file.path.rpartition("/")[2],
                mime=file.mime,
                size_bytes=len(data),
                sha256=file.sha256,
            )
            ports.artifacts.put(attachment_key(self._lane, file.sha256), data, mime=file.mime)
            slot = Upload(
                upload_id=upload_id, user=self.workflow.user, file=found, until_s=FAR, state="ready"
            )
            ports.uploads.begin(self._lane, slot)
            uploads.append(upload_id)
        lane = self._lane
        owner = Principal(tenant=lane.tenant, project=lane.project, user=self.workflow.user, expires_at=FAR)
        request = ImportInput(documents=imported.documents, uploads=tuple(uploads))
        import_conversation(ports, owner, lane.conversation, request, until_s=float("inf"))
        self._seen = self._batches()[-1].n

    def take_fork(self, record: ConversationRecord, point: ForkPoint) -> None:
        """Begin as a fork of a recorded conversation, which has the tenant, the project and the owner of this one.

        The clock goes on from the point. Raises the errors of `fork_conversation`, and `record_incomplete`.
        """
        from stepline.ingress.fork import fork_conversation
        from stepline.replay.record_file import copy_record

        ports, lane = self._runtime.ports, self._lane
        copy_record(record, ports.log, ports.artifacts)
        tail = ports.log.tail(record.lane)
        assert tail is not None
        passed_s = (datetime.fromisoformat(tail.at) - ports.clock.now()).total_seconds()
        ports.clock.pause(max(passed_s, 0))
        fork_conversation(ports, record.lane, point, user=self.workflow.user, conversation=lane.conversation)
        self._seen = self._batches()[-1].n

    def take_past(self, past: PastTurn, folder: Path) -> str:
        """Play an earlier turn: its calls run, and its answer is the written one.

        Return the text that its last round read, without the instructions.

        Raises InputError `case_history`: the calls or the answer are not those of the turn.
        """
        decisions = [*(call_tool(call.tool, call.params) for call in past.calls), answer(past.answer)]
        script = MemoryModelClient(*[one.text for one in decisions])
        self._script.turn = _Past(script, self._model)
        payload = self._payload(past.message, past.files, folder)
        turn = self._drive(lambda: self.workflow.process(payload), ())
        problems = [notice.message for notice in turn.notices]
        problems += [f"{one.tool_id}: {one.error}" for one in turn.results if one.status == "error"]
        if turn.answer != past.answer or problems:
            why = "; ".join([*problems, f"it ended with {turn.ended.code or turn.ended.reason}"])
            raise InputError(f"the earlier turn {past.message[:80]!r}: {why[:500]}", code="case_history")
        return "".join(part.text for part in script.requests[-1].content if isinstance(part, Part))

    # --- the case

    def play(self, step: CaseStep, folder: Path) -> LiveTurn:
        """Play one step of a case.

        Raises InputError `approval_not_pending`, the errors of a message; `replay_diverged`, `decisions_left`: the turn
        took another course than its recording.
        """
        self._script.turn = self._model
        self._model.requests.clear()
        run = self._message(step, folder) if step.message else self._answer(step)
        before = self._seen
        turn = self._drive(run, self._model.requests)
        if self._recorded:
            self._recorded.check_turn()
        return self._measured(turn, before)

    def bill(self, turn_id: str = "") -> list[ModelCall]:
        """Return the calls of models of a turn; without one, those of all earlier turns, whose rounds are written."""
        return [
            call
            for batch in self._batches()
            for entry in batch.entries
            if isinstance(entry, Closed) and turn_id in ("", entry.turn)
            for call in entry.bill
            if turn_id or not call.role.startswith(DECISIONS)
        ]

    @property
    def judging(self) -> ModelClient | None:
        """The model, for a judge: its requests are not those of a turn. None if its recording has no judge."""
        model = self._model.model
        if self._recorded:
            self._recorded.begin_turn()
        return None if isinstance(model, PlayedModel) and JUDGE not in model.roles else model

    def write_recording(self, path: Path) -> None:
        """Write the model's answers, if they are recorded. Raises InputError `not_writable`."""
        if isinstance(self._recorded, RecordingModel):
            write_recording(path, self._recorded.recording())

    def price(self, done: Completion) -> float:
        """Return the dollars of a call of a model; 0 without a price."""
        ports = self._runtime.ports
        nanos = ports.policy.prices.nanos(done.model, done.cost, utc(ports.clock.now()))
        return dollars(nanos or 0)

    def fetch(self, block: Produced) -> bytes:
        """Return the content of a file. Raises DependencyError: its bytes are lost."""
        if block.body is None:
            return block.text.encode()
        return fetch_body(self._runtime.ports.artifacts, block.body.key, block.body.sha256)

    def written(self) -> Iterator[Produced]:
        """Yield the files of all turns, the newest first."""
        for batch in reversed(self._batches()):
            for entry in reversed(batch.entries):
                if isinstance(entry, Resulted):
                    yield from (one for one in reversed(entry.blocks) if one.path.startswith("fi:"))

    def compactions(self) -> int:
        """Return how often the conversation was compacted."""
        entries = (entry for batch in self._batches() for entry in batch.entries)
        return sum(isinstance(entry, Compacted) and entry.status == "completed" for entry in entries)

    def hydrated(self) -> list[Batch]:
        """Return all batches, with their texts."""
        return [hydrate(self._runtime.ports.artifacts, batch) for batch in self._batches()]

    @property
    def record(self) -> ConversationRecord:
        """The record of this conversation."""
        from stepline.replay.record_file import ConversationRecord

        ports = self._runtime.ports
        return ConversationRecord(log=ports.log, artifacts=ports.artifacts, lane=self._lane, variables={})

    def _message(self, step: CaseStep, folder: Path) -> Callable[[], Coroutine[Any, Any, TurnResult]]:
        payload = self._payload(step.message, step.files, folder)
        waiting, rounds = list(step.meanwhile), iter(range(1, sys.maxsize))

        def decided() -> None:
            round_number = next(rounds)
            for event in [one for one in waiting if one.after_round == round_number]:
                waiting.remove(event)
                self._submit(event)

        self._runtime.decided = decided
        return lambda: self.workflow.process(payload)

    def _payload(self, text: str, files: Sequence[str], folder: Path) -> dict[str, Any]:
        """Return the payload of a message, whose id is the same in every run: the ids of turns follow from it."""
        attachments = [folder / name for name in files]
        return {"message_id": f"m{self._seen}", "text": text, "attachments": attachments}

    def _answer(self, step: CaseStep) -> Callable[[], Coroutine[Any, Any, TurnResult]]:
        verdict: Literal["approved", "denied", "edited"] = (
            "approved" if step.approve else "denied" if step.deny else "edited"
        )
        tool_id = step.approve or step.deny or step.edit
        self._runtime.decided = lambda: None
        if (asked := self._parked) is None or asked.tool_id != tool_id:
            waits = f"only {asked.tool_id}" if asked else "no call"
            raise InputError(f"no call of {tool_id} waits, {waits} does", code="approval_not_pending")
        call = asked.call_id
        return lambda: self.workflow.answer(verdict, call, text=step.text, params=step.params)

    def _submit(self, event: Meanwhile) -> None:
        """Submit an event between a decision and its actions, where every run has it."""
        kind = STEER if event.steer else STOP if event.stop else FOLLOWUP
        text = event.steer or event.message
        named = f"m-{kind}-{self._seen}-{event.after_round}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        arrival = Arrival(message_id=named, user=self.workflow.user, text=text, kind=kind)
        submit(self._runtime, self._lane, arrival)

    def _drive(
        self, run: Callable[[], Coroutine[Any, Any, TurnResult]], requests: Sequence[ModelRequest]
    ) -> PlayedTurn:
        self._runtime.ports.clock.pause(TURN_S)
        if self._recorded:
            self._recorded.begin_turn()
        return super()._drive(run, requests)

    def _measured(self, turn: PlayedTurn, before: int) -> LiveTurn:
        """Return a turn with its calls since batch `before`, and its cost from its bill."""
        bill = self.bill(turn.ended.turn_id)
        actions: dict[str, Action] = {}
        for batch in self._batches():
            for entry in batch.entries:
                match entry:
                    case Decided():
                        actions |= {action.call_id: action for action in entry.actions}
                    case ApprovalAnswered(action=Action() as instead):
                        actions[instead.call_id] = instead
                    case _:
                        pass
        made = [
            MadeCall(tool_id=one.tool_id, params=_params_of(actions, call), status=one.status, data=one.data)
            for call, one in zip(self._called_since(before), turn.results, strict=True)
        ]
        return LiveTurn(
            played=turn,
            calls=tuple(made),
            **costs_of(bill),
        )

    def _called_since(self, before: int) -> Iterator[str]:
        for batch in self._batches():
            if batch.n > before:
                yield from (entry.call_id for entry in batch.entries if isinstance(entry, Resulted))

    def _batches(self) -> Sequence[Batch]:
        return Journal(self._runtime.ports, self._lane, "run").since(0, consistent=True)


def costs_of(bill: Sequence[ModelCall]) -> dict[str, Any]:
    """Return `usd`, `priced` and `tokens` of calls of models."""
    return {
        "usd": dollars(sum(call.nanos for call in bill)),
        "priced": all(call.priced for call in bill),
        "tokens": sum(call.usage.prompt_tokens + call.usage.output_tokens for call in bill),
    }


def _params_of(actions: Mapping[str, Action], call_id: str) -> Mapping[str, Any]:
    return actions[call_id].params if call_id in actions else {}


@dataclass
class _KeptRequests:
    """A model that keeps the requests it received."""

    model: ModelClient
    requests: list[ModelRequest] = field(default_factory=list)

    def stream(self, request: ModelRequest) -> ModelStream:
        self.requests.append(request)
        return self.model.stream(request)


@dataclass(frozen=True)
class _Past:
    """The model of earlier turns: the rounds are written, everything else, such as a summary, asks the case's model."""

    rounds: ModelClient
    model: ModelClient

    def stream(self, request: ModelRequest) -> ModelStream:
        return (self.rounds if request.role.startswith(DECISIONS) else self.model).stream(request)
