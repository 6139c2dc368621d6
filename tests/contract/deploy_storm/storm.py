"""A course, played on a stage: at every step boundary a rollout draws the release that runs the next step."""

from __future__ import annotations

import importlib
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from stepline.log.journal import read_since
from stepline.log.spill import hydrate
from stepline.loop.graph import UNKNOWN_ERROR
from stepline.model.batch import EMPTY, Batch
from stepline.model.entry import ApprovalRequested
from stepline.model.ids import Lane, make_lane
from tests.contract.deploy_storm.course import Course
from tests.contract.deploy_storm.effects import take_effects
from tests.contract.deploy_storm.mixed_stage import Execution, Stage, recorded
from tests.contract.deploy_storm.release_tree import ReleaseTree
from tests.contract.deploy_storm.rollout import Rollout
from tests.contract.deploy_storm.storm_client import StormClient

STEPS_MAX: Final = 400
SWEEPS_MAX: Final = 4
SWEEP_S: Final = 400
PARKED_S: Final = 30 * 86_400
FORK: Final = "-f"
"""The end of a fork's name."""
DIED: Final = type(UNKNOWN_ERROR, (Exception,), {})
"""The error of a function whose process ended, by the name under which the graph has all such errors."""
TRIES: Final = 2
"""How often a state machine repeats a step that a release refuses, before the turn ends with the error."""


@dataclass
class Played:
    """What a course left: the batches and the clients of its conversations, and the effects outside.

    `pairs` counts consecutive steps of a conversation by their releases, `refused` steps that a release could not read.
    """

    batches: dict[str, list[Batch]] = field(default_factory=dict)
    clients: dict[str, StormClient] = field(default_factory=dict)
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    stranded: list[str] = field(default_factory=list)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    steps: int = 0
    tasks: int = 0
    refused: int = 0


def _module(name: str) -> Any:
    """Return a module of the active release."""
    return importlib.import_module(f"stepline.{name}")


def any_release(_release: ReleaseTree) -> bool:
    """Return True."""
    return True


def reads_forks(release: ReleaseTree) -> bool:
    """Return True for a release that reads batches of format 2."""
    with release.active():
        return bool(_module("model.batch").FORMAT > 1)


def _is_refusal(answer: dict[str, Any] | Exception) -> bool:
    """Return True for the error of a release that meets a later format than its own."""
    return getattr(answer, "reason", "") == "format_newer"


def _failure(execution: Execution, error: Exception) -> dict[str, Any]:
    """Return what EventBridge says about an execution that failed."""
    detail = {"name": execution.name, "input": json.dumps(execution.step), "error": type(error).__name__}
    return {"detail-type": "Step Functions Execution Status Change", "detail": detail}


class Running:
    """An execution, by the state machine of the release that was deployed when it began."""

    def __init__(self, machine: ReleaseTree, execution: Execution) -> None:
        self.machine, self.execution = machine, execution
        self.refused = 0
        """How often releases have refused the current visit of a state."""
        self.step = execution.step
        with machine.active():
            step = importlib.import_module("msgspec").convert(self.step, _module("model.step").Step)
            self._course = _module("loop.turn").turn(step, jitter=lambda most_s: most_s)
            self._visit = next(self._course)
            self._function()

    def _function(self) -> None:
        graph = _module("loop.graph")
        self.function: str = graph.STATES[self._visit.state].function
        self.waits_for_task: bool = self._visit.state == graph.REMOTE.name
        self.pause_s: float = self._visit.pause_s
        self.attempt: int = self._visit.step.attempt
        if self._visit.step.error is not None:
            self.step = {**self.step, "error": self._visit.step.error}

    def follow(self, answer: dict[str, Any] | Exception) -> bool:
        """Go on to the next state; return True at the end. Raises the error with which the execution failed."""
        with self.machine.active():
            try:
                if isinstance(answer, Exception):
                    self._visit = self._course.throw(answer)
                else:
                    self.step = answer
                    step = importlib.import_module("msgspec").convert(answer, _module("model.step").Step)
                    self._visit = self._course.send(step)
                self._function()
            except StopIteration:
                return True
            return False


