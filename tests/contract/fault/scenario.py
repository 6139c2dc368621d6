"""Conversations that do much in little: what the model says, and when the user cuts in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from stepline.context.rules import ContextRules
from stepline.errors import ModelRateLimited
from stepline.loop.agent import Summariser
from stepline.model.entry import Opened
from stepline.ports.model import ModelRequest
from tests.contract.fault.account_promise import LIMITED as LIMITED_ACCOUNT
from tests.contract.fault.simulation import ADD, REPORT, STRIKE, Simulation, sampled, written
from tests.support.generation import called, coded, tagged

from .driver import AGAIN, Scenario

BUSY: Final = {"1.1": 2, "2.0": 1, "3.0": 1}
"""How often the provider asks for a wait in a round of the scenario `wait`."""
LIMITED: Final = {"1.0": called(STRIKE), "1.1": called(STRIKE)}
FIRST_TURN: Final = "turn_FIRST"
"""The placeholder for the id of the first turn."""
LONG: Final = "The otter eats fish and swims in the river all day long. " * 24


def follow(rounds: Mapping[str, str], simulation: Simulation, where: str, request: ModelRequest) -> str:
    """Play the script of the open turn's round, and otherwise answer in plain text."""
    if request.role.startswith("gate."):
        return tagged("thinking", "A title.") + tagged("output", "Otters")
    if request.role.startswith("context.compaction."):
        return "## Goals\nThe user wants a report on otters.\n## Next Steps\nWrite it."
    if simulation.state.waits < BUSY.get(where, 0) and rounds is LIMITED:
        raise ModelRateLimited("later, please", retry_after_s=8.0)
    if simulation.state.finalize == 1:
        return sampled(f"That is it for {where}.")
    said = rounds.get(where, sampled(f"Here you are: {where}. {LONG[:400]}"))
    return said.replace(FIRST_TURN, simulation.entries(Opened)[0].turn)


def simulation_of(rounds: Mapping[str, str], **fields: Any) -> Callable[[], Simulation]:
    return lambda: Simulation(speech=partial(follow, rounds), **fields)


def text(said: str) -> dict[str, Any]:
    return {"kind": "followup", "payload": {"text": said}}


STOP: Final = {"kind": "stop"}
FORM: Final = {"kind": "form", "payload": {"text": "colour: blue", "fields": {"colour": "blue"}}}
QUIET: Final = {"kind": "alert", "payload": {"text": "disk almost full"}}


def steer(said: str) -> dict[str, Any]:
    return {"kind": "steer", "payload": {"text": said}}


WORK: Final = Scenario(
    name="work",
    simulation=simulation_of(
        {
            "1.0": called(STRIKE),
            "1.1": coded("print('hello')", "totals.csv"),
            "1.2": written("report.md", f"# Report\n{LONG}"),
        },
        policy={"seal_batches": 6},
    ),
    first={**text("Strike, count, and write it down."), "bundle": "docs"},
    cues={"tool 1.0": {"f1": text("And be quick!")}, "stream 1.2": {"f2": text("In Markdown, please.")}},
)

STEER: Final = Scenario(
    name="steer",
    simulation=simulation_of(
        {
            "1.0": called(STRIKE),
            "1.1": sampled(f"A long story. {LONG}"),
            "1.2": written("so-far.md", LONG),
            "2.0": sampled("Thank you, too."),
        }
    ),
    first=text("Tell me a long story."),
    cues={"stream 1.1": {"s1": steer("Short, please."), "q1": QUIET}},
    later={"m2": text("Thanks."), "s2": steer("Too late.")},
)

STOPPED: Final = Scenario(
    name="stop",
    simulation=simulation_of(
        {"1.0": called(STRIKE), "1.1": called(STRIKE), "2.0": coded("print('hello')", "form.csv")}
    ),
    first=text("Strike twice."),
    cues={"tool 1.1": {"f1": text("Once more!"), "w1": FORM, "x1": STOP}, "program 2.0": {"x2": STOP}},
)

