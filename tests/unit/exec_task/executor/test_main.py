"""Programs that the executor runs without a jail: each test is one program and its result."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import exec_task.executor
from exec_task.executor.main import clean_environment
from stepline.adapters.sandbox.tool_server import SupervisorServer
from tests.unit.programs.tool_host import PROMPT, TURN, make_host

TOKEN = "t0ken"
PATIENCE_S = 60.0
PACKAGE = Path(exec_task.executor.__file__).parent
RUNNER = f"""
import json, os, sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
from executor import program
from executor.wire import Client
payload = json.loads(sys.argv[1])
client = Client(payload["socket"], payload["token"])
client.hello({{}})
os._exit(program.run(payload, client))
"""


@dataclass
class Ended:
    code: int
    out: str
    err: str
    root: Path
    calls: list[tuple[str, str]]


class Bench:
    """A workspace and a supervisor for successive programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.payload = {
            "v": 1,
            "exec_id": "tc_0123456789ab",
            "bundle_id": "bundles.roses",
            "turn": TURN,
            "work": str(root / "work"),
            "out": str(root / "out"),
            "bundle_root": str(root / "bundle"),
            "socket": str(root / "s"),
            "token": TOKEN,
            "aliases": {
                "test": ["echo", "refuse"],
                "react": ["read"],
                "ctx_tools": ["fetch_ctx", "more"],
                "mcp.x": ["y"],
            },
        }
        (root / "work").mkdir()
        (root / "out").mkdir()

    def run(self, code: str | bytes) -> Ended:
        (self.root / "work/user_code.py").write_bytes(code.encode() if isinstance(code, str) else code)
        host = make_host()
        given = {"token": TOKEN, "allowed_uids": frozenset({os.getuid()}), "quota": 50, "deadline_s": 60.0}
        with SupervisorServer(self.root / "s", host=host, **given):
            done = subprocess.run(
                [sys.executable, "-I", "-B", "-c", RUNNER, json.dumps(self.payload)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=PATIENCE_S,
                check=False,
            )
        calls = [(call.tool_id, call.code) for call in host.calls]
        return Ended(done.returncode, done.stdout, done.stderr, self.root, calls)


@pytest.fixture
def bench():
    with TemporaryDirectory(prefix="px-") as folder:
        yield Bench(Path(folder))


def test_a_program_finds_its_names_and_folders(bench):
    ended = bench.run("""
import os, sys, json
from pathlib import Path
assert isinstance(OUTPUT_DIR, str) and isinstance(OUT_DIR, Path) and str(OUT_DIR) == OUTPUT_DIR
assert Path.cwd() == OUT_DIR / os.listdir(OUTPUT_DIR)[0]
assert __name__ == "__main__" and __file__ == WORKDIR + "/user_code.py" == sys.argv[0]
assert sys.stdin.read() == ""
print(EXECUTION_ID, os.listdir(OUTPUT_DIR)[0], BUNDLE_ID, os.path.basename(BUNDLE_ROOT))
os.makedirs("outputs"); open("outputs/ä.txt", "w").write("x")
""")
    assert (ended.code, ended.out, ended.err) == (0, f"tc_0123456789ab {TURN} bundles.roses bundle\n", "")
    assert (ended.root / "out" / TURN / "outputs/ä.txt").read_text() == "x"


def test_an_existing_folder_of_a_turn_is_kept(bench):
    (bench.root / "out" / TURN / "files").mkdir(parents=True)
    assert bench.run("import os; print(os.listdir('.'))").out == "['files']\n"


def test_a_block_for_the_main_program_runs_and_what_it_defines_can_be_pickled(bench):
    ended = bench.run("""
import pickle
from dataclasses import dataclass
@dataclass
class Row:
    n: int
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Row(3))))
""")
    assert (ended.code, ended.out, ended.err) == (0, "Row(n=3)\n", "")


def test_await_works_at_top_level_and_other_programs_may_run_their_own_loop(bench):
    awaits = "import asyncio\nfor n in range(2):\n    await asyncio.sleep(0)\n    print(n)\nprint([i async for i in g()])"
    awaits = "async def g():\n    yield 1\n" + awaits
    assert bench.run(awaits).out == "0\n1\n[1]\n"
    runs = "import asyncio\nasync def main():\n    print('ran')\nasyncio.run(main())"
    assert bench.run(runs).out == "ran\n"


@pytest.mark.parametrize(
    "code",
    [
        "from __future__ import annotations\ndef f(x: Undefined): pass\nprint('ran')",
        b"\xef\xbb\xbfprint('ran')",
        "x = 1\r\nprint('ran')\r\n",
        "# -*- coding: latin-1 -*-\nassert len('\xe9') == 1\nprint('ran')".encode("latin-1"),
        "",
        "'''only text'''",
    ],
    ids=["future", "bom", "crlf", "coding line", "empty", "docstring"],
)
def test_a_program_runs_unchanged(bench, code):
    ended = bench.run(code)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out in ("ran\n", "")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\nif x\n    y", ["line 2", "if x", "SyntaxError: expected ':'"]),
        (b"x = 1\x00", ["null byte"]),
        (b"x = '\xff'", ["SyntaxError"]),
        ("  x = 1", ["IndentationError"]),
        ("(" * 300, ["Error"]),
        ("return 1", ["'return' outside function"]),
    ],
    ids=["grammar", "null", "encoding", "indentation", "nesting", "return"],
)
def test_a_syntax_error_is_reported_with_its_location_and_nothing_runs(bench, code, words):
    ended = bench.run(code)
    assert ended.code == 1
    assert all(word in ended.err for word in words), ended.err
    assert "executor" not in ended.err


