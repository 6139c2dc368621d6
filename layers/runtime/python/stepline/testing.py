"""The test kit of bundles: whole turns against a scripted list of decisions, in this process and in milliseconds.

    turn = run_turn("shop", "What does the lamp cost?", decisions=[
        call_tool("shop.price", {"name": "lamp"}),
        answer("12.50 euros."),
    ])
    assert turn.result("shop.price").data["eur"] == 12.5

Only the model is scripted. Its decisions go through the protocol's parser, the checks of the loop, the log and
the tools, over the in-memory twins: no network, no key, no stage. Source: docs/how-to/make-a-bundle.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import msgspec

from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.in_process import InProcess, InProcessLoop
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bootstrap.model_choice import model_of
from stepline.bundle.parts import Parts
from stepline.bundle.turn_payload import PendingCall, TurnResult
from stepline.bundle.workflow import BaseWorkflow, load_workflow
from stepline.errors import InputError, NotFoundError
from stepline.events.derive import derive
from stepline.log.journal import Journal
from stepline.loop.agent import Agent, Hook, HookCall
from stepline.model.batch import Batch
from stepline.model.block import Block, Produced
from stepline.model.decision import Notice
from stepline.model.entry import Decided, Entry, Resulted
from stepline.model.ids import Lane
from stepline.model.source import Source
from stepline.model.step import Step
from stepline.model.wire.event import ClientEvent
from stepline.ports.model import ModelClient, ModelRequest, ModelStream, Part
from stepline.protocol.decision.spell import tagged
from stepline.protocol.parser.grammar import DECISION, THINKING
from stepline.replay.model_recording import PlayedModel, RecordingModel, read_recording, write_recording
from stepline.settings import Settings
from stepline.timeline.fold import Timeline

__all__ = [
    "Conversation",
    "Decision",
    "PlayedTurn",
    "ToolResult",
    "answer",
    "call_tool",
    "run_turn",
    "together",
]

USER: Final = "tester"
LANE: Final = Lane(tenant="test", project="test", conversation="c-1")


# --- decisions


@dataclass(frozen=True)
class Decision:
    """The decision of one round: `bodies` are its actions as the model writes them; a text is used verbatim."""

    bodies: tuple[Mapping[str, Any] | str, ...]
    thinking: str = "Let me see."

    @property
    def text(self) -> str:
        """The generation, in the channels of the protocol."""
        bodies = [body if isinstance(body, str) else json.dumps(body) for body in self.bodies]
        decided = [tagged(DECISION.name, body) for body in bodies]
        return "\n".join([tagged(THINKING.name, self.thinking), *decided])


def call_tool(
    tool_id: str,
    params: Mapping[str, Any] | None = None,
    *,
    notes: str = "",
    show_artifacts: Sequence[str] = (),
    show_skills: Sequence[str] = (),
) -> Decision:
    """Return the decision to call a tool. `notes` is the agent's message to the user during the call.

    In the layout `journal` the next round shows the artifacts of these paths, and the skills in full.
    """
    call = {"tool_id": tool_id, "params": dict(params or {})}
    staged = {"show_artifacts": list(show_artifacts), "show_skills": list(show_skills)}
    shown = {name: named for name, named in staged.items() if named}
    return Decision(({"action": "call_tool", "notes": notes, "tool_call": call, **shown},))


def answer(text: str, *, followups: Sequence[str] = (), value: Any = msgspec.UNSET) -> Decision:
    """Return the decision that answers and ends the turn. `followups` are suggestions for the user.

    `value` is the JSON value of an agent with a result type.
    """
    offered: dict[str, Any] = {"suggested_followups": list(followups)} if followups else {}
    offered |= {} if value is msgspec.UNSET else {"value": value}
    return Decision(({"action": "complete", "final_answer": text, **offered},))


def together(*decisions: Decision) -> Decision:
    """Return one round with the actions of several decisions; the bundle's settings limit their number."""
    return Decision(tuple(body for decision in decisions for body in decision.bodies))


# --- results


@dataclass(frozen=True)
class ToolResult:
    """The result of a call. `data` is the content of its status block: an object or a text; `error` has a `code`."""

    tool_id: str
    status: Literal["ok", "error", "unverified"]
    data: Any
    blocks: tuple[Produced, ...]
    error: Mapping[str, Any]


