"""The model's answers of a test, recorded once in a file beside it, and given again in every later run.

The file is JSON: `calls` in order, and `texts`, the parts of their requests by digest, each once. It has no key and no
setting. Source: docs/how-to/replay.md#record-in-tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from stepline.adapters.provider.client import ProviderClient
from stepline.context.request import digest_request
from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import (
    DECISION_ROLE,
    DEFAULT_ROLE,
    Completion,
    ModelClient,
    ModelRequest,
    ModelStream,
    RoleChoice,
)
from stepline.replay.recorded_model import RECORDED, RecordedProvider
from stepline.replay.recorded_turn import RecordedAnswer
from stepline.replay.request_difference import RequestText, first_difference, limits_of, texts_of

FORMAT: Final = 1
_DIGITS: Final = 16


class PartRecord(NamedTuple):
    """A part of a recorded request: its role, the digest of its text, and whether a cache mark follows."""

    role: str
    digest: str
    mark: bool


class CallRecord(Value, forbid_unknown_fields=True):
    """One call of the model: in which turn and round (both from 1; 0 for a call of another role), and its answer."""

    turn: int
    round: int
    role: str
    sha256: str
    parts: tuple[PartRecord, ...]
    limits: str
    text: str
    stop_reason: str
    model: str
    usage: Usage
    declined: Declined | None = None


class ModelRecording(Value, forbid_unknown_fields=True):
    """The content of a recording."""

    format: int
    calls: tuple[CallRecord, ...] = ()
    texts: Mapping[str, str] = {}


def read_recording(path: Path) -> ModelRecording:
    """Read a recording. Raises InputError: `recording_invalid`, with its file and key; `format_newer`."""
    try:
        body = path.read_bytes()
        found = msgspec.json.decode(body)
        version = found.get("format") if isinstance(found, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise InputError(
                f"{path} has format {version}, and this release reads up to {FORMAT}: update stepline, or record it again",
                code="format_newer",
            )
        recording = msgspec.json.decode(body, type=ModelRecording)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} is no recording: {error}", code="recording_invalid") from error
    lacking = {part.digest for call in recording.calls for part in call.parts} - recording.texts.keys()
    if lacking:
        raise InputError(f"{path} lacks the text {min(lacking)}", code="recording_invalid")
    return recording


def write_recording(path: Path, recording: ModelRecording) -> None:
    """Write a recording, whole or not at all. Raises InputError `not_writable`."""
    plain = json.dumps(msgspec.to_builtins(recording), ensure_ascii=False, indent=1)
    fresh = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(f"{plain}\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", code="not_writable") from error


class PlayedModel:
    """The model of a recording (`ModelClient`); `begin_turn` counts the turns."""

    def __init__(self, recording: ModelRecording, path: Path) -> None:
        self._calls, self._texts, self._path = [*recording.calls], recording.texts, path
        self._turn = self._used = 0
        self.requests: list[ModelRequest] = []
        fallback = RECORDED if any(call.declined for call in self._calls) else ""
        self._provider = RecordedProvider([_answer(call) for call in self._calls], explain=self._explain)
        self._client = ProviderClient(
            self._provider, roles={DEFAULT_ROLE: RoleChoice(model=RECORDED, fallback=fallback)}
        )

    @property
    def roles(self) -> frozenset[str]:
        """The roles of the recorded calls."""
        return frozenset(call.role for call in self._calls)

    def begin_turn(self) -> None:
        """Begin the next turn."""
        self._turn += 1
        self.requests = []

    def stream(self, request: ModelRequest) -> ModelStream:
        """Return the recorded answer to the request."""
        self.requests.append(request)
        stream = self._client.stream(request)
        self._used += 1
        return stream

    def check_turn(self) -> None:
        """Refuse a turn that took another course. Raises InputError: `replay_diverged`; `decisions_left`."""
        if self._provider.diverged is not None:
            raise self._provider.diverged
        left = sum(call.turn <= self._turn for call in self._calls[self._used :])
        if left:
            raise InputError(
                f"{self._path.name}, turn {self._turn}: the turn ended, and {left} recorded answers are left",
                code="decisions_left",
            )

    def _explain(self, request: ModelRequest) -> str:
        place = f"{self._path.name}, turn {self._turn}"
        if self._used >= len(self._calls):
            return f"{place}: the recording has no further answer; delete the file, and record it again"
        call = self._calls[self._used]
        at = f"{place}, round {call.round}" if call.round else f"{place}, role {call.role}"
        recorded = [RequestText(part.role, self._texts[part.digest], part.mark) for part in call.parts]
        found = first_difference(recorded, tuple(texts_of(request)), (call.limits, limits_of(request)))
        said = found.sentence if found else f"the role {request.role}, recorded {call.role}"
        return f"{at}: another request, first in {said}; delete the file, and record it again"


def _answer(call: CallRecord) -> RecordedAnswer:
    return RecordedAnswer(
        role=call.role,
        text=call.text,
        sha256=call.sha256,
        stop_reason=call.stop_reason,
        model=call.model,
        usage=call.usage,
        declined=call.declined,
    )


class RecordingModel:
    """A model whose calls are recorded (`ModelClient`)."""

    def __init__(self, model: ModelClient) -> None:
        self._model = model
        self._turn = 0
        self._calls: list[CallRecord] = []
        self._texts: dict[str, str] = {}
        self.requests: list[ModelRequest] = []

    def begin_turn(self) -> None:
        """Begin the next turn."""
        self._turn += 1
        self.requests = []

    def stream(self, request: ModelRequest) -> ModelStream:
        """Return a call of the model, whose answer is kept if it is whole."""
        self.requests.append(request)
        return _KeptStream(self._model.stream(request), partial(self._keep, request))

    def check_turn(self) -> None:
        """Do nothing: every course is recorded."""

    def recording(self) -> ModelRecording:
        """Return the calls so far."""
        return ModelRecording(format=FORMAT, calls=tuple(self._calls), texts=self._texts)

    def _keep(self, request: ModelRequest, completion: Completion) -> None:
        if completion.aborted:
            return
        parts = []
        for text in texts_of(request):
            digest = sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
            self._texts[digest] = text.text
            parts.append(PartRecord(text.role, digest, text.mark))
        decides = request.role == DECISION_ROLE
        own = sum(call.turn == self._turn and call.round > 0 for call in self._calls)
        self._calls.append(
            CallRecord(
                turn=self._turn,
                round=own + 1 if decides else 0,
                role=request.role,
                sha256=digest_request(request),
                parts=tuple(parts),
                limits=limits_of(request),
                text=completion.text,
                stop_reason=completion.stop_reason,
                model=completion.model,
                usage=completion.usage,
                declined=completion.declined,
            )
        )


class _KeptStream:
    """A call of a model; `keep` gets its result when it has ended without an error."""

    def __init__(self, running: ModelStream, keep: Callable[[Completion], None]) -> None:
        self._running, self._keep = running, keep

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._running.__exit__(*exc)

    def __iter__(self) -> Iterator[str]:
        yield from self._running
        self._keep(self._running.completion())

    def abort(self) -> None:
        self._running.abort()

    def completion(self) -> Completion:
        return self._running.completion()
