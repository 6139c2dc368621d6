"""What every backend of the Executor port does with a program."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from stepline.errors import DependencyError
from stepline.model.ids import utc
from stepline.model.program.execution import Run
from stepline.model.program.running_log import RunningLog
from tests.contract.executor_jobs import BACKENDS, DEADLINES_S, LIMITS, SAID, Bench
from tests.support.bundle_on_disk import BUNDLE, READABLE

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=BACKENDS)
def bench(request) -> Iterator[Bench]:
    with BACKENDS[request.param]() as made:
        yield made


def test_a_program_prints_and_ends_with_0(bench):
    run = bench.run("print('hello')")
    assert (run.error, run.returncode, run.program_log) == ("", 0, "hello\n")
    assert run.log_bytes == 6
    assert run.seconds > 0


def test_files_under_outputs_are_collected_by_hash(bench):
    run = bench.ran("""
        from pathlib import Path
        Path("outputs/deep/er").mkdir(parents=True)
        Path("outputs/deep/er/sums.csv").write_text("a,1\\n")
        Path("files/notes.bin").write_bytes(bytes(range(256)))
    """)
    assert bench.bytes(run, "outputs/deep/er/sums.csv") == b"a,1\n"
    assert bench.bytes(run, "files/notes.bin") == bytes(range(256))
    assert len(run.files) == 2
    assert run.refused == ()


def test_the_program_is_in_the_folder_of_its_turn(bench):
    run = bench.ran("""
        import os
        assert os.getcwd() == os.path.join(OUTPUT_DIR, sorted(os.listdir(OUTPUT_DIR))[0])
        print(open(os.path.join(WORKDIR, "user_code.py")).read().count("getcwd"))
    """)
    assert run.program_log == "2\n"


def test_inputs_lie_where_their_paths_say_and_are_reported_unchanged(bench):
    pulled = "external/crm/attachments/path_0123456789ab/42"  # of a path of the bundle's own
    run = bench.ran(
        f"""
        print(open("outputs/data.csv").read(), open("../turn_0009/files/old.txt").read(), open("{pulled}").read())
        """,
        files=(
            bench.file("outputs/data.csv", b"1,2"),
            bench.file("turn_0009/files/old.txt", b"older"),
            bench.file(pulled, b"Ada"),
        ),
    )
    assert run.program_log == "1,2 older Ada\n"
    assert run.unchanged == (f"turn_0001/{pulled}", "turn_0001/outputs/data.csv", "turn_0009/files/old.txt")
    assert (run.files, run.deleted) == ((), ())


def test_changed_and_deleted_inputs_differ_from_unchanged_ones(bench):
    files = tuple(bench.file(f"outputs/{name}.txt", name.encode()) for name in ("kept", "changed", "gone"))
    run = bench.ran(
        """
        import os
        open("outputs/changed.txt", "a").write("!")
        os.remove("outputs/gone.txt")
        """,
        files=files,
    )
    assert bench.bytes(run, "outputs/changed.txt") == b"changed!"
    assert run.unchanged == ("turn_0001/outputs/kept.txt",)
    assert run.deleted == ("turn_0001/outputs/gone.txt",)


@pytest.mark.parametrize(
    ("code", "returncode", "wanted"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise ValueError('no such month')", 1, "ValueError: no such month"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
        ("import os; os.abort()", -6, ""),
        ("import ctypes; ctypes.string_at(0)", -11, ""),
    ],
)
def test_every_other_end_is_an_error_with_its_code(bench, code, returncode, wanted):
    run = bench.run(f"print('begun', flush=True)\n{code}")
    assert (run.error, run.returncode) == ("nonzero_exit", returncode)
    assert run.program_log.startswith("begun\n")
    assert wanted in run.program_log
    assert run.message


def test_a_syntax_error_is_reported_with_its_line(bench):
    run = bench.run("print('begun')\nthis is no Python")
    assert (run.error, run.returncode) == ("nonzero_exit", 1)
    assert 'user_code.py", line 2' in run.program_log
    assert "SyntaxError" in run.program_log


def test_await_works_at_the_top_level(bench):
    run = bench.ran("import asyncio\nawait asyncio.sleep(0)\nprint('awaited')")
    assert run.program_log == "awaited\n"


def test_a_program_has_children_and_threads(bench):
    run = bench.ran("""
        import subprocess, sys, threading
        from multiprocessing import get_context
        if __name__ == "__main__":
            print(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout.strip())
            with get_context("fork").Pool(2) as pool:
                print(pool.map(abs, [-1, -2]))
            thread = threading.Thread(target=print, args=("threaded",))
            thread.start()
            thread.join()
    """)
    assert run.program_log == "42\n[1, 2]\nthreaded\n"


def test_a_program_reads_the_conversation_through_its_tools(bench):
    run = bench.ran("""
        found = await ctx_tools.fetch_ctx("ar:turn_0001.user.prompt")
        print(found["ret"]["text"])
        read = await agent_io_tools.tool_call(tool_id="react.read", params={"paths": ["ar:turn_0001.user.prompt"]})
        print(read["status"])
    """)
    assert run.program_log == f"{SAID}\nok\n"
    assert [(call.tool_id, call.status) for call in run.calls] == [
        ("ctx_tools.fetch_ctx", "ok"),
        ("react.read", "ok"),
    ]
    assert SAID in run.calls[0].ret


def test_search_results_of_a_program_are_sources_of_its_run(bench):
    run = bench.ran(
        """
        for query in ("prompt caching", "cold starts"):
            for row in agent_io_tools.tool_call(tool_id="web_tools.web_search", params={"queries": query, "n": 1}):
                print(row["sid"], len(row["content"]) > len(row["text"]))
        """,
        tools=("web_tools.web_search",),
    )
    assert run.program_log == "1 True\n2 True\n"
    assert [(row.sid, row.authority) for row in run.sources] == [(1, "web"), (2, "web")]
    assert [event.type for event in run.events] == ["web_search.filtered_results"] * 2


def test_a_program_reads_a_page_and_hears_why_there_is_none(bench):
    run = bench.ran(
        """
        found = agent_io_tools.tool_call(tool_id="web_tools.web_search", params={"queries": "prompt caching", "n": 1})
        (page,) = agent_io_tools.tool_call(tool_id="web_tools.web_fetch", params={"urls": found[0]["url"]})
        print(page["sid"], page["status"], page["content"] == found[0]["content"])
        try:
            agent_io_tools.tool_call(tool_id="web_tools.web_fetch", params={"urls": "http://169.254.169.254/"})
        except agent_io_tools.ToolCallError as refused:
            print(refused.code)
        """,
        tools=("web_tools.web_search", "web_tools.web_fetch"),
    )
    assert run.program_log == "1 success True\naddress_refused\n"
    assert [event.type for event in run.events[1:]] == ["web_fetch.results"] * 2


def test_a_refused_call_raises_in_the_program_and_is_recorded_with_its_code(bench):
    run = bench.ran("""
        for tool, params in (("react.read", {"nonsense": 1}), ("react.write", {}), ("os.system", {})):
            try:
                agent_io_tools.tool_call(tool_id=tool, params=params)
            except agent_io_tools.ToolCallError as refused:
                print(refused.code)
    """)
    assert run.program_log.split() == ["bad_params", "tool_not_allowed", "unknown_tool"]
    assert [call.code for call in run.calls] == run.program_log.split()


def test_a_program_stopped_at_its_deadline_keeps_its_files(bench):
    code = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("outputs/half.txt", "w").write("half")
        print("so far")
        time.sleep(600)
        """
    for timeout_s in DEADLINES_S:
        run = bench.run(code, limits=msgspec.structs.replace(LIMITS, timeout_s=timeout_s))
        if run.files and run.program_log:
            break
    assert (run.error, run.returncode) == ("timeout", 124)
    assert run.program_log == "so far\n"
    assert bench.bytes(run, "outputs/half.txt") == b"half"