def test_a_traceback_has_the_programs_lines_and_none_of_ours(bench):
    ended = bench.run("""import json

def load(text):
    return json.loads(text)

try:
    load("{")
except ValueError as error:
    raise RuntimeError("no data") from error
""")
    assert ended.code == 1
    assert f'File "{bench.root}/work/user_code.py", line 7, in <module>\n    load("{{")' in ended.err
    assert "line 4, in load\n    return json.loads(text)" in ended.err
    assert "direct cause of the following exception" in ended.err
    assert ended.err.endswith(
        'line 9, in <module>\n    raise RuntimeError("no data") from error\nRuntimeError: no data\n'
    )
    assert "executor" not in ended.err


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nawait asyncio.sleep(0)\n1 / 0",
        "import asyncio\nasync def f():\n    1 / 0\nawait asyncio.gather(f(), asyncio.sleep(0))",
        "import asyncio\nasync def f():\n    1 / 0\nasync with asyncio.TaskGroup() as group:\n    group.create_task(f())",
    ],
    ids=["top", "gather", "group"],
)
def test_a_traceback_of_a_coroutine_begins_in_the_program_too(bench, code):
    ended = bench.run(code)
    assert ended.code == 1
    assert "ZeroDivisionError: division by zero" in ended.err
    assert "runners.py" not in ended.err
    assert "executor" not in ended.err


def test_the_error_of_an_unawaited_task_is_printed(bench):
    ended = bench.run("""
import asyncio
async def fail():
    raise ValueError("lost")
task = asyncio.create_task(fail())
await asyncio.sleep(0)
await asyncio.sleep(0)
del task
""")
    assert ended.code == 0
    assert "ValueError: lost" in ended.err


@pytest.mark.parametrize(
    ("code", "status", "err"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(0)", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit(-1)", 255, ""),
        ("import sys; sys.exit('out of data')", 1, "out of data\n"),
        ("raise SystemExit(True)", 1, ""),
        ("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)", 4, ""),
        ("import os; os._exit(5)", 5, ""),
    ],
)
def test_a_program_ends_with_the_code_it_chooses(bench, code, status, err):
    ended = bench.run(f"print('said', end='', flush=True)\n{code}")
    assert (ended.code, ended.out, ended.err) == (status, "said", err)


