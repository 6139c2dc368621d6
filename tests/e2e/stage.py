"""The local stage as its tests drive it: by its own command line, by the scripted model's control endpoint, and
by looking at the emulated services themselves."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from stepline.local.client.websocket import dial_gateway
from stepline.local.stage.deployed import HOME, client, install_environment
from stepline.local.stage.lifecycle import mint
from stepline.local.stage.service import Service
from stepline.model.ids import execution_name, make_lane
from stepline.model.wire.event import decode_frame
from tests.e2e.http_user import HttpUser

STEPLINE = str(Path(sys.executable).with_name("stepline"))
TURN_TIMEOUT_S = 180
WAIT_S = 60


def a_word():
    """Return a word that no fixture and no cache can know."""
    return f"w{secrets.token_hex(5)}"


class Stage:
    """One deployed stage; `user` is a fresh one for each test, so that nothing of an earlier run is visible."""

    def __init__(self, deployed):
        self.deployed = deployed
        self.user = f"u{secrets.token_hex(4)}"

    @property
    def emulator(self):
        """The emulator's process."""
        return Service("emulator", HOME)

    def command(self, *arguments, check=True, env=None, cwd=None):
        """Run `stepline …` to its end and return it; `env` has another shell's variables, `cwd` is its folder."""
        done = subprocess.run(
            [STEPLINE, *arguments],
            capture_output=True,
            text=True,
            timeout=TURN_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**install_environment(), **(env or {})},
            cwd=cwd,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"stepline {arguments[0]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def send(self, text, conversation, *options, user="", check=True):
        """Return the lines of a whole turn."""
        words = ("send", text, "--conversation", conversation, "--new", "--user", user or self.user, *options)
        done = self.command(*words, "--json", check=check)
        return read_lines(done.stdout)

    def watch(self, conversation, *options):
        """Return the lines of what happened, and of what still comes."""
        done = self.command("watch", conversation, *options, "--user", self.user, "--json", check=False)
        return read_lines(done.stdout)

    def log(self, conversation):
        """Return the batches of a conversation."""
        return read_lines(self.command("log", conversation, "--json").stdout)

    def entries(self, conversation, kind):
        return [e for batch in self.log(conversation) for e in batch["entries"] if e["kind"] == kind]

    @contextmanager
    def sending(self, text, conversation):
        """Yield a client in the middle of its turn; it is killed at the end, if it lives."""
        with subprocess.Popen(
            [STEPLINE, "send", text, "--conversation", conversation, "--new", "--user", self.user, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def socket(self):
        """Yield a bare websocket and a function that reads its next frame."""
        dial = dial_gateway(self.deployed.socket_url, lambda: mint(self.deployed, self.user))
        with dial() as connection:
            yield connection, lambda: decode_frame(connection.recv(timeout=WAIT_S))

    def over_http(self, user="", **claims):
        """Return a user of the HTTP API; `claims` are those of another tenant or project, or a role."""
        return HttpUser(self.deployed.api_url, mint(self.deployed, user or self.user, **claims))

    def fault(self, **fault):
        """Let the scripted model misbehave for the next requests that hold `match`."""
        request = urllib.request.Request(
            f"{self.deployed.model_url}/control/faults",
            data=json.dumps(fault).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:
            assert response.status < 300

    def no_faults(self):
        """Let the scripted model behave from the next request on."""
        request = urllib.request.Request(f"{self.deployed.model_url}/control/faults", method="DELETE")
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:
            assert response.status < 300

    def model_requests(self, word):
        """Return the last requests to the scripted model that hold a word, and what it sent of its answers."""
        with urllib.request.urlopen(
            f"{self.deployed.model_url}/control/requests", timeout=WAIT_S
        ) as response:
            return [request for request in json.load(response) if word in json.dumps(request["body"])]

    def execution(self, conversation, epoch):
        """Return the name of the execution that batch `epoch` started."""
        return execution_name(make_lane("local", "default", conversation), epoch)

    def history(self, conversation, epoch):
        """Return the events of an execution."""
        arn = self.deployed.machine_arn.replace(":stateMachine:", ":execution:")
        pages = client("stepfunctions", self.deployed).get_paginator("get_execution_history")
        found = pages.paginate(executionArn=f"{arn}:{self.execution(conversation, epoch)}")
        return [event for page in found for event in page["events"]]

    def object_bytes(self, key):
        return client("s3", self.deployed).get_object(Bucket=self.deployed.bucket, Key=key)["Body"].read()

    def open_lanes(self):
        """Return the open marks of the listing, by partition key."""
        pages = client("dynamodb", self.deployed).get_paginator("scan")
        found = pages.paginate(TableName=self.deployed.table, FilterExpression="attribute_exists(lane_open)")
        return {item["pk"]["S"]: int(item["lane_open"]["N"]) for page in found for item in page["Items"]}

    def workers(self):
        """Return the variables of every worker process of the stage's functions."""
        found = (_variables(process) for process in Path("/proc").iterdir() if process.name.isdigit())
        return [
            seen
            for seen in found
            if seen.get("AWS_ENDPOINT_URL") == self.deployed.endpoint and "_HANDLER" in seen
        ]

    def kill_workers(self, function):
        """Kill every worker process of one function of this stage; return how many there were."""
        pids = self.worker_pids(f"lambdas.{function}.handler")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def worker_pids(self, handler="lambdas."):
        """Return the ids of this stage's worker processes whose handlers begin with a text."""
        processes = [process for process in Path("/proc").iterdir() if process.name.isdigit()]
        return [int(process.name) for process in processes if self._is_worker(process, handler)]

    def _is_worker(self, process, handler):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            return False
        ours = f"AWS_ENDPOINT_URL={self.deployed.endpoint}".encode() in environment
        runs = any(word.startswith(handler.encode()) for word in command)
        return ours and runs and b"awslambdaric" in command


def _variables(process):
    try:
        pairs = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return {}
    return dict(pair.partition("=")[::2] for pair in pairs if pair)


def read_lines(text):
    return [json.loads(line) for line in text.splitlines()]


def read_until(process, wanted):
    """Return the lines of a running client up to and with the first that is wanted."""
    lines = []
    for text in process.stdout:
        lines.append(json.loads(text))
        if wanted(lines[-1]):
            return lines
    raise AssertionError(f"the client ended before: {lines}")


def answer_of(lines):
    return next(line for line in lines if line.get("terminal"))["data"]["answer"]


def is_text(line):
    return line["frame"] == "delta"