MEMORY: Final = Scenario(
    name="memory",
    simulation=simulation_of(
        {
            "1.0": written("a.md", LONG),
            "1.1": sampled(LONG * 3),
            "2.0": written("b.md", LONG * 3),
            "2.1": called(STRIKE),
            "2.2": sampled(LONG * 3),
            "3.0": called(STRIKE),
        },
        policy={"seal_batches": 4, "context": ContextRules(max_tokens=2_500, intact_turns=1, keep_turns=1)},
        agent_fields={
            "gate": "Name it.",
            "summariser": Summariser(summary="Sum up the turns.", prefix="Sum up the rounds."),
        },
    ),
    first=FORM,
    cues={"stream 1.1": {"q1": QUIET}, "tool 2.1": {"f1": text(f"And what do they drink? {LONG * 2}")}},
    later={"q2": QUIET, "m2": text(f"Go on. {LONG * 2}"), "m3": text("And now?")},
)

TASK: Final = Scenario(
    name="task",
    simulation=simulation_of(
        {"1.0": coded("print('hello')", "totals.csv"), "1.1": written("so-far.md", LONG)}, placement="remote"
    ),
    first=text("Count in a task."),
    cues={"program 1.0": {"s1": steer("Enough.")}},
)

UNHEARD: Final = Scenario(
    name="unheard",
    simulation=simulation_of(
        {"1.0": sampled(f"A long story. {LONG}"), "1.1": written("so-far.md", LONG), "2.0": called(STRIKE)},
        hearing="late",
    ),
    first=text("Tell me a long story."),
    cues={"stream 1.0": {"s1": steer("Short, please.")}, "tool 2.0": {"x1": STOP}},
    later={"m2": text("Strike.")},
)

WAIT: Final = Scenario(
    name="wait",
    simulation=simulation_of(LIMITED),
    first=text("Strike, please."),
    cues={
        "wait 1.1": {"f1": text("And be quick!"), "q1": QUIET},
        "wait 2.0": {"s1": steer("Short, please.")},
        "wait 3.0": {"x1": STOP},
    },
    later={"m2": text("Again."), "m3": text("And again.")},
)

KEPT: Final = Scenario(
    name="kept",
    simulation=simulation_of(
        {
            "1.0": written("files/app/a.md", "# A"),
            "1.1": written("files/b.md", "# B"),
            "2.0": written("files/app/a.md", "# A, again"),
            "3.0": sampled("Nothing to write."),
        },
        policy={"workspace": "git", "seal_batches": 6},
    ),
    first=text("Begin a project."),
    cues={"stream 1.2": {"q1": QUIET}, "stream 2.1": {"f1": text("Go on.")}},
    later={"m2": text("Change it."), "m3": text("And now?")},
)

PROJECT: Final = Scenario(
    name="project",
    simulation=simulation_of(
        {
            "1.0": written("files/a.md", "one\ntwo\n"),
            "1.1": written("files/b.md", LONG),
            "2.0": called("react.checkout", {"mode": "replace", "paths": [f"fi:{FIRST_TURN}.files/"]}),
            "2.1": called("react.patch", {"path": "files/a.md", "patch": "@@ -1 +1 @@\n-one\n+1\n"}),
        }
    ),
    first=text("Write it down."),
    later={"m2": text("Go on with it.")},
)

HOOKED: Final = Scenario(
    name="hooked",
    simulation=simulation_of(
        {"1.0": called(STRIKE), "1.1": sampled(f"A long story. {LONG}"), "2.0": sampled("Thank you, too.")},
        hooks=True,
        policy={"seal_batches": 6},
    ),
    first=text("Strike, please."),
    cues={"hook 1.1": {"f1": text("And be quick!")}, "stream 1.2": {"s1": steer("Short, please.")}},
    later={"m2": text("Thanks."), "m3": text("And again.")},
)