def test_an_interrupt_has_its_own_exit_code(bench):
    ended = bench.run("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)")
    assert ended.code == 128 + signal.SIGINT
    assert ended.err.endswith("KeyboardInterrupt\n")


def test_a_terminated_program_runs_its_finally_blocks(bench):
    ended = bench.run("""
import os, signal, time
try:
    print("begun", end="")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
finally:
    print(" and put in order", end="")
""")
    assert (ended.code, ended.out, ended.err) == (128 + signal.SIGTERM, "begun and put in order", "")


def test_a_second_termination_signal_ends_the_program_immediately(bench):
    ended = bench.run("""
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
""")
    assert ended.code == -signal.SIGTERM


def test_a_fork_of_the_program_ends_immediately_by_the_same_signal(bench):
    ended = bench.run("""
import os, signal, threading
def fork():
    child = os.fork()
    if child == 0:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os._exit(9)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
fork()
thread = threading.Thread(target=fork)
thread.start()
thread.join()
""")
    assert (ended.code, ended.out) == (0, "15 set()\n" * 2)


def test_a_printed_line_is_flushed_immediately(bench):
    ended = bench.run("print('a line'); import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (ended.code, ended.out) == (-signal.SIGKILL, "a line\n")


def test_threads_and_exit_handlers_end_before_the_program_does(bench):
    ended = bench.run("""
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
atexit.register(print, "handler")
done = ThreadPoolExecutor(1).submit(print, "pool")
threading.Thread(target=lambda: (done.result(), time.sleep(0.05), print("thread"))).start()
""")
    assert ended.code == 0
    assert ended.out.splitlines() == ["pool", "thread", "handler"]


def test_children_of_a_pool_of_processes_call_tools_too(bench):
    ended = bench.run("""
import multiprocessing
def work(n):
    return test.echo(n=n)["n"] ** 2
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(pool.map(work, range(6)))
""")
    assert (ended.out, ended.err) == ("[0, 1, 4, 9, 16, 25]\n", "")
    assert len(ended.calls) == 6


def test_every_text_can_be_printed(bench):
    ended = bench.run("print('Grüße 🌍 \\ud800')")
    assert (ended.code, ended.out) == (0, "Grüße 🌍 \\ud800\n")


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close(); sys.stderr.close(); 1/0",
        "import sys; sys.stdout = sys.stderr = None; 1/0",
        "import sys; sys.stdout = sys.stderr = object(); 1/0",
        "import os; os.close(1); os.close(2); 1/0",
        "class E(Exception):\n    def __str__(self): raise E\nraise E",
        "def f(): f()\nf()",
        "import sys; sys.modules.clear(); 1/0",
    ],
    ids=["closed", "none", "odd", "descriptors", "unprintable", "recursion", "no modules"],
)
def test_a_program_that_breaks_its_environment_has_failed(bench, code):
    assert bench.run(code).code == 1


def test_modules_that_a_program_writes_are_found_and_find_the_tools(bench):
    ended = bench.run("""
open(f"{WORKDIR}/beside.py", "w").write("import test, agent_io_tools\\nfrom ctx_tools import fetch_ctx\\nfrom react import read\\nvalue = test.echo(n=1)")
open("here.py", "w").write("import io_tools, agent_io_tools\\nassert io_tools is agent_io_tools")
import beside, here
print(beside.value)
""")
    assert (ended.out, ended.err) == ("{'n': 1}\n", "")


def test_a_tool_can_be_called_in_every_supported_form(bench):
    ended = bench.run("""
same = [
    test.echo(n=1),
    await test.echo(n=1),
    test.echo({"n": 1}),
    agent_io_tools.tool_call(tool_id="test.echo", params={"n": 1}),
    await agent_io_tools.tool_call(fn=test.echo, params_json='{"n": 1}', call_reason="why", tool_id="test.echo"),
    await agent_io_tools.tool_call(test.echo, {"n": 1}, "why", "test.echo", "echo.json"),
    await io_tools.tool_call("test.echo", '{"n": 1}', reason="why"),
]
print(same == [{"n": 1}] * 7, len(same))
""")
    assert (ended.out, ended.err) == ("True 7\n", "")
    assert ended.calls == [("test.echo", "")] * 7


