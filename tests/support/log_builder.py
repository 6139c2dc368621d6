"""Logs: legal logs, built batch by batch, by hand or by hypothesis."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from stepline.log.transition import (
    closed,
    decided,
    interrupted,
    next_round,
    opened,
    rejected,
    reopened,
    resulted,
    started,
    steered,
    taken_over,
)
from stepline.loop.close import hand_back, settle_events, stop_of
from stepline.loop.steer import Steer, not_run, steer_in
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.block import Body, Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import (
    Closed,
    Compacted,
    Contributed,
    Decided,
    Deferred,
    Entry,
    Feedback,
    Hide,
    Inbound,
    Opened,
    Owner,
    Pruned,
    Reopened,
    Resulted,
    Started,
    SteeredEntry,
    TakenOver,
)
from stepline.model.ids import Lane, call_id, utc
from stepline.model.plan_steps import Plan
from stepline.rendering.piece import Piece
from stepline.timeline.fold import Timeline
from tests.support.budget import budget
from tests.support.files import read_of
from tests.support.strategies import arrivals, calls, texts, usages

LANE = Lane(tenant="acme", project="support", conversation="c-1")
BEGIN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
patient = settings(max_examples=budget(20, 600), suppress_health_check=[HealthCheck.too_slow])
"""Generating a log takes long on a busy machine, and no test asserts time."""

REACTIONS = ("ok", "not_ok", "neutral", None)


class LogBuilder:
    """A log under construction. `asks` are the tails of the model calls whose decisions were recorded."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.asks: list[int] = []
        self.now = BEGIN
        self.count = 0

    @property
    def state(self) -> State:
        return self.batches[-1].state if self.batches else EMPTY.state

    @property
    def n(self) -> int:
        return len(self.batches) + 1

    @property
    def turn(self) -> str:
        return self.state.turn

    @property
    def at(self) -> str:
        return utc(self.now)

    def timeline(self, upto: int | None = None) -> Timeline:
        return Timeline.empty(LANE).extended(self.batches[:upto])

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def put(self, state: State, *entries: Entry) -> Batch:
        batch = Batch(n=self.n, by="nonce", at=self.at, entries=entries, state=state)
        self.batches.append(batch)
        self.wait(1)
        return batch

    def call(self, index: int = 0) -> str:
        return call_id(self.turn, self.state.cursor.iteration, index)

    def message(self, text: str = "hello", *, event: str = "", reactive: bool = True, **fields: Any) -> Batch:
        """Add an event from outside; a kind that is always reactive, or never, ignores `reactive`."""
        idle, self.count = self.state.status == "idle", self.count + 1
        kind = event or ("prompt" if idle else "followup")
        reactive = {"prompt": True, "followup": True, "steer": False}.get(kind, reactive)
        about = {"user": "ada", "at": self.at, "reactive": reactive, **fields}
        said = Inbound(message_id=f"m{self.count}", event=kind, text=text, **about)
        entries: list[Entry] = [said] if self.batches else [Owner(user="ada"), said]
        state = self.state
        if idle and kind == "steer":
            entries.append(hand_back(self.n, said, "nothing_to_steer"))
        elif idle and reactive:
            turn = f"turn_{self.n:04}"
            entries.append(Opened(turn=turn, at=self.at, prompts=(self.n,)))
            state = opened(state, self.n, turn)
        return self.put(state, *entries)

    def decision(self, **fields: Any) -> Decided:
        return Decided(
            **{
                "iteration": self.state.cursor.iteration,
                "claim": self.state.claim,
                "action": "call_tool" if fields.get("actions") else "complete",
                "started_at": self.at,
                **fields,
            }
        )

    def act(self, *calls: tuple[str, dict[str, Any]], rendered: int = 0, **fields: Any) -> Batch:
        """Decide on tool calls."""
        return self._decide(self.decision(actions=self._actions(calls), **fields), rendered)

    def answer(
        self, text: str = "done", *calls: tuple[str, dict[str, Any]], rendered: int = 0, **fields: Any
    ) -> Batch:
        """Decide that the turn is complete, optionally with tool calls next to the answer."""
        entry = self.decision(answer=text, action="complete", actions=self._actions(calls), **fields)
        return self._decide(entry, rendered)

    def _actions(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> tuple[Action, ...]:
        return tuple(
            Action(call_id=self.call(i), tool_id=tool, params=params)
            for i, (tool, params) in enumerate(calls)
        )

    def dropped(self, index: int, code: str = "multi_action_bundle_duplicate") -> Notice:
        """Return the notice of a decision of this round that does not run; `index` counts from 0."""
        extra = {"index": index + 1, "parent_tool_call_id": self.call(index)}
        return Notice(code=code, message=f"Action {index + 1} was not run.", extra=extra)

    def reject(self, code: str = "action_schema_error", *, rendered: int = 0, **fields: Any) -> Batch:
        """Record a decision that breaks the protocol."""
        notice = Notice(code=code, message="Nothing ran. Write one decision.", extra={"raw": "<channel:"})
        return self._decide(
            self.decision(accepted=False, notices=(notice,), action="exit", **fields), rendered
        )

    def waiting_steer(self) -> Steer | None:
        """Return the steer that the open turn has not heeded yet."""
        return steer_in(self.batches[self.state.opened :], self.state.steered)

    def heeding(self, steer: Steer, phase: Any) -> SteeredEntry:
        """Return the entry of a heeded steer; a text leaves two rounds."""
        said, finalize = steer.event, 0 if steer.stops else 2
        about = {"turn": self.turn, "at": self.at, "iteration": self.state.cursor.iteration, "phase": phase}
        return SteeredEntry(n=steer.n, message_id=said.message_id, text=said.text, finalize=finalize, **about)

    def heed(self) -> Batch:
        """Heed a steer from before the round."""
        steer = self.waiting_steer()
        assert steer is not None
        entry = self.heeding(steer, "")
        return self.put(steered(self.state, entry.n, finalize=entry.finalize), entry)

    def interrupt(self, raw: str, *, rendered: int, answer: str = "", **fields: Any) -> Batch:
        """Record a decision that a steer cut off."""
        steer = self.waiting_steer()
        assert steer is not None
        self.asks.append(rendered)
        answered = {"accepted": False, "interrupted": True, "action": "exit", "raw": raw, "answer": answer}
        entry = self.heeding(steer, "decision")
        after = interrupted(self.state, self.n, rendered=rendered)
        after = steered(after, entry.n, finalize=entry.finalize)
        return self.put(after, self.decision(**answered, **fields), entry)

    def skip(self) -> Batch:
        """Record that a steer arrived before the remaining actions."""
        steer, state = self.waiting_steer(), self.state
        assert steer is not None
        entry = self.heeding(steer, "tools")
        decision = self._decision()
        assert decision is not None
        left = [
            not_run(action, decision.iteration, self.at) for action in decision.actions[state.cursor.action :]
        ]
        return self.put(steered(next_round(state, self.n), entry.n, finalize=entry.finalize), *left, entry)

    def _decide(self, entry: Decided, rendered: int) -> Batch:
        rendered = rendered or self.n - 1
        self.asks.append(rendered)
        if entry.accepted:
            state = decided(
                self.state,
                self.n,
                rendered=rendered,
                actions=len(entry.actions),
                ends=entry.action != "call_tool",
            )
        else:
            state = rejected(self.state, self.n, rendered=rendered)
        return self.put(state, entry)

    def result(
        self, text: str = "fine", *, tool: str = "react.read", status: str = "ok", **fields: Any
    ) -> Batch:
        call = self.call(self.state.cursor.action)
        entry = Resulted(
            **{
                "call_id": call,
                "tool_id": tool,
                "iteration": self.state.cursor.iteration,
                "status": status,
                "at": self.at,
                "blocks": (Produced(text=text),),
                **fields,
            }
        )
        return self.put(resulted(self.state, self.n), entry)

    def block(self, path: str, text: str = "", **fields: Any) -> Produced:
        return Produced(path=path, text=text, **fields)

    def file(self, name: str, *, visibility: str = "external", key: str = "out/secret-key") -> Produced:
        body = Body(key=key, sha256="0" * 64, size_bytes=42, mime="text/markdown")
        meta = {"visibility": visibility, "kind": "file"}
        return self.block(f"fi:{self.turn}.outputs/{name}", body=body, meta=meta)

    def plan(self, *steps: str, plan_id: str = "plan:turn_0001:0a", **fields: Any) -> Plan:
        made = {
            "created_ts": self.at,
            "last_ts": self.at,
            "origin_turn_id": self.turn,
            "last_turn_id": self.turn,
        }
        status = {str(n): "pending" for n in range(1, len(steps) + 1)}
        return Plan(**{"plan_id": plan_id, "steps": steps, "status": status, **made, **fields})

    def start(self) -> Batch:
        return self.put(started(self.state, self.n, self.call()), Started(call_id=self.call()))

    def reopen(self) -> Batch:
        entry = Reopened(iteration=self.state.cursor.iteration, attempt=self.state.attempt + 1)
        return self.put(reopened(self.state, self.n, entry.attempt), entry)

    def take_over(self) -> Batch:
        entry = TakenOver(turn=self.turn, reason="execution_ended", takeovers=self.state.takeovers + 1)
        return self.put(taken_over(self.state, self.n), entry)

    def view(self, path: str, text: str, *, whole: bool = True, index: int = 0, **meta: Any) -> Produced:
        """Return the view that a read shows of a path."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        about = {"source_path": path, "source_sha256": digest, "whole": whole, **meta}
        here = f"tc:{self.turn}.{self.call(self.state.cursor.action)}.view.{index}"
        return self.block(here, text, meta=about)

    def prune(self, *, keep: int = 6, intact: int = 2, **fields: Any) -> Batch:
        """Read older turns shorter from here on."""
        about = {"turn": self.turn, "at": self.at, "cause": "ttl", **fields}
        return self.put(self.state, Pruned(keep=keep, intact=intact, **about))

    def compact(self, *, cut: int = 0, split: int = 0, **fields: Any) -> Batch:
        """Replace the turns before the one that batch `cut` opened, and the open turn's rounds up to `split`."""
        texts = {"summary": "what was before" if cut else "", "checkpoint": "what was done" if split else ""}
        about = {
            "id": f"{self.turn}/{self.n}",
            "turn": self.turn,
            "at": self.at,
            "scope": "history" if cut else "current_turn_prefix",
            "status": "completed",
            "trigger": "render_token_limit",
            "before_tokens": 9,
            "max_tokens": 8,
        }
        return self.put(self.state, Compacted(cut=cut, split=split, **{**texts, **about, **fields}))

    def hide(self, path: str, n: int, replacement: str = "not needed") -> Batch:
        """Let the next action hide the content that batch `n` added at a path."""
        hidden = Hide(path=path, n=n, replacement=replacement)
        return self.result('{"status":"ok"}', tool="react.hide", hides=(hidden,))

    def rate(self, turn: str, reaction: Any = "ok", text: str = "", **fields: Any) -> Batch:
        """Let a user rate a turn."""
        return self.put(self.state, Feedback(turn=turn, at=self.at, reaction=reaction, text=text, **fields))

    def contribute(self, *blocks: Produced) -> Batch:
        """Let the code of a bundle contribute blocks."""
        return self.put(self.state, Contributed(turn=self.turn, at=self.at, blocks=blocks))

    def closed_turns(self) -> list[str]:
        """Return the turns that have ended, oldest first."""
        ends = [entry.turn for batch in self.batches for entry in batch.entries if isinstance(entry, Closed)]
        return list(dict.fromkeys(ends))

    def holding(self) -> bool:
        """Return True if an unseen event waits that requests an answer."""
        return settle_events(self._suffix(), self.state).holding

    def _suffix(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.n > self.state.rendered]

    def defer(self) -> Batch:
        entry = Deferred(turn=self.turn, iteration=self.state.cursor.iteration, answer=self._answer())
        return self.put(next_round(self.state, self.n), entry)

    def close(self, *, code: str = "", answer: str | None = None) -> Batch:
        """End the turn, hand back events that are discarded, and open the next turn if events wait."""
        stop = None if code else stop_of(self._suffix(), self.state)
        settled = settle_events(self._suffix(), self.state)
        if code:
            fields: dict[str, Any] = {"outcome": "error", "reason": "error", "code": code, "message": "No."}
        else:
            text = self._answer(stopped=stop is not None) if answer is None else answer
            fields = {"outcome": "completed", "reason": "stop" if stop else "complete", "answer": text}
        value = made.value if not (code or stop) and (made := self._decision()) else ""
        entries: list[Entry] = [Closed(turn=self.turn, at=self.at, value=value, **fields), *settled.dropped]
        state = closed(self.state)
        if settled.promoted:
            entries.append(Opened(turn=f"turn_{self.n:04}", at=self.at, prompts=settled.promoted))
            state = opened(state, self.n, f"turn_{self.n:04}")
        return self.put(state, *entries)

    def _decision(self) -> Decided | None:
        batch = self.batches[self.state.decided - 1] if self.state.decided else EMPTY
        return next((e for e in batch.entries if isinstance(e, Decided)), None)

    def _answer(self, *, stopped: bool = False) -> str:
        decision = self._decision()
        if stopped and not (decision and decision.interrupted and decision.answer):
            return "Stopped at your request."
        return decision.answer if decision else ""


@st.composite
def logs(draw: st.DrawFn, *, most: int = 30, forgetting: bool = False) -> LogBuilder:
    """Any legal log: events at any moment, rejections, several actions, retries, take-overs, several turns.

    With `forgetting`, also files and reads, and everything that makes the model read less: prunings, compactions and
    hidings, feedback, and contributions of a bundle's code.
    """
    log = LogBuilder()
    for _ in range(draw(st.integers(1, most))):
        log.wait(draw(st.sampled_from([0, 0, 0, 30, 400])))
        if not (forgetting and draw(st.integers(0, 3)) == 0 and forget(draw, log)):
            step(draw, log, forgetting=forgetting)
    return log


def step(draw: st.DrawFn, log: LogBuilder, *, forgetting: bool = False) -> None:
    """Take the next step of a conversation, or a possible one."""
    state = log.state
    if state.status == "idle":
        _idle(draw, log)
    elif draw(st.integers(0, 5)) == 0:
        _disturb(draw, log)
    elif log.waiting_steer() and state.cursor.phase != "close" and not state.running:
        log.heed() if state.cursor.phase == "decide" else log.skip()
    elif state.cursor.phase == "decide":
        _decide(draw, log)
    elif state.cursor.phase == "act" and forgetting:
        _act(draw, log)
    elif state.cursor.phase == "act":
        log.result(draw(texts), status=draw(st.sampled_from(["ok", "error", "unverified"])))
    elif log.holding() and not stop_of(log._suffix(), state) and draw(st.booleans()):
        log.defer()
    else:
        log.close()


def forget(draw: st.DrawFn, log: LogBuilder) -> bool:
    """Let the model read less, or receive a rating; return True if there was anything to do."""
    ways = ["rate"] if log.closed_turns() else []
    if log.state.status == "open" and log.state.cursor.phase == "decide":
        ways += ["prune", "compact", "contribute"]
    elif log.state.status == "open" and log.state.cursor.phase == "act":
        ways += ["hide"]
    if not ways:
        return False
    match draw(st.sampled_from(ways)):
        case "rate":
            turn, reaction = draw(st.sampled_from(log.closed_turns())), draw(st.sampled_from(REACTIONS))
            log.rate(turn, reaction, draw(texts), origin=draw(st.sampled_from(["user", "machine"])))
        case "prune":
            keep = draw(st.integers(1, 4))
            settled = draw(st.sampled_from([0, log.n - 1]))
            steady = draw(st.booleans())
            cause = draw(st.sampled_from(["ttl", "price"]))
            log.prune(
                keep=keep, intact=draw(st.integers(1, keep)), settled=settled, steady=steady, cause=cause
            )
        case "compact":
            cuts = [turn.opened for turn in log.timeline().history[1:]]
            cut = draw(st.sampled_from([0, *cuts]))
            log.compact(cut=cut, split=draw(st.sampled_from([0, log.n - 1])) if cut else log.n - 1)
        case "contribute":
            path = f"ar:{log.turn}.system.message.bundle_{log.n}"
            kind = draw(st.sampled_from(["stage.mood", "react.note"]))
            log.contribute(log.block(path, draw(texts), type=kind))
        case _:
            return _hide(draw, log)
    return True


def _hide(draw: st.DrawFn, log: LogBuilder) -> bool:
    shown = [piece for piece in log.timeline().pieces if can_hide(piece)]
    if not shown:
        return False
    piece = draw(st.sampled_from(shown))
    log.hide(piece.path, piece.n, draw(texts.filter(bool)))
    return True


def can_hide(piece: Piece) -> bool:
    """Return True if the model sees a piece that has a path."""
    return bool(piece.path and piece.text)


def _act(draw: st.DrawFn, log: LogBuilder) -> None:
    """Let an action produce a text, write a file, or read an existing content or a part of it."""
    long = draw(st.sampled_from(["", "and so on. " * 60]))
    match draw(st.sampled_from(["say", "write", "read", "range", "picture"])):
        case "say":
            log.result(draw(texts) + long, status=draw(st.sampled_from(["ok", "error", "unverified"])))
        case "write":
            path = f"fi:{log.turn}.outputs/{draw(st.sampled_from('ab'))}.md"
            log.result("", blocks=(Produced(text="{}"), log.block(path, draw(texts) + long)))
        case kind:
            blocks = [block for block in log.timeline().blocks() if block.path and not block.meta]
            block = draw(st.sampled_from(blocks))
            found = {"read_range": {"range_kind": "lines", "lines": "[1-1]/1"}} if kind == "range" else {}
            shown = log.view(block.path, block.text, whole=kind == "read", **found)
            log.result("", blocks=read_of(shown, width=draw(st.integers(1, 3)) if kind == "picture" else 0))


def _idle(draw: st.DrawFn, log: LogBuilder) -> None:
    event, reactive = draw(
        st.sampled_from(
            [("prompt", True), ("prompt", True), ("form", True), ("event", False), ("steer", False)]
        )
    )
    about = draw(arrivals) if event in ("form", "event") else {}
    log.message(draw(texts), event=event, reactive=reactive, **about)


def _disturb(draw: st.DrawFn, log: LogBuilder) -> None:
    ways = ["followup", "steer", "stop", "form", "event", "take_over", "reopen", "start", "error"]
    match draw(st.sampled_from(ways)):
        case "take_over":
            log.take_over()
        case "reopen" if log.state.cursor.phase == "decide":
            log.reopen()
        case "start" if log.state.cursor.phase == "act":
            log.start()
        case "error":
            log.close(code="step_failed")
        case "steer":
            log.message(draw(texts.filter(bool)), event="steer")
        case "stop":
            log.message("", event="steer")
        case "form" | "event" as kind:
            log.message(draw(texts), event=kind, reactive=kind == "form", **draw(arrivals))
        case _:
            log.message(draw(texts), event="followup", **draw(arrivals))


def _decide(draw: st.DrawFn, log: LogBuilder) -> None:
    asked = log.n - 1
    if draw(st.integers(0, 3)) == 0:
        log.message(draw(texts), **draw(arrivals))
    if draw(st.integers(0, 9)) == 0:
        log.message(draw(texts), event="steer")
        log.interrupt(draw(texts), rendered=asked, answer=draw(st.sampled_from(["", "so far"])))
        return
    thinking = tuple(draw(st.lists(texts, max_size=2)))
    common = {"rendered": asked, "thinking": thinking, "usage": draw(usages), "notes": draw(texts)}
    match draw(st.sampled_from(["act", "act", "answer", "reject"])):
        case "act":
            asked_for = draw(st.lists(calls, min_size=1, max_size=3))
            notices = [Notice(code="text_outside_channels", message=draw(texts))] * draw(st.integers(0, 2))
            notices += [log.dropped(len(asked_for) + i) for i in range(draw(st.integers(0, 2)))]
            log.act(*asked_for, **common, notices=tuple(notices))
        case "answer":
            beside = draw(st.lists(calls, max_size=2))
            log.answer(draw(texts.filter(bool)), *beside, **common, summary=draw(texts))
        case _:
            log.reject(**common, raw=draw(texts))