REMOTE: Final = Scenario(
    name="remote",
    simulation=simulation_of(
        {"1.0": called(ADD), "1.1": called(ADD), "2.0": called(ADD)}, remote=True, policy={"seal_batches": 6}
    ),
    first=text("Add two customers."),
    cues={"tool 1.0": {"f1": text("And be quick!")}, "tool 1.1": {"s1": steer("Enough.")}},
    later={"m2": text("One more.")},
)

LONG_CALL: Final = Scenario(
    name="long call",
    simulation=simulation_of({"1.0": called(ADD), "2.0": called(ADD)}, remote=True, tasks_last=3),
    first=text("Add a customer, slowly."),
    cues={"wait 1.0": {"f1": text("And be quick!")}},
    later={"m2": text("One more.")},
)

REPORTING: Final = Scenario(
    name="reporting",
    simulation=simulation_of({"1.0": called(REPORT), "2.0": called(REPORT)}, reports=True),
    first=text("Work, and report."),
    cues={"tool 1.0": {"f1": text("And be quick!")}},
    later={"m2": text("Once more.")},
)

PROGRAM_ASKS: Final = Scenario(
    name="program asks",
    simulation=simulation_of({"1.0": coded("print('hello')", "totals.csv")}, program_asks=True),
    first=text("Count, and ask which are late."),
    later={"m2": text("Thank you.")},
)

TASK_ASKS: Final = Scenario(
    name="task asks",
    simulation=simulation_of(
        {"1.0": coded("print('hello')", "totals.csv")}, program_asks=True, placement="remote"
    ),
    first=text("Count in a task, and ask which are late."),
    later={"m2": text("Thank you.")},
)

APPROVE: Final = {"action": "approve"}
DENY: Final = {"action": "deny", "text": "Not today."}
EDIT: Final = {"action": "edit", "params": {}}
ASKED: Final = Scenario(
    name="asked",
    simulation=simulation_of(
        {
            "1.0": called(STRIKE),
            "1.1": called(STRIKE),
            "1.2": called(STRIKE),
            "1.3": coded("print('hello')", "totals.csv"),
        },
        asks={STRIKE: "always", "exec_tools.*": "first_use"},
        policy={"seal_batches": 6},
    ),
    first=text("Strike three times, and count."),
    cues={
        "parked 1.0": {"m1": AGAIN, "f1": text("And be quick!"), "q1": QUIET},
        "parked 1.1": {"a0": AGAIN},
    },
    answers=(APPROVE, DENY, EDIT, APPROVE),
)

ASKED_STEERED: Final = Scenario(
    name="asked and steered",
    simulation=simulation_of(
        {
            "1.0": called(STRIKE),
            "1.1": written("so-far.md", LONG),
            "2.0": called(STRIKE),
            "3.0": called(STRIKE),
        },
        asks={STRIKE: "always"},
    ),
    first=text("Strike."),
    cues={
        "parked 1.0": {"s1": steer("Write it down instead.")},
        "parked 2.0": {"f2": text("Once more!"), "x1": STOP},
    },
    later={"m2": text("Strike again."), "m3": text("And again.")},
    answers=(APPROVE,),
)

BUDGET: Final = Scenario(
    name="limited",
    simulation=simulation_of(
        {"1.0": called(STRIKE), "1.1": written("so-far.md", LONG), "2.0": written("b.md", LONG)},
        asks={STRIKE: "always"},
        policy={"limits": LIMITED_ACCOUNT},
    ),
    first=text("Strike."),
    cues={"stream 1.1": {"s1": steer("Short, please.")}},
    later={"m2": text("Once more, without a strike.")},
    answers=(APPROVE,),
)

SCENARIOS: Final = (
    *(MEMORY, KEPT, ASKED),
    *(HOOKED, ASKED_STEERED, WAIT),
    *(WORK, STOPPED, PROJECT),
    *(BUDGET, UNHEARD, STEER),
    *(TASK, LONG_CALL, REMOTE),
    *(REPORTING, PROGRAM_ASKS, TASK_ASKS),
)
"""Ordered so that each of the three columns, one of which a landing plays, takes about as long as the others."""
SHARES: Final = 3
