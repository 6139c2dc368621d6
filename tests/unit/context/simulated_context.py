"""The context engine as one machine: real steps over the memory twins, and a provider that counts, caches and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from types import TracebackType
from typing import Any, Final, Self

from stepline.adapters.memory.log import MemoryLog
from stepline.context.request import Rendered
from stepline.context.rules import ContextRules
from stepline.errors import ContextLimit, ModelOverloaded
from stepline.local.scripted.cache import CacheUse, PromptCache
from stepline.local.scripted.messages_request import count_tokens
from stepline.log.journal import Draft, Journal
from stepline.log.timeline_cache import History
from stepline.loop.agent import Summariser
from stepline.model.batch import Batch
from stepline.model.entry import Contributed, Decided, Entry, Feedback
from stepline.model.ids import Lane, utc
from stepline.model.step import Step
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.model.usage import Usage
from stepline.ports.log import Put
from stepline.ports.model import DECISION_ROLE, Completion, ModelRequest
from stepline.protocol.decision.fanout import FanoutRule
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec
from tests.support.conversation import LANE, Conversation, text_of
from tests.support.generation import answer_of, call_of, said, tagged
from tests.unit.context.caching_provider import prompt_of

RULES: Final = ContextRules(
    max_tokens=6_000,
    target=0.55,
    keep_turns=3,
    intact_turns=2,
    offset_rounds=2,
    min_rounds=2,
    editable_tail_tokens=2_000,
    cache_minimum_tokens=100,
)
MODEL: Final = "m-1"
LAB: Final = "lab.look"
SUMMARIES: Final = ("They spoke of many things.", "", "long " * 4_000)


class CrashError(Exception):
    """The process died."""


class FragileLog(MemoryLog):
    """Dies at the put after `puts_left` others, before or after the put is applied."""

    def __init__(self) -> None:
        super().__init__()
        self.puts_left: int | None = None
        self.applies = False

    @contextmanager
    def sturdy(self) -> Iterator[None]:
        """Let a process that does not die put something."""
        left, self.puts_left = self.puts_left, None
        yield
        self.puts_left = left

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        if self.puts_left is None:
            return super().put(lane, batch, **fields)
        self.puts_left -= 1
        if self.puts_left >= 0:
            return super().put(lane, batch, **fields)
        self.puts_left = None
        if self.applies:
            super().put(lane, batch, **fields)
        raise CrashError


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request for a decision, and what the provider's cache gave and kept of it."""

    rendered: Rendered
    tokens: int
    read: int
    held: int

    @property
    def text(self) -> str:
        """All text after the system part."""
        return text_of(self.rendered)

    @property
    def before_marks(self) -> list[str]:
        """The text before each mark, after the system part."""
        parts = self.rendered.content
        marks = [index for index, part in enumerate(parts) if part.cache]
        return ["".join(part.text for part in parts[: mark + 1]) for mark in marks]


class Provider:
    """A model with scripted answers. `sent` are the requests for decisions that it accepted, `asked` the tokens of others.

    It counts `density` tokens for four bytes.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._cache = PromptCache(now_s=conversation.clock.monotonic_s)
        self.sent: list[Sent] = []
        self.asked: list[int] = []
        self.words = ""
        self.summary = SUMMARIES[0]
        self.refusals = 0
        self.overloads = 0
        self.density = 1.0

    def stream(self, request: ModelRequest) -> Running:
        """Prepare a call."""
        return Running(self, request)

    def take(self, request: ModelRequest) -> tuple[str, Usage]:
        """Take a request, or refuse it; return what is said and what it consumed."""
        rendered = Rendered(system=request.system, content=request.content)
        prompt = prompt_of(rendered)
        if not request.role.startswith("solver"):
            self.asked.append(self.count(prompt.tokens))
            return self.summary, Usage(
                input_tokens=self.count(prompt.tokens), output_tokens=count_tokens(self.summary)
            )
        if self.overloads:
            self.overloads -= 1
            raise ModelOverloaded("busy")
        if self.refusals:
            self.refusals -= 1
            raise ContextLimit("too large")
        use: CacheUse = self._cache.look(prompt, workspace="w")
        self._cache.commit(use)
        read, held = self.count(use.read), self.count(use.read + use.write_5m)
        tokens = self.count(prompt.tokens)
        self.sent.append(Sent(rendered=rendered, tokens=tokens, read=read, held=held))
        usage = Usage(
            input_tokens=tokens - held,
            cache_read_tokens=read,
            cache_write_5m_tokens=held - read,
            output_tokens=count_tokens(self.words),
        )
        return self.words, usage

    def count(self, quarters: int) -> int:
        """Return the tokens of `size` bytes at four bytes per token."""
        return ceil(quarters * self.density)


class Running:
    """One call."""

    def __init__(self, provider: Provider, request: ModelRequest) -> None:
        self._provider, self._request = provider, request
        self._text, self._usage = "", Usage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Nothing is open."""

    def __iter__(self) -> Iterator[str]:
        self._text, self._usage = self._provider.take(self._request)
        yield self._text

    def abort(self) -> None:
        """Nothing runs."""

    def completion(self) -> Completion:
        return Completion(text=self._text, stop_reason="end_turn", usage=self._usage, model=MODEL)


