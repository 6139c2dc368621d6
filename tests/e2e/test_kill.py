"""Workers killed at their writes, and answers of writes lost: no turn, no event and no file is, and nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from stepline.local.client.change import TextAppended
from stepline.local.stage.deployed import client
from tests.e2e.boundary import Boundary, killing_at, reached, stopping_functions
from tests.e2e.session_client import Device, check_devices, stored_batches
from tests.e2e.stage import a_word
from tests.e2e.task import SWEEPER
from tests.e2e.test_execution import EXEC, RUN
from tests.e2e.test_recovery import check_log
from tests.support.budget import budget

pytestmark = pytest.mark.emulator

LONG = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
PROGRAM = "open('outputs/{word}.txt', 'w').write('{word}')"
FUNCTIONS = ("sweeper", "decide", "act", "execute", "close", "socket")
PICKS = dict.fromkeys(FUNCTIONS, budget(1, 4))
"""How many boundaries of each function are tried."""
HOW = ("before", "after", "lost")
NEVER_LOST = "executor.run"
"""By its contract it answers, whatever happens."""
AT_ONCE = 3
SWEEP_EVERY_S = 10


def play(stage, conversation, *, loses=False):
    """Say something that takes a plan, a file and its reading, and in mid-turn that a program is to run."""
    word = a_word()
    stage.fault(kind="slow_tokens", match=word, count=40, token_delay_ms=5 if loses else 0)
    with Device(stage, conversation) as device:
        device.session.say(LONG.format(word=word))
        if loses:
            device.until(TextAppended)
            lose(stage, conversation)
            device.until_event("round.restarted")
        device.until_event("react.tool.call")
        device.session.say(RUN.format(PROGRAM.format(word=word)))
        device.until_settled()
        device.sync()
    check_devices(stage, conversation, device)
    check_log(stage, conversation)
    check_effects(stage, conversation, word)


def check_effects(stage, conversation, word):
    """Assert that every message came to an end that is well, the file is there once, and the program ran once."""
    assert {entry["outcome"] for entry in stage.entries(conversation, "closed")} == {"completed"}
    assert [entry["kind"] for entry in stage.entries(conversation, "in")] == ["in", "in"]
    results = stage.entries(conversation, "result")
    assert {entry["status"] for entry in results if entry["tool_id"] != EXEC} == {"ok"}
    (written,) = [entry for entry in results if entry["tool_id"] == "react.write"]
    (body,) = [block["body"] for block in written["blocks"] if block.get("body")]
    assert word in stage.object_bytes(body["key"]).decode()
    (ran,) = [entry["status"] for entry in results if entry["tool_id"] == EXEC]
    assert ran in ("ok", "unverified")


def lose(stage, conversation):
    """End the execution of the open turn, as a failure of the service would."""
    epoch = stored_batches(stage, conversation)[-1].state.epoch
    arn = stage.deployed.machine_arn.replace(":stateMachine:", ":execution:")
    states = client("stepfunctions", stage.deployed)
    states.stop_execution(executionArn=f"{arn}:{stage.execution(conversation, epoch)}")


@contextmanager
def sweeping(stage) -> Iterator[None]:
    """Let the sweeper look at everything now and then, as its schedule does, and more often.

    It starts what was opened or taken over, and by then for a minute not started.
    """
    over, failures = threading.Event(), []

    def sweep():
        while not over.wait(SWEEP_EVERY_S):
            answer = client("lambda", stage.deployed).invoke(
                FunctionName=SWEEPER, Qualifier="live", Payload=b"{}"
            )
            failures.extend([answer["Payload"].read()] if "FunctionError" in answer else [])

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failures


def pick(counts) -> Iterator[Boundary]:
    """Yield boundaries of each function: writes of different names, from the middle of what came of each."""
    for at, (function, picks) in enumerate(PICKS.items()):
        names = sorted(name for owner, name in counts if owner == function)
        for nth in range(min(picks, len(names))):
            name, how = names[(nth * len(names) + at) // picks % len(names)], HOW[(at + nth) % len(HOW)]
            how = "after" if (name, how) == (NEVER_LOST, "lost") else how
            yield Boundary(function, name, (counts[function, name] + 1) // 2, how)


def test_a_process_killed_at_a_write_costs_only_time(scripted, conversation, tmp_path, report):
    with stopping_functions(scripted, tmp_path, list(PICKS)) as folder:

        def count(loses):
            own = f"{conversation}-{'lost' if loses else 'kept'}"
            play(scripted, own, loses=loses)
            return reached(folder, own)

        def check(at):
            boundary, own = picked[at], f"{conversation}-{at}"
            with killing_at(folder, own, boundary):
                play(scripted, own, loses=boundary.function == "sweeper")
            assert reached(folder, own)["execute", "executor.run"] <= 1, "the program ran twice"

        with sweeping(scripted), ThreadPoolExecutor(AT_ONCE) as pool:
            counts, swept = pool.map(count, (False, True))
            counts |= {key: times for key, times in swept.items() if key[0] == "sweeper"}
            picked = list(pick(counts))
            checks = [pool.submit(check, at) for at in range(len(picked))]
        failed = [f"{picked[at]}: {error}" for at, one in enumerate(checks) if (error := one.exception())]
    tried = "\n".join(f"  {boundary}" for boundary in picked)
    report(f"{sum(counts.values())} boundaries reached, {len(picked)} tried:\n{tried}")
    assert not failed, "\n".join(failed)