def test_a_flood_of_output_keeps_its_end_and_reports_its_size(bench):
    run = bench.ran(
        """
        for _ in range(3000):
            print("x" * 1000)
        print("the end")
        """,
        limits=msgspec.structs.replace(LIMITS, log_bytes=10_000),
    )
    assert run.log_bytes == 3000 * 1001 + 8
    assert len(run.program_log) <= 10_000
    assert run.program_log.endswith("x\nthe end\n")


def test_output_is_stored_while_a_program_runs(bench):
    for pause_s in (3, 12, 48):  # on a busy machine the first copy may take longer than the shorter ones
        code, copies = f"import time\nprint('ü early', flush=True)\ntime.sleep({pause_s})\nprint('late')", []
        run = bench.executor.run(dataclasses.replace(bench.job(code), keep_log=copies.append))
        assert run.program_log == "ü early\nlate\n"
        logs = [msgspec.json.decode(copy, type=RunningLog) for copy in copies]
        texts = [log.text for log in logs]
        if "ü early\n" in texts:
            break
    assert "ü early\n" in texts
    assert (logs[-1].text, logs[-1].ended, logs[-1].start) == ("ü early\nlate\n", True, 0)
    assert [log.since for log in logs[1:]] == [len(log.text) for log in logs[:-1]]


