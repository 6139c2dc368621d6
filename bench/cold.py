"""Cold starts: the CPU time of a new process of a function, up to the first remote call that it is made for.

The functions run as they ship: handlers and layers built for this machine's architecture, never written to, by an
interpreter of Lambda. AWS is the local stage, reached through a proxy that reads a caller's CPU clock when the call arrives.
The conversation of each call is prepared beforehand, in this process.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import secrets
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from bench.meter import as_found
from bench.row import MeasureError, Row
from stepline.adapters.memory.machine import MemoryMachine
from stepline.bootstrap.aws_wiring import on_aws
from stepline.bootstrap.loop_app import LoopApp
from stepline.ingress.access import issue_ticket
from stepline.ingress.admit import Arrival, admit
from stepline.local.stage.deployed import LocalStage, client, credentials
from stepline.local.stage.lifecycle import stage_status, start_stage
from stepline.loop.decide import decide
from stepline.model.ids import make_lane
from stepline.model.step import Step
from stepline.ports.channel import Principal
from stepline.settings import Settings
from stepline_cdk.bytecode import MAGIC, find_python
from stepline_cdk.code import Code, build_deps

ROOT: Final = Path(__file__).resolve().parents[1]
HOME: Final = ROOT / ".stepline/bench-cold"
ROUNDS: Final = 5
GOALS: Final = {"authorizer": 1.3, "socket": 1.5, "decide": 2.0, "act": 1.6, "close": 1.6}
USER: Final = Principal(tenant="local", project="default", user="bench", expires_at=4_000_000_000)
TALK: Final = "Tell me about cold starts."
NO_INTERPRETER: Final = f"no interpreter of {', '.join(MAGIC)} on this machine"
PLAN: Final = "Make a plan with three steps, write it to a file and read it back."

PEER: Final = """\
import json, botocore.session
botocore.session.get_session().create_client("dynamodb").get_item(TableName="none", Key={"pk": {"S": "x"}, "sk": {"S": "x"}})
"""
FUNCTION: Final = """\
import json, sys
from types import SimpleNamespace
from lambdas.{name} import handler
print("ready", flush=True)
context = SimpleNamespace(
    function_name="bench", memory_limit_in_mb=512, invoked_function_arn="arn:aws:lambda:::function:bench:live", aws_request_id="1"
)
handler(json.loads(sys.argv[1]), context)
"""


def rows() -> list[Row]:
    """Return `cold_cpu_<function>`; the stage is started if it is not up."""
    found = find_interpreter()
    if found is None:
        return [
            Row(metric=f"cold_cpu_{name}", value=None, unit="x", goal=goal, note=NO_INTERPRETER)
            for name, goal in GOALS.items()
        ]
    spent: dict[tuple[str, str], list[Spent]] = {}
    with new_processes(*found, ways=("bytecode", "no bytecode")) as runs_of:
        for _ in range(ROUNDS):
            for way, runs in runs_of.items():
                spent.setdefault(("peer", way), []).append(runs.peer())
                for name in GOALS:
                    spent.setdefault((name, way), []).append(runs.function(name))
    middle = {key: Spent(*map(statistics.median, zip(*each, strict=True))) for key, each in spent.items()}
    return [_row(name, goal, middle, found[0]) for name, goal in GOALS.items()]


def find_interpreter() -> tuple[str, Path] | None:
    """Return the newest version of Lambda's that is on this machine, and its interpreter."""
    return next(((name, path) for name in reversed(MAGIC) if (path := find_python(name))), None)


@contextmanager
def new_processes(version: str, python: Path, *, ways: Iterable[str]) -> Iterator[dict[str, Runs]]:
    """Build the functions in each way, and let them reach the stage through the proxy."""
    running = stage_status()
    stage = (
        running.stage
        if running.stage and running.up
        else start_stage(lambda text: print(text, file=sys.stderr))
    )
    folders = {way: _build(version, python, way) for way in ways}
    with _proxy(stage) as proxy, _environment(stage, proxy) as prepared:
        yield {way: Runs(python, code, proxy, prepared) for way, code in folders.items()}


def _row(name: str, goal: float, spent: Mapping[tuple[str, str], Spent], version: str) -> Row:
    own, peer = spent[name, "bytecode"], spent["peer", "bytecode"]
    bare, bare_peer = spent[name, "no bytecode"], spent["peer", "no bytecode"]
    return Row(
        metric=f"cold_cpu_{name}",
        value=round(own.total_ms / peer.total_ms, 2),
        unit="x",
        peers={"without bytecode": round(bare.total_ms / peer.total_ms, 2)},
        goal=goal,
        note=f"{own.total_ms:.0f} ms of CPU, {own.initial_ms:.0f} of it before the event, and {own.resident_mib:.0f} MiB, over "
        f"{peer.total_ms:.0f} ms of a function that makes one client; without bytecode {bare.total_ms:.0f} over "
        f"{bare_peer.total_ms:.0f}; Python {version}, median of {ROUNDS}",
    )