class Storm:
    """One course over one rollout. If it is `bounded`, a step is refused by no more releases than a state tries."""

    def __init__(self, stage: Stage, course: Course, rollout: Rollout, *, bounded: bool = True) -> None:
        self._bounded = bounded
        self._stage, self._course, self._rollout = stage, course, rollout
        self._random = random.Random(f"order {course.seed}")
        self._acts = {name: list(acts) for name, acts in course.acts.items()}
        self._said: Counter[str] = Counter()
        self._turns: dict[str, list[str]] = {}
        self._brief: set[str] = set()
        self._midst: set[str] = set()
        self._lost: set[str] = set()
        self._running: dict[str, Running] = {}
        self._last: dict[str, str] = {}
        self.played = Played()

    def play(self) -> Played:
        """Play the course to its end."""
        self.begin()
        self.run()
        return self.end()

    def begin(self) -> None:
        """Empty the stage, and let the users connect."""
        self._stage.clear(remote=self._course.remote)
        take_effects()
        for conversation in self._acts:
            self._join(conversation)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Go on until nothing happens any more, also after some sweeps, or `until` it holds."""
        sweeps = 0
        for _ in range(STEPS_MAX):
            if until():
                return
            if options := self._options():
                sweeps = 0
                self._take(self._random.choice(options))
            elif parked := [name for name in self._acts if self._state(name).parked]:
                self._stage.clock.pause(PARKED_S)
                self.rejoin()
                for name in parked:
                    self._answer(name)
            elif self.open_turns() and sweeps < SWEEPS_MAX:
                sweeps += 1
                self._stage.clock.pause(SWEEP_S)
                self._sweep({})
            else:
                return

    def rejoin(self) -> None:
        """Let every user come back, as after the connections' end."""
        for client in self.played.clients.values():
            client.rejoin()

    def running_forks(self) -> list[str]:
        """Return the forks whose turn has an execution."""
        running = (one for one in self._running.values() if not one.execution.ended)
        return [one.step["conversation"] for one in running if FORK in one.step["conversation"]]

    def open_turns(self) -> list[str]:
        """Return the conversations whose turn has not ended."""
        return [name for name in self._acts if self._state(name).status != "idle"]

    # --- what may happen next

    def _options(self) -> list[tuple[str, str]]:
        for name, execution in self._stage.executions.items():
            if name not in self._running and not execution.ended:
                self._running[name] = Running(self._rollout.draw(self._reads(execution.step)), execution)
        steps = [("step", name) for name, one in self._running.items() if not one.execution.ended]
        busy = {self._running[name].step["conversation"] for _, name in steps}
        idle = [
            name
            for name, acts in self._acts.items()
            if acts and name not in busy and self._state(name).status == "idle"
        ]
        rare = [("rejoin", self._random.choice([*self._acts]))] if self._random.random() < 0.1 else []
        rare += [("sweep", "")] if self._random.random() < 0.03 else []
        found = steps + [("act", name) for name in idle]
        return found + rare if found else []

    def _take(self, option: tuple[str, str]) -> None:
        self._stage.clock.pause(1)
        match option:
            case ("step", name):
                self._step(self._running[name])
            case ("act", name):
                self._act(name)
            case ("rejoin", name):
                self.played.clients[name].rejoin()
            case _:
                self._sweep({})
        for client in self.played.clients.values():
            client.read()

    # --- steps of executions

    def _step(self, running: Running) -> None:
        """Run one state to its end; a release that cannot read it is followed by another draw, as a retry is."""
        former = running.step
        if running.function == "decide":
            self._prepare(former)
        if not running.attempt:
            running.refused = 0
        while not running.execution.ended:
            self._stage.clock.pause(running.pause_s)
            release = self._rollout.draw(self._fits(running))
            self._count(former["conversation"], release)
            answer = self._invoke(release, running)
            self._follow(running, answer)
            if not _is_refusal(answer):
                break
            running.refused += 1
            self.played.refused += 1
        self._stage.midst = None

    def _invoke(self, release: ReleaseTree, running: Running) -> dict[str, Any] | Exception:
        step = running.step
        event = {"step": step, "attempt": running.attempt}
        try:
            if running.waits_for_task:
                return self._run_task(release, event)
            answer = self._stage.invoke(release, running.function, event)
        except Exception as error:  # noqa: BLE001 - the state machine's to judge
            return error
        moment = f"{step['conversation']}/{self._number(step)}/{step['iteration']} {running.function}"
        if moment not in self._lost and self._course.loses(moment):
            self._lost.add(moment)
            self._stage.forget(release)
            return DIED()
        return answer

    def _run_task(self, release: ReleaseTree, event: dict[str, Any]) -> dict[str, Any] | Exception:
        """Start a task with one release, and let it run in another; return what its state passes on."""
        tasks, step = self._stage.tasks, event["step"]
        token = f"token-{len(tasks.ended)}"
        tasks.waiting.add(token)
        self._stage.invoke(release, "act", {**event, "token": token})
        if token not in tasks.ended:
            self.played.tasks += 1
            self._stage.run_task(self._rollout.draw(self._reads(step)), step["launch"], token)
        error, cause = tasks.ended[token]
        return type(error, (Exception,), {})(cause) if error else step

    def _follow(self, running: Running, answer: dict[str, Any] | Exception) -> None:
        try:
            running.execution.ended = running.follow(answer)
        except Exception as error:  # noqa: BLE001 - the execution failed, which the sweeper learns
            running.execution.ended = True
            self._sweep(_failure(running.execution, error))

    def _fits(self, running: Running) -> Callable[[ReleaseTree], bool]:
        """Return the test of a release for a step: after some refusals it reads forks, and at once where no state tries again."""
        if (
            self._bounded
            and FORK in running.step["conversation"]
            and (running.refused >= TRIES or running.function == "execute")
        ):
            return reads_forks
        return any_release

    def _count(self, conversation: str, release: ReleaseTree) -> None:
        self.played.steps += 1
        if former := self._last.get(conversation):
            self.played.pairs[former, release.name] += 1
        self._last[conversation] = release.name

    def _prepare(self, step: dict[str, Any]) -> None:
        """Let the model say what the course has for this round, and the user what they say in its midst."""
        conversation, turn, iteration = step["conversation"], step["turn"], step["iteration"]
        number = self._number(step)
        plan = self._course.turn(conversation, number)
        self._stage.answer = lambda: self._course.generate(
            conversation, number, iteration, brief=turn in self._brief
        )
        if plan.midst and plan.at == iteration and turn not in self._midst:
            self._stage.midst = lambda: self._interrupt(conversation, turn, plan.midst)

    def _number(self, step: dict[str, Any]) -> int:
        """Return the number of a step's turn in its conversation, from 0."""
        turns = self._turns.setdefault(step["conversation"], [])
        if step["turn"] not in turns:
            turns.append(step["turn"])
        return turns.index(step["turn"])

    def _interrupt(self, conversation: str, turn: str, kind: str) -> None:
        self._midst.add(turn)
        if kind in ("steer", "stop"):
            self._brief.add(turn)
        text = "" if kind == "stop" else f"{conversation}: {kind}"
        self._say(conversation, {"action": "event", "kind": kind, "payload": {"text": text} if text else {}})

    # --- the users

    def _act(self, conversation: str) -> None:
        act = self._acts[conversation].pop(0)
        if act == "message":
            text = f"{conversation} asks {self._said[conversation]}"
            self._say(conversation, {"action": "send", "text": text})
            return
        fork = f"{conversation}{FORK}{self._said[conversation]}"
        event = recorded("ticket")
        path = f"/v1/conversations/{conversation}/forks"
        event["requestContext"]["http"] |= {"method": "POST", "path": path}
        point = {"kind": "batch", "at": str(self._tail(conversation).n)}
        body = {"conversation": fork, "point": point, "branch": act == "branch"}
        event["headers"] |= {"content-type": "application/json"}
        event |= {"rawPath": path, "body": json.dumps(body)}
        answer = self._stage.invoke(self._rollout.draw(reads_forks), "api", event)
        assert answer["statusCode"] == 201, answer
        self._acts[fork] = ["message"]
        self._join(fork)

    def _say(self, conversation: str, message: dict[str, Any]) -> None:
        self._said[conversation] += 1
        message_id = f"m{self._said[conversation]}"
        self.played.clients[conversation].say({**message, "message_id": message_id})

    def _answer(self, conversation: str) -> None:
        """Be the person who was asked a month ago."""
        entries = [entry for batch in self._batches(conversation) for entry in batch.entries]
        asked = [entry for entry in entries if isinstance(entry, ApprovalRequested)][-1].action
        verdict = self._course.verdict(asked.params["what"])
        more: dict[str, dict[str, Any]] = {
            "edit": {"params": {"what": f"{asked.params['what']} edited"}},
            "deny": {"text": "No."},
        }
        self._say(conversation, {"action": verdict, "call_id": asked.call_id, **more.get(verdict, {})})

    def _join(self, conversation: str) -> None:
        self.played.clients[conversation] = StormClient(conversation, self._stage, self._rollout.draw)
        self.played.clients[conversation].join()

    def _sweep(self, event: dict[str, Any]) -> None:
        forks = self._bounded and any(FORK in name for name in self._acts)
        release = self._rollout.draw(reads_forks if forks else any_release)
        try:
            self._stage.invoke(release, "sweeper", {**recorded("schedule"), **event})
        except Exception as error:
            if not _is_refusal(error):
                raise

    # --- the end

    def end(self) -> Played:
        """Return what is left, once every client has caught up."""
        played = self.played
        played.stranded = self.open_turns()
        played.stranded += [name for name, one in self._running.items() if not one.execution.ended]
        played.stranded += [f"secret {name}" for name in self._stage.tasks.secrets]
        for name, client in played.clients.items():
            played.batches[name] = self._batches(name)
            client.catch_up()
        played.effects = take_effects()
        return played

    def _reads(self, step: dict[str, Any]) -> Callable[[ReleaseTree], bool]:
        return reads_forks if FORK in step["conversation"] else any_release

    def _lane(self, conversation: str) -> Lane:
        return make_lane("acme", "support", conversation)

    def _tail(self, conversation: str) -> Batch:
        found = self._stage.log.tail(self._lane(conversation), consistent=True)
        return found or EMPTY

    def _state(self, conversation: str) -> Any:
        return self._tail(conversation).state

    def _batches(self, conversation: str) -> list[Batch]:
        log, lane = self._stage.log, self._lane(conversation)
        return [hydrate(self._stage.artifacts, one) for one in read_since(log, lane, 0, consistent=True)]
