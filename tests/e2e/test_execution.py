"""Programs on the deployed stage: what they get, what they leave, and how a turn goes on when one does not end well."""

from __future__ import annotations

import itertools

import pytest

from stepline.local.stage.deployed import client
from stepline.model.ids import make_lane
from stepline.model.path import exec_key
from tests.e2e.order import check_order, events, terminals
from tests.e2e.project import BEGIN, CHANGE
from tests.e2e.sales import PNG, TOTALS, WRITE, table_of, totals_of, written_totals
from tests.e2e.stage import a_word, answer_of, read_until
from tests.e2e.test_recovery import check_log

pytestmark = pytest.mark.emulator

DEADLINES_S = (2, 8, 32)
"""Deadlines of a program that is to print before them: on a busy machine it may not come so far in the first."""
EXEC = "exec_tools.execute_code_python"
RUN = "Run this program:\n```python\n{}\n```"
WAITING = """\
import time
from pathlib import Path

print("{word}", flush=True)
time.sleep(60)
Path("outputs").mkdir(exist_ok=True)
Path("outputs/late.txt").write_text("{word}")
"""


def the_run(stage, conversation):
    """Return the one result of a program in a conversation."""
    (result,) = [entry for entry in stage.entries(conversation, "result") if entry["tool_id"] == EXEC]
    return result


def the_call(stage, conversation):
    (call,) = [
        action
        for decision in stage.entries(conversation, "decision")
        for action in decision.get("actions", ())
        if action["tool_id"] == EXEC
    ]
    return call


def bodies(result):
    """Return the stored bodies of a result by the name of their file."""
    return {
        block["path"].rpartition("/")[2]: block["body"] for block in result["blocks"] if block.get("body")
    }


def report_of(result):
    return next(block["text"] for block in result["blocks"] if not block.get("path") and block.get("text"))


def entered(stage, conversation, epoch):
    return [
        event["stateEnteredEventDetails"]["name"]
        for event in stage.history(conversation, epoch)
        if event["type"].endswith("StateEntered")
    ]


def wait_for_start(stage, conversation, seen):
    """Wait until a process has claimed the program that a client saw requested."""
    (asked,) = [line for line in events(seen, "react.tool.call") if line["data"]["tool_id"] == EXEC]
    lane = make_lane("local", "default", conversation)
    key = exec_key(lane, asked["turn_id"], asked["data"]["call_id"], "started.json")
    waiter = client("s3", stage.deployed).get_waiter("object_exists")
    waiter.wait(Bucket=stage.deployed.bucket, Key=key, WaiterConfig={"Delay": 1, "MaxAttempts": 60})


def is_running(line):
    return line.get("type") == "code_exec.status" and line["data"]["status"] == "exec"


def test_a_table_of_an_earlier_turn_becomes_monthly_totals_and_a_chart(executing, conversation):
    stage = executing
    first = stage.send(WRITE.format(word=a_word()), conversation)
    lines = stage.send(TOTALS, conversation)
    check_order(lines, after=check_order(first))
    assert len(terminals(lines)) == 1

    results = {entry["tool_id"]: entry for entry in stage.entries(conversation, "result")}
    assert {tool: entry["status"] for tool, entry in results.items()} == {
        "react.write": "ok",
        "react.pull": "ok",
        EXEC: "ok",
    }
    expected = totals_of(stage.object_bytes(bodies(results["react.write"])["sales.csv"]["key"]))
    assert len(expected) == 5
    assert table_of(answer_of(lines)) == expected

    kept = bodies(results[EXEC])
    assert sorted(kept) == ["monthly_totals.csv", "monthly_totals.png"]
    chart = stage.object_bytes(kept["monthly_totals.png"]["key"])
    assert chart.startswith(PNG)
    assert len(chart) > 1024
    assert written_totals(stage.object_bytes(kept["monthly_totals.csv"]["key"])) == expected
    (files,) = events(lines, "chat.files")
    turn = files["turn_id"]
    assert sorted(item["logical_path"] for item in files["data"]["items"]) == [
        f"fi:{turn}.outputs/monthly_totals.csv",
        f"fi:{turn}.outputs/monthly_totals.png",
    ]
    assert [line["data"]["status"] for line in events(lines, "code_exec.status")] == ["gen", "exec", "done"]


def test_a_program_is_kept_and_can_be_read_later(computing, conversation):
    word = a_word()
    code = f'print("{word}")\nopen("outputs/{word}.txt", "w").write("{word}")'
    lines = computing.send(RUN.format(code), conversation)
    call = the_call(computing, conversation)
    assert call["code"] == code
    turn = events(lines, "chat.start")[0]["turn_id"]
    again = computing.send(f"Read fi:{turn}.code.{call['call_id']}", conversation)
    assert code.split("\n", maxsplit=1)[0] in answer_of(again)


DRAW = """\
import zlib
from pathlib import Path


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


# {word}
head = (40).to_bytes(4, "big") + (30).to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
rows = zlib.compress(b"".join(b"\\0" + bytes([200, 30, y]) * 40 for y in range(30)))
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
Path("outputs").mkdir(exist_ok=True)
Path("outputs/square.png").write_bytes(png)
page = "1 0 obj\\n<< /Type /Catalog /Pages 2 0 R >>\\nendobj\\n2 0 obj\\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\\nendobj\\n"
page += "3 0 obj\\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>\\nendobj\\n%" + "-" * 500
Path("outputs/square.pdf").write_text("%PDF-1.7\\n" + page + "\\ntrailer\\n<< /Root 1 0 R >>\\nstartxref\\n9\\n%%EOF\\n")
"""