def test_a_run_says_when_its_program_began_and_ended_though_it_prints_nothing(bench):
    copies, asked_at = [], utc(datetime.now(UTC))
    run = bench.executor.run(dataclasses.replace(bench.job("pass"), keep_log=copies.append))
    done_at = utc(datetime.now(UTC))
    logs = [msgspec.json.decode(copy, type=RunningLog) for copy in copies]
    assert {(log.lane, log.text, log.began_at) for log in logs} == {("exec.0.log", "", run.began_at)}
    assert [log.ended for log in logs][-1:] == [True]
    assert asked_at <= run.began_at <= logs[-1].ended_at <= done_at


def test_a_log_that_cannot_be_kept_costs_the_run_nothing(bench):
    def keep(_copy):
        raise DependencyError("the store is away")

    run = bench.executor.run(dataclasses.replace(bench.job("print('hello')"), keep_log=keep))
    assert (run.error, run.program_log) == ("", "hello\n")


def test_no_file_grows_beyond_its_limit(bench):
    run = bench.run(
        "open('outputs/big.bin', 'wb').write(bytes(3 * 1024 * 1024))",
        limits=msgspec.structs.replace(LIMITS, max_file_bytes=MIB),
    )
    assert run.error == "file_size_limit"
    assert all(file.size_bytes <= MIB for file in run.files)


def test_growth_beyond_the_limit_stops_the_program(bench):
    run = bench.run(
        """
        import time
        for i in range(1000):
            open(f"outputs/{i}.bin", "wb").write(bytes(1024 * 1024))
            time.sleep(0.01)
        """,
        limits=msgspec.structs.replace(LIMITS, max_delta_bytes=8 * MIB),
    )
    assert run.error == "exec_workspace_delta_limit"


def test_growth_right_before_the_end_is_seen_too(bench):
    run = bench.run(
        "for i in range(3): open(f'outputs/{i}.bin', 'wb').write(bytes(1024 * 1024))",
        limits=msgspec.structs.replace(LIMITS, max_delta_bytes=2 * MIB, monitor_interval_s=60.0),
    )
    assert run.error == "exec_workspace_delta_limit"


def test_memory_is_limited(bench):
    run = bench.run(
        "bytearray(4 * 1024 * 1024 * 1024)", limits=msgspec.structs.replace(LIMITS, memory_bytes=1024 * MIB)
    )
    assert (run.error, run.returncode) == ("nonzero_exit", 1)
    assert "MemoryError" in run.program_log


def test_no_process_of_a_program_outlives_it(bench):
    run = bench.ran("""
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    open("outputs/beat.txt", "w").write(str(time.time()))
            os._exit(0)
        print("left over")
    """)
    assert run.program_log == "left over\n"
    again = bench.ran("""
        import os
        print(sorted(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())))
    """)
    assert again.program_log == "[]\n"


def test_of_the_environment_of_the_host_nothing_is_seen(bench, monkeypatch):
    monkeypatch.setenv("STEPLINE_TEST_SECRET", "planted-4711")
    run = bench.ran("import json, os; print(json.dumps(dict(os.environ)))")
    found = json.loads(run.program_log)
    assert "planted-4711" not in run.program_log
    assert {"WORKDIR", "OUTPUT_DIR", "EXECUTION_ID", "AGENT_IO_CONTEXT"} <= found.keys()
    assert found["EXECUTION_ID"] == f"tc_{bench.runs:012x}"
    assert found["BUNDLE_ID"] == BUNDLE
    assert not {name for name in found if name.startswith(("AWS", "STEPLINE", "KDCUBE", "DOCKER"))}


def test_the_readable_files_of_its_bundle_lie_at_its_root(bench):
    run = bench.ran("""
        import json, os, sys
        assert BUNDLE_ROOT == os.environ["BUNDLE_ROOT"] and os.path.isabs(BUNDLE_ROOT)
        found = {}
        for top, _, names in os.walk(BUNDLE_ROOT):
            for name in names:
                path = os.path.join(top, name)
                found[os.path.relpath(path, BUNDLE_ROOT)] = open(path).read()
        print(json.dumps(found))
    """)
    assert json.loads(run.program_log) == {name: body.decode() for name, body in READABLE.items()}
    assert (run.files, run.refused, run.deleted) == ((), (), ())