def _build(version: str, python: Path, way: str) -> tuple[Path, ...]:
    """Return the folders that such a function imports from, for this machine's architecture."""
    deps = HOME / f"deps-{version}"
    deps.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "layers/deps/requirements.txt", deps)
    build_deps(deps, version, architecture=platform.machine())
    code = Code.for_aws(ROOT, version=version, compiler=python, deps=deps)
    folders = [code.folder, *(layer / "python" for layer in code.layers)]
    runtime = HOME / "runtime"  # Lambda's own part
    runtime.mkdir(exist_ok=True)
    spec = find_spec("snapshot_restore_py")
    shutil.copy(str(spec.origin if spec else ""), runtime)
    folders.append(runtime)
    if way == "bytecode":
        subprocess.run(
            [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", runtime], check=True
        )
        return tuple(folders)
    bare = [HOME / "sources" / str(at) for at, _ in enumerate(folders)]
    for source, target in zip(folders, bare, strict=True):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    return tuple(bare)


class Spent(NamedTuple):
    """The CPU time of a process up to its call, the part of it before the event, and the most memory that it had."""

    total_ms: float
    resident_mib: float
    initial_ms: float = 0.0


Mark = Callable[[str, bytes], bool]


def _writes_log(target: str, body: bytes) -> bool:
    return target.endswith((".PutItem", ".TransactWriteItems")) and b'"LOG#' in body


MARKS: Final[Mapping[str, Mark]] = {
    "peer": lambda target, _: target.endswith(".GetItem"),
    "authorizer": lambda target, _: target.endswith(".DeleteItem"),
    "socket": _writes_log,
    "decide": lambda target, _: target == "/v1/messages",
    "act": _writes_log,
    "close": _writes_log,
}
"""The call that each is made for, by its operation, or its path, and its body."""


class Proxy(ThreadingHTTPServer):
    """Passes requests on to the stage and to the model; ends a watched process at the call it is made for."""

    daemon_threads = True

    def __init__(self, stage: LocalStage) -> None:
        super().__init__(("127.0.0.1", 0), _Pass)
        self.stage = stage
        self.watched: tuple[subprocess.Popen[bytes], Mark] | None = None
        self.spent: Spent | None = None
        self.passed = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def saw(self, target: str, body: bytes) -> bool:
        """Take the CPU time of the watched process and end it, if this is the call."""
        if self.watched is None or not self.watched[1](target, body):
            return False
        process, _ = self.watched
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident_kib = int(status.partition("VmHWM:")[2].split()[0])
        self.spent = Spent(total_ms=_cpu_ms(process), resident_mib=resident_kib / 1024)
        process.kill()
        return True


def _cpu_ms(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time of a running process. Source: clock_getcpuclockid(3), as Linux encodes its clocks."""
    return time.clock_gettime((~process.pid << 3) | 2) * 1000


class _Pass(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path).path  # of an absolute address, as clients of a proxy send it
        is_model = path.startswith("/v1/messages")
        target = path if is_model else self.headers.get("x-amz-target", "")
        if self.server.saw(target, body):
            self.close_connection = True
            return
        self.server.passed += 1
        upstream = urlsplit(self.server.stage.model_url if is_model else self.server.stage.endpoint)
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=30)
        query = urlsplit(self.path).query
        headers = dict(self.headers)
        if is_model:  # its name is that of its own address
            headers.pop("Host", None)
        connection.request(self.command, f"{path}?{query}" if query else path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        connection.close()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _pass  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log no request."""


@contextmanager
def _proxy(stage: LocalStage) -> Iterator[Proxy]:
    proxy = Proxy(stage)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()


@dataclass
class Prepared:
    """The environments of the functions, and an app that prepares their events; its executions never run."""

    variables: Mapping[str, Mapping[str, str]]
    app: LoopApp

    def event(self, name: str) -> dict[str, Any]:
        """Return an event of a function, in a new conversation."""
        match name:
            case "authorizer":
                ticket = issue_ticket(self.app.ports, USER, "").ticket
                arn = "arn:aws:execute-api:us-east-1:000000000000:api/stage/$connect"
                return {
                    "methodArn": arn,
                    "headers": {},
                    "queryStringParameters": {"ticket": ticket},
                    "requestContext": {},
                }
            case "socket":
                connection = secrets.token_hex(8)
                self.app.ports.subscriptions.connect(connection, USER)
                body = {"action": "send", "conversation": _word(), "message_id": _word(), "text": TALK}
                return {
                    "requestContext": {"connectionId": connection, "routeKey": "$default"},
                    "body": json.dumps(body),
                }
            case "decide":
                return _state(self._opened(TALK))
            case "act":
                return _state(self._decided(PLAN, "act"))
            case "stream":
                return _read(self._decided(TALK, "close").conversation)
            case _:
                return _state(self._decided(TALK, "close"))

    def _opened(self, text: str) -> Step:
        """Open a turn and return the first step of its execution."""
        lane = make_lane(USER.tenant, USER.project, _word())
        admit(self.app.ports, lane, Arrival(user=USER.user, message_id=_word(), text=text))
        machine = self.app.ports.machine
        if not isinstance(machine, MemoryMachine):
            raise MeasureError("an execution would run")
        return machine.queue.pop()[1]

    def _decided(self, text: str, route: str) -> Step:
        step = self._opened(text)
        app = self.app
        while (step := decide(app.ports, app.agent, app.model, app.history, step)).route == "decide":
            pass
        if step.route != route:
            raise MeasureError(f"the model leads to {step.route}, not to {route}")
        return step


def _state(step: Step) -> dict[str, Any]:
    return {"step": msgspec.to_builtins(step), "attempt": 0}


def _read(conversation: str) -> dict[str, Any]:
    """Return the event of a read of a conversation as a stream."""
    return {
        "rawPath": f"/v1/conversations/{conversation}/stream",
        "queryStringParameters": {"offset": "-1"},
        "headers": {},
        "requestContext": {
            "http": {"method": "GET"},
            "authorizer": {"lambda": {name: str(value) for name, value in msgspec.to_builtins(USER).items()}},
        },
    }


def _word() -> str:
    return f"bench-{secrets.token_hex(6)}"


@contextmanager
def _environment(stage: LocalStage, proxy: Proxy) -> Iterator[Prepared]:
    """Read the deployed functions' variables, and prepare an app from those of Decide."""
    functions = client("lambda", stage)
    variables = {
        name: functions.get_function_configuration(FunctionName=f"stepline-local-{name}")["Environment"][
            "Variables"
        ]
        for name in (*GOALS, "stream")
    }
    own = {
        **credentials(Path(stage.home)),
        "AWS_ENDPOINT_URL": stage.endpoint,
        "AWS_DEFAULT_REGION": stage.region,
    }
    with as_found():
        os.environ.update(own)  # noqa: TID251 - AWS's own variables, as its clients read them
        model = {"ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": stage.model_url}
        # Its turns never end: with a limit they would occupy the stage's slots forever.
        unbounded = {**variables["decide"], **model, "STEPLINE_OPEN_TURNS": "0"}
        app = on_aws(Settings.from_env(unbounded), _NoMeter(), LoopApp)
        through = {**own, **model, "HTTP_PROXY": proxy.url, "ANTHROPIC_BASE_URL": proxy.url}
        yield Prepared(
            variables={name: {**given, **through} for name, given in variables.items()},
            app=replace(app, ports=replace(app.ports, machine=MemoryMachine())),
        )


class _NoMeter:
    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        """Count nothing: the preparation is not measured."""


@dataclass(frozen=True)
class Runs:
    """New processes of an interpreter that imports from these folders."""

    python: Path
    folders: tuple[Path, ...]
    proxy: Proxy
    prepared: Prepared

    def peer(self) -> Spent:
        """Run the function that makes one client."""
        return self._run("peer", PEER, "", self.prepared.variables["authorizer"])

    def function(self, name: str) -> Spent:
        """Run one of ours on a new event."""
        event = json.dumps(self.prepared.event(name))
        return self._run(name, FUNCTION.format(name=name), event, self.prepared.variables[name])

    def warm(self, name: str, program: str, calls: int) -> tuple[list[str], float]:
        """Run a program on `calls` events; return the lines it prints, and the mean requests of a call."""
        events = [json.dumps(self.prepared.event(name)) for _ in range(calls)]
        passed = self.proxy.passed
        process = self._start(name, program, "", self.prepared.variables[name])
        said, _ = process.communicate("\n".join(events).encode(), timeout=120)
        if process.returncode:
            raise MeasureError(f"{name}: {said.decode()[-2000:]}")
        return said.decode().splitlines(), (self.proxy.passed - passed) / calls

    def _run(self, name: str, program: str, argument: str, variables: Mapping[str, str]) -> Spent:
        process = self._start(name, program, argument, variables)
        self.proxy.spent, self.proxy.watched = None, (process, MARKS[name])
        first = process.stdout.readline() if process.stdout and name != "peer" else b""
        initial_ms = _cpu_ms(process) if first == b"ready\n" else 0.0
        said, _ = process.communicate(timeout=60)
        self.proxy.watched = None
        if self.proxy.spent is None:
            raise MeasureError(f"{name} ended before its call: {(first + said).decode()[:2000]}")
        return self.proxy.spent._replace(initial_ms=initial_ms)

    def _start(
        self, name: str, program: str, argument: str, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        environment = {
            **variables,
            "_HANDLER": f"lambdas.{name}.handler",
            "PYTHONPATH": os.pathsep.join(map(str, self.folders)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONSAFEPATH": "1",
            "PATH": os.defpath,
            "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9",  # it initialises as on Lambda
        }
        return subprocess.Popen(
            [self.python, "-S", "-c", program, argument],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
