"""Plays a conversation of the workload through the loop itself, and accounts for every request.

The model of this module follows the script and pays as the scripted server's cache would have it. It
sometimes reads again a result that is no longer in sight, as a model that needs it does. In the layout `journal`, which
shows the beginning of a result, it has each result shown in full once: beside its next call, or by a read before it answers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.conversation import InstantStream
from bench.purse import Bill, Ideal, OwnCache
from bench.row import MeasureError
from bench.transcript import AGAIN, MODEL, TOOL
from bench.workload import RECOVERY_SHARE, Call, Script, Turn, make_summary
from bundles.default import WORKFLOW
from stepline.adapters.anthropic.call import plan_call
from stepline.adapters.memory.clock import MemoryClock
from stepline.bootstrap.agent_choice import read_caps
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.context.rules import ContextRules
from stepline.delivery.effect import current_step
from stepline.ingress.admit import Arrival, admit
from stepline.local.scripted.cache import CacheUse, PromptCache
from stepline.local.scripted.messages_request import Prompt, count_tokens, parse_prompt
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.act import act
from stepline.loop.agent import Agent
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.model.batch import Batch
from stepline.model.entry import Compacted, Decided, Pruned
from stepline.model.ids import Lane
from stepline.model.source import Source
from stepline.model.usage import Usage
from stepline.model.version import ContextLayout
from stepline.ports.model import CacheTtl, Completion, ModelRequest, RoleChoice
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import Settings
from stepline.tools.content import load_content, read_path
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec

REQUEST_S: Final = 6.0
DECIDES: Final = "solver."
LANE: Final = Lane(tenant="bench", project="default", conversation="cost")
USER: Final = "somebody"


@dataclass(frozen=True)
class Request:
    """A round's request in the turn with this number, from 0: its tokens up to the last mark, and after it."""

    turn: int
    at_s: float
    marked: int
    plain: int


@dataclass(frozen=True, kw_only=True)
class Played:
    """The result of one conversation.

    `bill` has everything, `decisions` the rounds alone, beside their `ideal`, and `own_cache`, the bill of a provider that
    caches by itself. `requests` are those of the rounds, and
    `batches` the log.
    """

    bill: Bill
    decisions: Bill
    ideal: Bill
    own_cache: Bill
    recoveries: int
    prunes: int
    compactions: int
    skipped: int
    busts: int
    facts: int
    largest: int
    requests: tuple[Request, ...]
    batches: tuple[Batch, ...]