def test_a_picture_and_a_pdf_of_a_program_are_read_back_and_on_the_wire_once(computing, conversation):
    word = a_word()
    computing.send(RUN.format(DRAW.replace("{word}", word)), conversation)
    kept = bodies(the_run(computing, conversation))
    for name, kind, seen in (("square.png", "image", 1), ("square.pdf", "document", 2)):
        answer = answer_of(computing.send(f"Read {name}, please.", conversation))
        assert "I see `fi:" in answer, answer
        newest = computing.model_requests(word)[-1]["body"]["messages"][0]["content"]
        files = [block for block in newest if block["type"] != "text"]
        assert len(files) == seen
        assert files[-1]["type"] == kind
        assert files[-1]["source"]["sha256"] == kept[name]["sha256"]
        hashes = [block["source"]["sha256"] for block in files]
        assert len(set(hashes)) == len(hashes)


def test_a_round_with_a_program_takes_at_most_six_transitions(computing, conversation):
    lines = computing.send(RUN.format("open('outputs/a.txt', 'w').write('a')"), conversation)
    assert the_run(computing, conversation)["status"] == "ok"
    names = entered(computing, conversation, events(lines, "chat.start")[0]["n"])
    decides = [at for at, name in enumerate(names) if name == "Decide"]
    assert names.count("Execute") == 1
    assert max(later - sooner for sooner, later in itertools.pairwise(decides)) <= 6


def test_a_later_program_gets_the_files_of_an_earlier_one(computing, conversation):
    word = a_word()
    first = computing.send(RUN.format(f"open('outputs/{word}.txt', 'w').write('{word[::-1]}')"), conversation)
    turn = events(first, "chat.start")[0]["turn_id"]
    reading = f"import os\nprint(open(os.environ['OUTPUT_DIR'] + '/{turn}/outputs/{word}.txt').read())"
    done = "open('outputs/done.txt', 'w').write('done')"
    lines = computing.send(RUN.format(f"{reading}\n{done}"), conversation)
    assert word[::-1] in answer_of(lines)
    called = [entry["tool_id"] for entry in computing.entries(conversation, "result")]
    assert called == [EXEC, "react.pull", EXEC]


def test_a_project_is_copied_patched_searched_and_run(computing, conversation):
    computing.send(BEGIN, conversation)
    lines = computing.send(CHANGE, conversation)
    results = computing.entries(conversation, "result")
    assert [(entry["tool_id"], entry["status"]) for entry in results] == [
        (EXEC, "ok"),
        ("react.checkout", "ok"),
        ("react.patch", "ok"),
        ("react.rg", "ok"),
        (EXEC, "ok"),
    ]
    assert "41: BIRD = 'crane'" in answer_of(lines)
    assert computing.object_bytes(bodies(results[-1])["bird.txt"]["key"]) == b"a crane"


def test_a_failed_program_is_reported_and_not_repeated(computing, conversation):
    word = a_word()
    lines = computing.send(RUN.format(f"raise ValueError('{word}')"), conversation)
    check_order(lines)
    assert terminals(lines)[0]["type"] == "chat.complete"
    result = the_run(computing, conversation)
    assert (result["status"], result["error"]["code"]) == ("error", "nonzero_exit")
    assert word in report_of(result)
    assert "did not succeed" in answer_of(lines)
    assert f"ValueError: {word}" in answer_of(lines)
    assert events(lines, "code_exec.status")[-1]["data"]["status"] == "error"
    assert not events(lines, "chat.files")


def test_a_program_that_takes_too_long_is_ended(computing, conversation):
    word = a_word()
    said, name = RUN.format(WAITING.format(word=word)), conversation
    for timeout_s in DEADLINES_S:
        conversation = f"{name}-{timeout_s}"
        lines = computing.send(said.replace(":", f" with a timeout of {timeout_s} seconds:", 1), conversation)
        result = the_run(computing, conversation)
        if word in report_of(result):
            break
    assert (result["status"], result["error"]["code"]) == ("error", "timeout")
    assert word in report_of(result)
    assert "timeout" in answer_of(lines)
    assert bodies(result) == {}


def test_a_worker_killed_while_a_program_runs_costs_the_program_and_no_more(computing, conversation):
    word = a_word()
    with computing.sending(RUN.format(WAITING.format(word=word)), conversation) as sender:
        seen = read_until(sender, is_running)
        wait_for_start(computing, conversation, seen)
        assert computing.kill_workers("execute") >= 1
        seen += read_until(sender, lambda line: line.get("terminal", False))
    check_order(seen)
    assert len(terminals(seen)) == 1
    result = the_run(computing, conversation)
    assert (result["status"], bodies(result)) == ("unverified", {})
    assert "I cannot tell whether" in answer_of(seen)
    check_log(computing, conversation)
    names = entered(computing, conversation, events(seen, "chat.start")[0]["n"])
    assert names.count("Execute") == 1
    again = computing.send(RUN.format("open('outputs/a.txt', 'w').write('a')"), conversation)
    assert terminals(again)[0]["type"] == "chat.complete"


def test_a_stop_while_a_program_runs_leaves_no_locked_conversation(computing, conversation):
    word = a_word()
    with computing.sending(RUN.format(WAITING.format(word=word)), conversation) as sender:
        seen = read_until(sender, is_running)
        wait_for_start(computing, conversation, seen)
        computing.command("down")
    computing.command("up")
    rest = computing.watch(conversation, "--after", str(check_order(seen)))
    assert len(terminals(rest)) == 1
    assert "I cannot tell whether" in answer_of(rest)
    assert the_run(computing, conversation)["status"] == "unverified"
    assert len(computing.entries(conversation, "takeover")) == 1
    check_log(computing, conversation)
    assert f"CONV#local#default#{conversation}" not in computing.open_lanes()