def test_conversation_content_can_be_read_directly_or_awaited(bench):
    ended = bench.run(f"""
import asyncio
one = ctx_tools.fetch_ctx("{PROMPT}")
print(one["ret"]["text"], type(one) is not dict, isinstance(one, dict))
both, again = await asyncio.gather(ctx_tools.fetch_ctx(["{PROMPT}", "fi:x"]), ctx_tools.fetch_ctx("{PROMPT}"))
print(both[1]["err"]["code"], again == one)
print((await react.read(paths=["{PROMPT}"]))["blocks"][1]["text"])
""")
    assert (ended.out, ended.err) == ("Summe? True True\ninvalid_path_file True\nSumme?\n", "")


def test_an_error_of_a_call_has_a_code_and_its_traceback_ends_in_the_program(bench):
    ended = bench.run("""
try:
    await test.refuse(kind="tool", code="own")
except agent_io_tools.ToolCallError as error:
    print(error.code, "|", error.message)
agent_io_tools.tool_call(tool_id="react.write", params={})
""")
    assert ended.out == "own | not like this\n"
    assert ended.code == 1
    assert "line 6, in <module>" in ended.err
    assert "ToolCallError: tool_not_allowed: react.write is the agent's own call" in ended.err
    assert "wire.py" not in ended.err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("react.write(path='x')", "AttributeError: react has no tool 'write' for programs; there is read"),
        ("from react import write", "ImportError: cannot import name 'write'"),
        ("test.echo('x')", "TypeError: test.echo takes its parameters by name"),
        ("agent_io_tools.tool_call()", "TypeError: name the tool"),
        ("agent_io_tools.tool_call(test.echo, tool_id='react.read')", "which one?"),
        ("agent_io_tools.tool_call(test.echo, {}, params_json='{}')", "not both"),
        ("agent_io_tools.tool_call(test.echo, '[1]')", "TypeError: params is an object"),
        ("test.echo(n=float('nan'))", "ValueError"),
        ("ctx_tools.more()", "unknown_tool"),
    ],
)
def test_an_invalid_call_has_an_error_message(bench, call, words):
    ended = bench.run(call)
    assert ended.code == 1
    assert words in ended.err


def test_an_alias_called_like_a_module_of_python_hides_none(bench):
    bench.payload["aliases"] = {"json": ["dumps"]}
    ended = bench.run("print(json.dumps); import json; print(json.dumps([1]))")
    assert ended.out == "<tool json.dumps>\n[1]\n"


def test_the_environment_of_a_program_is_a_fixed_list(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    places = {"work": "/w", "out": "/o", "bundle_root": "/b", "socket": "/s"}
    made = clean_environment({**places, "exec_id": "tc_1", "bundle_id": "b.c", "token": "t"})
    assert {
        key: made[key] for key in ("WORKDIR", "OUTPUT_DIR", "EXECUTION_ID", "BUNDLE_ID", "BUNDLE_ROOT")
    } == {
        "BUNDLE_ID": "b.c",
        "BUNDLE_ROOT": "/b",
        "WORKDIR": "/w",
        "OUTPUT_DIR": "/o",
        "EXECUTION_ID": "tc_1",
    }
    assert json.loads(made["AGENT_IO_CONTEXT"]) == {"v": 1, "socket": "/s", "token": "t"}
    assert "hunter2" not in str(made)
    assert set(made) == {
        "WORKDIR", "OUTPUT_DIR", "EXECUTION_ID", "BUNDLE_ID", "BUNDLE_ROOT", "AGENT_IO_CONTEXT", "PATH", "HOME", "TMPDIR",
        "MPLCONFIGDIR", "MPLBACKEND", "LANG", "TZ", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    }  # fmt: skip


def test_the_executor_is_the_standard_library_and_itself():
    foreign = set()
    for module in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                foreign |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                foreign.add((node.module or "").partition(".")[0])
    assert foreign - sys.stdlib_module_names == {"executor"}