class Actor:
    """The model of one conversation."""

    def __init__(
        self, script: Script, clock: MemoryClock, *, ttl: CacheTtl = "5m", layout: ContextLayout = "timeline"
    ) -> None:
        self._layout = layout
        self._role = RoleChoice(model=MODEL, cache_ttl=ttl)
        self.bill, self.decisions, self.ideal = Bill(), Bill(), Ideal()
        self.own_cache = OwnCache()
        self.paths: dict[str, str] = {}
        self.requests: list[Request] = []
        self.recoveries = self.largest = 0
        self._number = -1
        self._calls = script.calls
        self._clock = clock
        self._cache = PromptCache(now_s=clock.monotonic_s)
        self._draw = random.Random(f"recovery {script.seed}")
        self._turn: Turn | None = None
        self._at = 0
        self._rested = False
        self._newest: list[str] = []

    def begin(self, turn: Turn) -> None:
        """Start the next turn."""
        self._turn, self._at, self._newest = turn, 0, []
        self._number += 1

    def stream(self, request: ModelRequest) -> Speech:
        """Account for a request, and answer it."""
        prompt = parse_prompt(plan_call(request, self._role))
        use = self._cache.look(prompt, workspace="ours")
        self._cache.commit(use)
        decides = request.role.startswith(DECIDES)
        text, extra = self._say(prompt) if decides else (make_summary(), True)
        self.bill.add(use, output=count_tokens(text) if extra else 0)
        if decides:
            now_s = self._clock.monotonic_s()
            self.decisions.add(use)
            self.ideal.take(prompt, now_s)
            self.own_cache.take(prompt, now_s)
            marked = prompt.tokens - use.plain
            self.requests.append(Request(self._number, now_s, marked, use.plain))
            self.largest = max(self.largest, prompt.tokens)
        self._clock.pause(REQUEST_S)
        return Speech(text, use)

    def _say(self, prompt: Prompt) -> tuple[str, bool]:
        """Return the script's next step, or a read of a hidden result; and True if the read is extra."""
        turn = self._turn
        if turn is None:
            raise MeasureError("the model was called before any message")
        cut = self._cut(prompt)
        if self._at >= len(turn.rounds):
            if cut:
                return _round(AGAIN, "", ("react.read", {"paths": cut})), True
            self._at += 1
            return _answer(turn), False
        if not self._rested and self._draw.random() < RECOVERY_SHARE:
            lost = [name for name in self.paths if self._calls[name].mark not in prompt.newest_message]
            if lost:
                self._rested = True
                self.recoveries += 1
                wanted = self.paths[self._draw.choice(lost)]
                return _round(AGAIN, "", ("react.read", {"paths": [wanted]})), True
        self._rested = False
        step = turn.rounds[self._at]
        self._at += 1
        self._newest = [call.name for call in step.calls]
        calls = [(TOOL, {"query": call.name}) for call in step.calls]
        return _round(step.thinking, step.notes, *calls, show=cut), False

    def _cut(self, prompt: Prompt) -> list[str]:
        """Return the paths of the newest results that the journal shows in part, each once."""
        if self._layout == "timeline":
            return []
        names, self._newest = self._newest, []
        return [self.paths[name] for name in names if self._calls[name].mark not in prompt.newest_message]

    def look(self, params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """The tool: return the script's result for a name, and remember its path."""
        call = self._calls[params["query"]]
        self.paths[call.name] = context.path("result")
        cited = context.cite([_source(call)]) if call.source else ()
        return ToolOutput(blocks=(context.result(TOOL, call.text),), sources=cited)


@dataclass
class Speech(InstantStream):
    """One answer, in one piece, with the cache use of its request."""

    use: CacheUse

    def __iter__(self) -> Iterator[str]:
        yield self.text

    def completion(self) -> Completion:
        usage = Usage(
            input_tokens=self.use.plain,
            cache_read_tokens=self.use.read,
            cache_write_5m_tokens=self.use.write_5m,
            cache_write_1h_tokens=self.use.write_1h,
            output_tokens=count_tokens(self.text),
        )
        return Completion(text=self.text, stop_reason="end_turn", usage=usage, model=MODEL)


def play(
    script: Script,
    *,
    wide: bool,
    context: ContextRules | None = None,
    ttl: CacheTtl = "5m",
    layout: ContextLayout = "timeline",
) -> Played:
    """Play a conversation to its end; every turn is a new process without a cache.

    Without `context` the defaults apply. The role that decides asks for caches that live for `ttl`, in a `layout`.
    """
    settings = Settings.from_env({})
    app = in_memory(settings)
    clock = app.ports.clock
    if not isinstance(clock, MemoryClock):
        raise MeasureError("the clock moves by itself")
    ports = app.ports
    if context is not None:
        ports = replace(ports, policy=replace(ports.policy, context=context))
    actor = Actor(script, clock, ttl=ttl, layout=layout)
    agent = make_agent(actor, wide=wide, layout=layout)
    for number, turn in enumerate(script.turns):
        clock.pause(turn.gap_s)
        actor.begin(turn)
        _play_turn(ports, agent, actor, number, turn)
    return _outcome(ports, agent, actor, script)


def make_agent(actor: Actor, *, wide: bool, layout: ContextLayout = "timeline") -> Agent:
    """Return the default agent with the workload's tool."""
    spec = ToolSpec(
        tool_id=TOOL,
        purpose="Look something up.",
        schema={
            "type": "object",
            "properties": {"query": {"type": "string", "description": "what to look for"}},
            "required": ["query"],
            "additionalProperties": False,
        },
        returns="text",
        effect="pure",
        read_only=True,
        strategies=("exploration",),
    )
    fanout = FanoutRule(mode="safe_fanout") if wide else FanoutRule()
    caps = read_caps(Settings.from_env({}))
    agent = build_agent(caps, parts=WORKFLOW.parts(), fanout=fanout, layout=layout)
    tools = [agent.registry.find(known.tool_id) for known in agent.registry.specs]
    return replace(agent, registry=Registry([*tools, Tool(spec=spec, run=actor.look)]))


def _play_turn(ports: Ports, agent: Agent, actor: Actor, number: int, turn: Turn) -> None:
    batch = admit(ports, LANE, Arrival(message_id=f"m{number}", user=USER, text=turn.prompt)).batch
    step, history = current_step(LANE, batch), History()
    while step.route != "close":
        if step.route == "act":
            step = act(ports, agent, history, step)
        elif step.route == "decide":
            step = decide(ports, agent, actor, history, step)
        else:
            raise MeasureError(f"turn {number} went to {step.route}")
    close(ports, step)


def _outcome(ports: Ports, agent: Agent, actor: Actor, script: Script) -> Played:
    batches = tuple(Journal(ports, LANE, "bench").since(0))
    entries = [entry for batch in batches for entry in batch.entries]
    decided = [entry for entry in entries if isinstance(entry, Decided)]
    if not all(entry.accepted for entry in decided):
        raise MeasureError("a round of the script was refused")
    ended = [entry for entry in entries if isinstance(entry, Compacted)]
    return Played(
        bill=actor.bill,
        decisions=actor.decisions,
        ideal=actor.ideal.bill,
        own_cache=actor.own_cache.bill,
        recoveries=actor.recoveries,
        prunes=sum(isinstance(entry, Pruned) for entry in entries),
        compactions=sum(entry.status == "completed" for entry in ended),
        skipped=sum(entry.status != "completed" for entry in ended),
        busts=sum(entry.bust is not None for entry in decided),
        facts=_recovered(ports, agent, actor, script),
        largest=actor.largest,
        requests=tuple(actor.requests),
        batches=batches,
    )


def _recovered(ports: Ports, agent: Agent, actor: Actor, script: Script) -> int:
    """Return how many of the planted facts are read by path, byte for byte, in a process without a cache."""
    journal = Journal(ports, LANE, "bench")
    timeline = History().load(journal, segment=journal.tail(consistent=True).state.segment)
    context = ToolContext(
        lane=LANE,
        turn=timeline.turns[-1],
        call_id="tc_000000000000",
        iteration=0,
        ts="2026-01-01T00:00:00Z",
        artifacts=ports.artifacts,
        timeline=timeline,
        caps=agent.caps,
    )
    found = (
        (load_content(read_path(actor.paths[name], context.turn), context), script.calls[name].text)
        for name in script.facts
    )
    return sum(content.text == text for content, text in found)


def _round(thinking: str, notes: str, *calls: tuple[str, dict[str, Any]], show: Sequence[str] = ()) -> str:
    said = "".join(
        _decision(
            {
                "action": "call_tool",
                "notes": "" if n else notes,
                "tool_call": {"tool_id": tool, "params": params},
                **({"show_artifacts": [*show]} if show and not n else {}),
            }
        )
        for n, (tool, params) in enumerate(calls)
    )
    return f"<channel:thinking>{thinking}</channel:thinking>{said}<channel:code></channel:code>"


def _answer(turn: Turn) -> str:
    said = _decision({"action": "complete", "notes": "", "final_answer": turn.answer})
    return (
        f"<channel:thinking>Everything is there.</channel:thinking>{said}<channel:code></channel:code>"
        f"<channel:summary>{turn.summary}</channel:summary>"
    )


def _decision(decision: dict[str, Any]) -> str:
    return f"<channel:ReactDecisionOutV2>```json\n{json.dumps(decision)}\n```</channel:ReactDecisionOutV2>"


def _source(call: Call) -> Source:
    return Source(
        title=f"On {call.name}", url=f"https://example.com/{call.name}", text="What it says in short."
    )