@dataclass
class Engine:
    """A conversation that is driven step by step, in processes that start and end."""

    conversation: Conversation = field(default_factory=lambda: Conversation(log=FragileLog()))
    attempt: int = 0
    messages: int = 0

    def __post_init__(self) -> None:
        """Give the conversation small limits, an agent that may do eight things at once, and the provider."""
        conversation = self.conversation
        policy = replace(
            conversation.ports.policy,
            context=RULES,
            seal_batches=12,
            limits=ScopeLimits(user=Limits(messages_per_minute=0)),
        )
        conversation.ports = replace(conversation.ports, policy=policy)
        own = [conversation.agent.registry.find(spec.tool_id) for spec in conversation.agent.registry.specs]
        conversation.agent = replace(
            conversation.agent,
            system="Be kind and look twice. " * 20,
            role=DECISION_ROLE,
            registry=Registry([*own, self._lab()]),
            fanout=FanoutRule(mode="safe_fanout"),
            summariser=Summariser(summary="Sum it up.", prefix="Sum up what was done."),
            strict=False,
        )
        self.provider = Provider(conversation)
        conversation.model = self.provider  # type: ignore[assignment]  # a conversation takes any model

    @property
    def log(self) -> FragileLog:
        log: FragileLog = self.conversation.log
        return log

    @property
    def turns(self) -> tuple[str, ...]:
        return self.folded().turns

    def folded(self, upto: int | None = None) -> Timeline:
        """Return what a process without a memory folds."""
        return Timeline.empty(LANE).extended(self.conversation.batches()[:upto])

    def remembered(self) -> Timeline:
        """Return what the running process folds, with whatever it remembers."""
        return self.conversation.history.load(Journal(self.conversation.ports, LANE, "look"))

    def begin_process(self) -> None:
        """Let a process without a memory take over."""
        self.conversation.history = History()

    def say(self, text: str, *, name: str = "", **fields: Any) -> None:
        """Let the user, or something else, say something; what has a name is said once."""
        self.messages += not name
        with self.log.sturdy():
            self.conversation.send(text, id=name or f"m{self.messages}", **fields)

    def step(self, *, cold: bool) -> Step:
        """Return the step that is next; a cold one does not know of a segment."""
        state = self.conversation.state
        return self.conversation.now(attempt=self.attempt, segment=0 if cold else state.segment)

    def decide(self, words: str, *, cold: bool = False) -> Sent | None:
        """Ask for a decision; return its request if it was recorded."""
        self.provider.words = words
        before = len(self.conversation.entries(Decided))
        try:
            self.conversation.decide(self.step(cold=cold))
        except CrashError:
            self.die()
        except ModelOverloaded:
            self.attempt += 1
        except ContextLimit:
            self.fail("ContextLimit")
        else:
            self.attempt = 0
        return self.provider.sent[-1] if len(self.conversation.entries(Decided)) > before else None

    def act(self, *, cold: bool = False) -> None:
        """Run what was decided."""
        self._survive(lambda: self.conversation.act(self.step(cold=cold)))

    def close(self) -> None:
        """End the turn, or let it go on if something came."""
        self._survive(lambda: self.conversation.close(self.step(cold=False)))

    def fail(self, error: str) -> None:
        """End the turn with an error, as the state machine does."""
        step = self.step(cold=False)
        self.conversation.close(
            Step(
                **{
                    **{n: getattr(step, n) for n in step.__struct_fields__},
                    "error": {"Error": error, "Cause": "{}"},
                }
            )
        )
        self.attempt = 0

    def append(self, *entries: Entry) -> None:
        """Put entries that change no state."""
        journal = Journal(self.conversation.ports, LANE, "test")
        with self.log.sturdy():
            journal.commit(lambda at: Draft(entries=entries, state=at.state))

    def rate(self, turn: str, text: str) -> None:
        """Let the user say what they think of a turn."""
        at = utc(self.conversation.clock.now())
        self.append(Feedback(turn=turn, at=at, reaction="not_ok", text=text))

    def contribute(self, block: Any) -> None:
        """Let the code of a bundle say something."""
        at = utc(self.conversation.clock.now())
        self.append(Contributed(turn=self.conversation.state.turn, at=at, blocks=(block,)))

    def die(self) -> None:
        """Lose the process; the state machine tries the step again."""
        self.begin_process()
        self.attempt = max(self.attempt, self.conversation.state.attempt) + 1

    def _survive(self, run: Any) -> None:
        try:
            run()
        except CrashError:
            self.die()
        else:
            self.attempt = 0
        if self.conversation.state.cursor.phase != "decide":
            self.attempt = 0

    def _lab(self) -> Tool:
        """Return a tool that shows a long text, and during which something may come in."""
        schema = {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "chars"],
            "properties": {
                "name": {"type": "string"},
                "chars": {"type": "integer"},
                "hears": {"type": "string"},
            },
        }
        spec = ToolSpec(
            tool_id=LAB,
            purpose="look",
            schema=schema,
            returns="a text",
            effect="pure",
            read_only=True,
            strategies=("exploration",),
        )
        return Tool(spec=spec, run=self._look)

    def _look(self, params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if params.get("hears"):
            self.say(params["hears"], name=context.call_id)
        text = (f"{params['name']} says: " + "lorem ipsum " * params["chars"])[: params["chars"]]
        return ToolOutput(blocks=(context.result(LAB, text or "nothing"),))


def decision(*actions: tuple[str, dict[str, Any]], answer: str = "", notes: str = "") -> str:
    """Return a generation of several decisions."""
    decisions = [call_of(tool_id, params, notes=notes) for tool_id, params in actions]
    if answer:
        decisions.append(answer_of(answer))
    summary = tagged("summary", f"Goal: {answer}") if answer.startswith("S") else ""
    return f"{said(*decisions, thinking='Hm.')}\n{summary}"