def test_a_bundles_files_cannot_be_changed_by_its_programs(bench):
    run = bench.ran("""
        import os, shutil
        def folder(): os.mkdir(f"{BUNDLE_ROOT}/new")
        def created(): open(f"{BUNDLE_ROOT}/new.txt", "w")
        def changed(): open(f"{BUNDLE_ROOT}/guide/roses.md", "a")
        def removed(): os.remove(f"{BUNDLE_ROOT}/guide/roses.md")
        def renamed(): os.rename(f"{BUNDLE_ROOT}/guide", f"{BUNDLE_ROOT}/guides")
        def opened(): os.chmod(f"{BUNDLE_ROOT}/guide/roses.md", 0o666)
        for attempt in (folder, created, changed, removed, renamed, opened):
            try:
                attempt()
            except OSError as error:
                print(error.strerror in ("Permission denied", "Operation not permitted", "Read-only file system"))
        print(open(f"{BUNDLE_ROOT}/guide/roses.md").read())
    """)
    assert run.program_log == "True\n" * 6 + "Thorns\n\n"


def test_there_is_no_network(bench):
    run = bench.ran("""
        import socket
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            try:
                socket.socket(family)
            except PermissionError:
                print("denied")
    """)
    assert run.program_log.split() == ["denied"] * 3


def test_the_isolation_that_was_reached_is_reported(bench):
    run = bench.ran("import os; print(os.getuid(), os.getgid())")
    assert run.program_log == "1001 1001\n"
    assert run.isolation.backend == bench.executor.backend
    assert run.isolation.seccomp
    assert run.isolation.no_new_privs
    assert run.isolation.uid == 1001
    assert run.isolation.kernel == os.uname().release


def test_a_run_finds_nothing_of_the_one_before(bench):
    code = """
        import os, pathlib, socket
        places = [os.environ["WORKDIR"], OUTPUT_DIR, "/tmp", "/dev/shm", "outputs"]
        for place in places:
            print(sorted(name for name in os.listdir(place) if name.startswith("mark")))
            pathlib.Path(place, "mark").write_text("1")
        import json
        print(hasattr(json, "mark"))
        json.mark = 1
    """
    expected = "[]\n" * 5 + "False\n"
    assert bench.ran(code).program_log == expected
    assert bench.ran(code).program_log == expected


def test_random_numbers_differ_from_run_to_run(bench):
    code = "import random, uuid; print(random.random(), uuid.uuid4())"
    assert bench.ran(code).program_log != bench.ran(code).program_log


def test_names_are_unicode(bench):
    run = bench.ran(
        """
        print(open("outputs/größe 表.txt", encoding="utf-8").read())
        open("outputs/naïve 😀.txt", "w", encoding="utf-8").write("ü")
        """,
        files=(bench.file("outputs/größe 表.txt", "ä".encode()),),
    )
    assert run.program_log == "ä\n"
    assert bench.bytes(run, "outputs/naïve 😀.txt") == "ü".encode()


def test_a_program_may_delete_its_working_folder(bench):
    run = bench.ran(
        "import shutil, os; shutil.rmtree(os.getcwd()); print('gone')",
        files=(bench.file("outputs/data.csv", b"1"),),
    )
    assert run.program_log == "gone\n"
    assert run.deleted == ("turn_0001/outputs/data.csv",)


def test_folders_without_permissions_are_collected_and_removed(bench):
    bench.ran("""
        import os
        os.makedirs("outputs/shut/inner")
        open("outputs/shut/inner/file", "w").write("x")
        os.chmod("outputs/shut/inner", 0)
        os.chmod("outputs/shut", 0)
    """)
    assert bench.ran("print('next')").program_log == "next\n"


def test_an_input_without_bytes_fails_the_run_before_it_begins(bench):
    missing = msgspec.structs.replace(bench.file("outputs/data.csv", b"1"), key="nowhere")
    run = bench.run("print('ran')", files=(missing,))
    assert (run.error, run.program_log) == ("restore_failed", "")
    assert "outputs/data.csv" in run.message


def test_an_input_with_other_bytes_fails_the_run_before_it_begins(bench):
    other = msgspec.structs.replace(bench.file("outputs/data.csv", b"12"), sha256="0" * 64)
    run = bench.run("print('ran')", files=(other,))
    assert (run.error, run.program_log) == ("restore_failed", "")


def test_every_report_has_every_field(bench):
    missing = msgspec.structs.replace(bench.file("outputs/data.csv", b"1"), key="nowhere")
    reports = [bench.run("pass"), bench.run("1 / 0"), bench.run("pass", files=(missing,))]
    decoded = [msgspec.json.decode(msgspec.json.encode(report), type=Run) for report in reports]
    assert decoded == reports
