"""The context engine under everything that may happen to a conversation: nothing is lost, busted or outgrown unseen."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stepline.context.compaction import trial
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.attempt import Attempt
from stepline.model.batch import Batch
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import Compacted, Decided, Inbound, Opened, Pruned, Resulted
from stepline.model.path import parse_path
from stepline.rendering.result import whole_blocks
from stepline.rendering.turn_facts import prompt_path
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import decode_segment, encode_segment
from stepline.tools.content import load_content
from tests.support.budget import budget
from tests.support.conversation import LANE
from tests.support.generation import end_tag, start_tag, tagged
from tests.support.kept_events import lost_events
from tests.unit.context.simulated_context import LAB, RULES, SUMMARIES, Engine, Sent, decision

WARM_S = 290.0
FORGIVEN = 0.9
ASIDE = {"base", "batches", "load"}
"""What two folds of one log may have differently: how much of it is at hand."""

names = st.sampled_from(["ada", "bob", "the lab"])
sizes = st.sampled_from([40, 400, 3_000, 9_000])
answers = st.sampled_from(["Done.", "So it is done."])
waits = st.sampled_from([5, 60, 200, 295, 400])


def same(one: Timeline, other: Timeline) -> bool:
    """Return True if two folds are equal."""
    return all(
        getattr(one, field.name) == getattr(other, field.name)
        for field in fields(Timeline)
        if field.name not in ASIDE
    )


def texts_of(timeline: Timeline) -> list[str]:
    return [piece.text for piece in timeline.pieces if piece.text]


class ContextEngine(RuleBasedStateMachine):
    """A conversation, its users, its bundle, and processes that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.recorded: tuple[Sent, Decided] | None = None
        self.looked_at = 0
        self.shown: set[str] = set()

    @property
    def phase(self) -> str:
        state = self.engine.conversation.state
        return state.cursor.phase if state.status == "open" else "idle"

    # --- what happens

    @initialize(
        turns=st.lists(st.tuples(st.lists(sizes, max_size=3), answers, waits), min_size=1, max_size=5),
        density=st.sampled_from([1.0, 1.3, 0.7]),
    )
    def begin(self, turns: list[tuple[list[int], str, int]], density: float) -> None:
        """Have some turns, with a model whose tokens are more or less than four bytes."""
        self.engine.provider.density = density
        for looks, answer, wait_s in turns:
            self.have_a_turn(looks, answer, wait_s)

    @precondition(lambda self: self.phase == "idle")
    @rule(size=sizes)
    def prompt(self, size: int) -> None:
        self.engine.say("and now? " * (1 + size // 60))

    def have_a_turn(self, looks: list[int], answer: str, wait_s: int) -> None:
        """Ask, look a few times, answer, and be silent for a while."""
        self.engine.say("tell me more " * 3)
        for size in looks:
            self.decide(decision((LAB, {"name": "ada", "chars": size}), notes="I look."))
            self.go_on()
        while self.phase == "decide":
            self.decide(decision(answer=answer))
            self.go_on()
        self.engine.conversation.clock.pause(wait_s)

    @precondition(lambda self: self.phase in ("act", "close"))
    @rule()
    def go_on(self) -> None:
        """Run what is left of the round."""
        while self.phase in ("act", "close"):
            if self.phase == "act":
                self.engine.act()
            else:
                self.engine.close()

    @precondition(lambda self: self.phase != "idle")
    @rule(kind=st.sampled_from(["followup", "form", "alert"]), times=st.sampled_from([1, 40]))
    def hear(self, kind: str, times: int) -> None:
        self.engine.say("something else " * times, kind=kind)

    @precondition(lambda self: self.phase == "decide")
    @rule(
        what=st.sampled_from(["look", "look", "write", "note", "plan", "read", "hide", "hide"]),
        data=st.data(),
        goes_on=st.booleans(),
        cold=st.booleans(),
    )
    def ask_for(self, what: str, data: st.DataObject, goes_on: bool, cold: bool) -> None:
        """Let the model ask for something, and perhaps let it run at once."""
        actions = self.actions(what, data.draw)
        if actions:
            self.decide(
                decision(*actions, notes=data.draw(st.sampled_from(["", "I go on.", "✓ [1] done"]))),
                cold=cold,
            )
        if goes_on:
            self.go_on()

    def actions(self, what: str, draw: Any) -> list[tuple[str, dict[str, Any]]]:
        shown = [piece.path for piece in self.engine.folded().pieces if piece.path and piece.text]
        known = sorted(path for path in self.shown if path[:3] in ("tc:", "fi:", "ar:"))
        match what:
            case "look":
                looks = draw(st.lists(st.tuples(names, sizes), min_size=1, max_size=8))
                hears = {"hears": "wait"} if draw(st.booleans()) else {}
                calls = [
                    {"name": f"{name} {index}", "chars": size} for index, (name, size) in enumerate(looks)
                ]
                return [(LAB, {**call, **(hears if call is calls[0] else {})}) for call in calls]
            case "write" | "note":
                line, size = ("[D] we use UTC\n" if what == "note" else "a line of it\n"), draw(sizes)
                channel = "internal" if what == "note" else "canvas"
                kind = {"scratchpad": True} if what == "note" else {"kind": "file"}
                name = draw(st.sampled_from("ab"))
                content = f"# {size}\n" + line * (size // 40)
                return [
                    ("react.write", {"path": f"{name}.md", "channel": channel, "content": content, **kind})
                ]
            case "plan":
                return [
                    ("react.plan", {"mode": "new", "steps": draw(st.lists(names, min_size=1, max_size=3))})
                ]
            case "read" if known:
                paths = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
                return [("react.read", {"paths": paths})]
            case "hide" if shown:
                return [
                    ("react.hide", {"path": draw(st.sampled_from(shown[-8:])), "replacement": "not needed"})
                ]
            case _:
                return []

    @precondition(lambda self: self.phase == "decide")
    @rule(answer=answers, goes_on=st.booleans())
    def answer(self, answer: str, goes_on: bool) -> None:
        self.decide(decision(answer=answer))
        if goes_on:
            self.go_on()

    @precondition(lambda self: self.phase == "decide")
    @rule()
    def break_the_protocol(self) -> None:
        self.decide(tagged("thinking", "Hm.") + " {")

    @precondition(lambda self: self.phase == "act")
    @rule(cold=st.booleans())
    def act(self, cold: bool) -> None:
        self.engine.act(cold=cold)

    @precondition(lambda self: self.phase == "close")
    @rule()
    def close(self) -> None:
        self.engine.close()

    @rule(
        what=st.sampled_from(["wait", "process", "death", "provider", "feedback", "contribution"]),
        data=st.data(),
    )
    def disturb(self, what: str, data: st.DataObject) -> None:
        """Let something happen beside the conversation."""
        engine, draw = self.engine, data.draw
        match what:
            case "wait":
                engine.conversation.clock.pause(draw(waits))
            case "process":
                engine.begin_process()
            case "death" if self.phase != "idle":
                engine.log.puts_left, engine.log.applies = draw(st.integers(0, 2)), draw(st.booleans())
            case "provider":
                provider = engine.provider
                provider.summary = draw(st.sampled_from(SUMMARIES))
                provider.refusals, provider.overloads = draw(st.sampled_from([(0, 0), (0, 1), (1, 0)]))
            case "feedback":
                if ended := [turn.id for turn in engine.folded().history if turn.closed]:
                    engine.rate(draw(st.sampled_from(ended)), draw(st.sampled_from(["no", "not at all"])))
            case "contribution" if self.phase == "decide":
                kind = draw(st.sampled_from(["stage.mood", "react.note"]))
                path = f"fi:{engine.conversation.state.turn}.files/{kind}-{engine.conversation.tail.n}.md"
                engine.contribute(Produced(type=kind, path=path, text="[P] they like it short"))

    # --- what must hold

    def decide(self, words: str, *, cold: bool = False) -> None:
        """Ask, and hold the recorded request against the one before."""
        provider = self.engine.provider
        before, asked = len(provider.sent), len(provider.asked)
        sent = self.engine.decide(words, cold=cold)
        assert all(one.tokens <= RULES.budget for one in provider.sent[before:])
        assert all(tokens <= RULES.budget for tokens in provider.asked[asked:])
        if sent is None:
            return
        entry = self.engine.conversation.entries(Decided)[-1]
        self.check_events(sent)
        if self.recorded is not None:
            self.compare(*self.recorded, sent, entry)
        self.recorded = (sent, entry)

    def check_events(self, sent: Sent) -> None:
        """A request has every event of the open turn, unless the provider refused one of its size in this turn."""
        state = self.engine.conversation.state
        squeezed = [e for e in self.compacted if e.turn == state.turn and e.trigger == "forced" and e.room]
        assert squeezed or lost_events(self.engine.folded(state.rendered), sent.text) == []

    def compare(self, before: Sent, asked: Decided, after: Sent, entry: Decided) -> None:
        idle_s = (
            datetime.fromisoformat(entry.started_at) - datetime.fromisoformat(asked.started_at)
        ).total_seconds()
        if idle_s >= WARM_S:
            assert entry.bust is None
            return
        unchanged = all(after.text.startswith(prefix) for prefix in before.before_marks)
        enough = after.read >= FORGIVEN * before.held
        if entry.bust is None:
            assert enough or before.held < RULES.cache_minimum_tokens
        else:
            assert not enough
            assert not unchanged
            assert entry.bust.reason in ("hide", "prune", "compaction", "feedback")
            assert (entry.bust.expected_tokens, entry.bust.read_tokens) == (before.held, after.read)
        if unchanged:
            assert after.read >= before.held

    @invariant()
    def every_process_folds_the_same(self) -> None:
        folded = self.engine.folded()
        assert same(self.engine.remembered(), folded)
        assert same(decode_segment(encode_segment(folded), LANE, folded.form) or Timeline.empty(LANE), folded)
        self.shown |= {piece.path for piece in folded.pieces if piece.path and piece.text}

    @invariant()
    def what_was_reduced_stays_reduced(self) -> None:
        batches = self.engine.conversation.batches()
        for batch in batches[self.looked_at :]:
            for entry in batch.entries:
                self.look_at(batch, entry)
        self.looked_at = len(batches)

    def look_at(self, batch: Batch, entry: Any) -> None:
        if isinstance(entry, Pruned):
            before, after = self.engine.folded(batch.n - 1), self.engine.folded(batch.n)
            assert after.parts.size < before.parts.size or before.fresh  # new feedback is added
            assert texts_of(trial(after, entry)) == texts_of(after)
        if isinstance(entry, Compacted):
            before, after = self.engine.folded(batch.n - 1), self.engine.folded(batch.n)
            assert (
                after.parts.size < before.parts.size
                if entry.status == "completed"
                else after.parts.size == before.parts.size
            )
            *_, last = [None, *(other for other in self.compacted[: self.compacted.index(entry)])]
            assert not (last and self.was_vain(last) and entry.usage is not None)

    @property
    def compacted(self) -> list[Compacted]:
        return self.engine.conversation.entries(Compacted)

    def was_vain(self, entry: Compacted) -> bool:
        """Return True if a model was called without a useful result."""
        return entry.usage is not None and (entry.status != "completed" or bool(entry.reason))

    def teardown(self) -> None:
        """Read everything that was ever shown, in a process that knows the log and in one that has to read it."""
        conversation, folded = self.engine.conversation, self.engine.folded()
        cold = History().load(Journal(conversation.ports, LANE, "look"), segment=conversation.state.segment)
        said = self.said(folded)
        for timeline in (folded, cold):
            assert {path: self.read_whole(timeline, path) for path in said} == said
            assert [path for path in sorted(self.shown) if not self.read_whole(timeline, path)] == []

    def read_whole(self, timeline: Timeline, path: str) -> str | None:
        """Return what `react.read` finds at a path."""
        conversation = self.engine.conversation
        step = conversation.now(turn=timeline.turns[-1])
        attempt = Attempt(
            ports=conversation.ports,
            agent=conversation.agent,
            history=conversation.history,
            journal=Journal(conversation.ports, LANE, "look"),
            step=step,
        )
        action = Action(call_id="tc_000000000000", tool_id="react.read", params={})
        context = attempt.context(timeline, action, "2026-01-01T00:00:00.000Z")
        return load_content(parse_path(path), context).text

    def said(self, timeline: Timeline) -> dict[str, str]:
        """Return the newest text at each path, according to the log."""
        found: dict[str, str] = {}
        conversation = self.engine.conversation
        inbound = {b.n: e for b in conversation.batches() for e in b.entries if isinstance(e, Inbound)}
        for batch in conversation.batches():
            for entry in batch.entries:
                if isinstance(entry, Opened):
                    for index, n in enumerate(entry.prompts):
                        found[prompt_path(entry.turn, index, inbound[n].message_id)] = inbound[n].text
                if isinstance(entry, Resulted):
                    found |= self.resulted(entry, batch)
        return found

    def resulted(self, entry: Resulted, batch: Batch) -> dict[str, str]:
        found: dict[str, str] = {}
        turn = next(turn.id for turn in reversed(self.engine.folded().history) if turn.opened <= batch.n)
        for block in whole_blocks(entry, turn):
            if block.meta.get("source_path") or block.type == "react.notice":
                continue
            body = block.body
            text = self.engine.conversation.ports.artifacts.get(body.key).decode() if body else block.text
            found[block.path] = text
        return found


ContextEngine.TestCase.settings = settings(
    max_examples=budget(5, 150),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestContextEngine = ContextEngine.TestCase


def test_a_request_stays_in_its_budget_when_other_parts_grow() -> None:
    engine = Engine()
    for _ in range(4):
        engine.say("look at it")
        engine.decide(decision(answer="Done."))
        engine.close()
    engine.say("and at that")
    tokens = 0
    while tokens < RULES.budget - 450:
        sent = engine.decide(decision((LAB, {"name": "ada", "chars": 1_600 if tokens < 4_800 else 300})))
        assert sent is not None
        tokens = sent.tokens
        engine.act()
    assert not [
        *engine.conversation.entries(Compacted),
        *(e for e in engine.conversation.entries(Pruned) if e.cause == "budget"),
    ]
    for turn in engine.turns[:-1]:
        engine.rate(turn, "I do not like it. " * 110)
    sent = engine.decide(decision(answer="Done."))
    assert sent is not None
    assert sent.tokens <= RULES.budget


def test_compacted_rounds_without_a_result_still_get_a_checkpoint() -> None:
    engine = Engine()
    engine.say("please " * 2_500)
    engine.provider.summary = ""
    for _ in range(4):
        engine.decide(start_tag("thinking") + "Hm. " * 2_000 + (end_tag("thinking") + " {"))
    checkpoints = [entry.checkpoint for entry in engine.conversation.entries(Compacted) if entry.split]
    assert checkpoints
    assert all(checkpoints)