@dataclass(frozen=True)
class PlayedTurn:
    """A turn that has ended; `ended` has its outcome, code, followups and cited sources.

    `blocks` are its blocks on the timeline, `events` are the events that clients got. `notices` are the protocol's
    messages to the model about its decisions. `sources` are the conversation's sources by number, and `requests` are
    the texts that the model read, one for each request.
    """

    ended: TurnResult
    blocks: tuple[Block, ...]
    results: tuple[ToolResult, ...]
    notices: tuple[Notice, ...]
    events: tuple[ClientEvent, ...]
    sources: Mapping[int, Source]
    requests: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The answer, "" if there is none; `ended.code` then says why."""
        return self.ended.answer

    def result(self, tool_id: str) -> ToolResult:
        """Return the result of the last call of a tool. Raises NotFoundError `tool_not_called`."""
        for result in reversed(self.results):
            if result.tool_id == tool_id:
                return result
        called = ", ".join(result.tool_id for result in self.results) or "none"
        raise NotFoundError(
            f"{tool_id} was not called in this turn; called: {called}", code="tool_not_called"
        )


class Conversation:
    """A conversation with a bundle, in the memory of this process.

    `bundle` is the package's name, or its workflow's class. `settings` are variables of
    docs/reference/settings.md, `lane` is its tenant, its project and its name. Use it in a `with` statement to release its
    resources.

    With a `recording` the model's answers are those of this file, and `run` takes no decisions. Without the file they
    come from the model that the variables `asks` name, and leaving the `with` statement writes it.

    Raises InputError for a bundle or a setting that cannot be used, by its code; `recording_missing`,
    `recording_invalid`, `format_newer` for a recording.
    """

    def __init__(
        self,
        bundle: str | type[BaseWorkflow],
        *,
        user: str = USER,
        settings: Mapping[str, str] = MappingProxyType({}),
        recording: Path | None = None,
        asks: Mapping[str, str] = MappingProxyType({}),
        lane: Lane = LANE,
    ) -> None:
        """Start a conversation of `user`."""
        named = {"STEPLINE_BUNDLE": bundle} if isinstance(bundle, str) else {}
        self._lane = lane
        make = load_workflow(bundle) if isinstance(bundle, str) else bundle
        self._file = recording
        self._recorded = _recorded(recording, asks) if recording else None
        self._script = _Script(self._recorded or MemoryModelClient())
        self._runtime = _Runtime(in_memory(Settings.from_env({**named, **settings}), model=self._script))
        self._seen = 0
        self._parked: PendingCall | None = None
        self.workflow = make(self._runtime, lane, user=user)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        if self._file and isinstance(self._recorded, RecordingModel) and exc[0] is None:
            write_recording(self._file, self._recorded.recording())

    def close(self) -> None:
        """End the backends that are kept warm for programs."""
        self._runtime.close()
        self._runtime.threads.shutdown()

    def run(
        self, message: str | Mapping[str, Any], *, decisions: Sequence[Decision | str] = ()
    ) -> PlayedTurn:
        """Send a message, or another payload of a turn, and return its turn.

        Each model request takes the next of `decisions`, including requests from a tool of the bundle; a text is used
        verbatim as the generation. A conversation with a recording takes none.

        Raises:
            InputError: `decisions_exhausted` or `decisions_left`, the agent needed more or fewer decisions than the
                list has; `replay_diverged`, a request differs from the recorded one of its round, whose first different
                part is named; `unknown_tool_id`, the agent has no such tool; the errors of the workflow.
            Exception: the error of a step that made the turn fail, or of a hook, regardless of the turn's outcome.
        """
        payload = {"text": message} if isinstance(message, str) else message
        if self._file:  # the same in every run: the ids of turns follow from it
            payload = {"message_id": f"m{self._seen}", **payload}
        return self._play(lambda: self.workflow.process(payload), decisions)

    def answer_call(
        self,
        verdict: Literal["approved", "denied", "edited"],
        *,
        text: str = "",
        params: Mapping[str, Any] | None = None,
        decisions: Sequence[Decision | str] = (),
    ) -> PlayedTurn:
        """Answer for the owner whether the call that the turn waits for may run; return the rest of the turn.

        `text` is for the model, `params` replace those of an edited call, `decisions` are those after the call. Raises
        InputError `approval_not_pending`, and as `run` does.
        """
        if self._parked is None:
            raise InputError("no call of the conversation waits for an answer", code="approval_not_pending")
        call = self._parked.call_id
        return self._play(lambda: self.workflow.answer(verdict, call, text=text, params=params), decisions)

    def _play(
        self, run: Callable[[], Coroutine[Any, Any, TurnResult]], decisions: Sequence[Decision | str]
    ) -> PlayedTurn:
        recorded = self._recorded
        if recorded:
            recorded.begin_turn()
        turn = self._drive(run, (recorded or self._script.begin(decisions)).requests)
        if self._runtime.broken_hooks:
            raise self._runtime.broken_hooks[0]
        if recorded:
            recorded.check_turn()
        else:
            _check_script(turn, len(decisions))
        if turn.ended.outcome == "error" and self._runtime.failures:
            raise self._runtime.failures[-1]
        return turn

    def _drive(
        self, run: Callable[[], Coroutine[Any, Any, TurnResult]], requests: Sequence[ModelRequest]
    ) -> PlayedTurn:
        """Run a turn to its end, whatever that is; `requests` are those that the model has received by then."""
        self._runtime.failures.clear()
        self._runtime.broken_hooks.clear()
        ended = asyncio.run(run())
        self._parked = ended.approval
        return self._turn(ended, requests)

    def _turn(self, ended: TurnResult, requests: Sequence[ModelRequest]) -> PlayedTurn:
        batches = Journal(self._runtime.ports, self._lane, "run").since(0, consistent=True)
        new = [batch for batch in batches if batch.n > self._seen]
        self._seen = batches[-1].n
        timeline = Timeline.empty(self._lane).extended(batches)
        events = [event for batch in new for event in derive(batch, self._lane)]
        return PlayedTurn(
            ended=ended,
            blocks=tuple(timeline.turn_blocks(ended.turn_id)),
            results=tuple(_result(entry) for entry in _entries(new) if isinstance(entry, Resulted)),
            notices=tuple(
                notice for entry in _entries(new) if isinstance(entry, Decided) for notice in entry.notices
            ),
            events=self._runtime.ports.of(timeline.state.bundle).outward.sift(events).events,
            sources=dict(timeline.sources),
            requests=tuple(_text_of(request) for request in requests),
        )


def run_turn(
    bundle: str | type[BaseWorkflow],
    message: str | Mapping[str, Any],
    *,
    decisions: Sequence[Decision | str],
    user: str = USER,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> PlayedTurn:
    """Run one message in a new conversation and return its turn. Raises the errors of `Conversation`."""
    with Conversation(bundle, user=user, settings=settings) as conversation:
        return conversation.run(message, decisions=decisions)


# --- parts of a run


class _Script:
    """The model: plays the decisions of the running turn, or is `turn` itself."""

    def __init__(self, turn: ModelClient) -> None:
        self.turn = turn

    def begin(self, decisions: Sequence[Decision | str]) -> MemoryModelClient:
        """Return the model of the next turn."""
        script = MemoryModelClient(*[one if isinstance(one, str) else one.text for one in decisions])
        self.turn = script
        return script

    def stream(self, request: ModelRequest) -> ModelStream:
        return self.turn.stream(request)


def _recorded(path: Path, asks: Mapping[str, str]) -> PlayedModel | RecordingModel:
    """Return the model of a recording, or the one that records it, if there is no file yet."""
    if path.exists():
        return PlayedModel(read_recording(path), path)
    if not asks:
        raise InputError(
            f"there is no recording {path}: name a model once, as in asks=os.environ, and run the test again",
            code="recording_missing",
        )
    return RecordingModel(model_of(Settings.from_env(asks)))


class _Runtime(InProcess):
    """Keeps the exceptions of steps and hooks, of which a turn reports only the code.

    `decided` is called after each round's decision is in the log, before its actions run.
    """

    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.failures: list[Exception] = []
        self.broken_hooks: list[Exception] = []
        self.decided: Callable[[], None] = lambda: None

    def loop(self, agent: Agent, parts: Parts) -> InProcessLoop:
        hooks = {field.name: self._watched(getattr(agent.hooks, field.name)) for field in fields(agent.hooks)}
        made = super().loop(replace(agent, hooks=replace(agent.hooks, **hooks)), parts)
        return _Steps(
            app=made.app,
            programs=made.programs,
            home=made.home,
            failures=self.failures,
            decided=lambda: self.decided(),  # noqa: PLW0108 - the function of the moment
        )

    def _watched(self, hook: Hook | None) -> Hook | None:
        def run(call: HookCall) -> tuple[Produced, ...]:
            assert hook is not None
            try:
                return hook(call)
            except Exception as error:
                self.broken_hooks.append(error)
                raise

        return hook and run


@dataclass(frozen=True, kw_only=True)
class _Steps(InProcessLoop):
    failures: list[Exception]
    decided: Callable[[], None]

    def decide(self, step: Step) -> Step:
        with self._kept():
            following = super().decide(step)
            self.decided()
            return following

    def act(self, step: Step) -> Step:
        with self._kept():
            return super().act(step)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failures.append(error)
            raise


def _check_script(turn: PlayedTurn, given: int) -> None:
    """Refuse a turn that did not use the decisions as intended."""
    for notice in turn.notices:
        if notice.code == "unknown_tool_id":
            raise InputError(f"{notice.message} There are {notice.extra['tools']}.", code="unknown_tool_id")
    refused = "".join(
        f"; a decision had the notice {notice.code}: {notice.message}" for notice in turn.notices
    )
    asked = len(turn.requests)
    if asked > given:
        raise InputError(
            f"the model was asked {asked} times, and there are {given} decisions{refused}",
            code="decisions_exhausted",
        )
    if asked < given:
        why = turn.ended.code or turn.ended.reason
        raise InputError(
            f"the turn ended ({why}) after {asked} of {given} decisions{refused}", code="decisions_left"
        )


def _entries(batches: Sequence[Batch]) -> Iterator[Entry]:
    return (entry for batch in batches for entry in batch.entries)


def _result(entry: Resulted) -> ToolResult:
    said = next((block for block in entry.blocks if not block.path), Produced())
    data = msgspec.json.decode(said.text) if said.mime == "application/json" else said.text
    return ToolResult(entry.tool_id, entry.status, data, entry.blocks, entry.error or {})


def _text_of(request: ModelRequest) -> str:
    return "".join(part.text for part in (*request.system, *request.content) if isinstance(part, Part))
