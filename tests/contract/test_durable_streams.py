"""The read side of Durable Streams, judged by the protocol's own conformance suite, from npm."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, CrowdedServer, served
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered
from tests.support.stream_suite import WAIT_S, stream_server

SUITE: Final = "@durable-streams/server-conformance-tests@0.3.6"
NPM: Final = shutil.which("npm", path=str(Path(sys.executable).parent))
READS: Final = (
    *("Read Operations", "Long-Poll Operations", "HTTP Protocol should return correct headers on GET"),
    *("HTTP Protocol should return empty body", "HTTP Protocol should read from", "Browser Security Headers"),
    *(
        "HEAD Metadata",
        "Offset Validation",
        "Protocol Edge Cases",
        "Long-Poll Edge Cases",
        "Caching and ETag",
    ),
    *("Chunking and Large Payloads", "Read-Your-Writes", "JSON Mode", "Property-Based Tests"),
)
"""The beginnings of the names of its tests about reading; the others write, close, fork, expire, subscribe, or use SSE."""
WRITES: Final = "about the answer to a write, which this server has none of: the suite's become messages"
SSE: Final = "SSE: an HTTP API of AWS sends an answer as a whole, so `live=sse` is refused"
FINDINGS: Final = {
    "should include X-Content-Type-Options: nosniff on SSE responses": SSE,
    "should support offset=now with SSE mode": SSE,
    "should return 404 for offset=now with SSE on non-existent stream": SSE,
    "should support offset=now with SSE on empty stream": SSE,
    "should reject empty POST body with 400": WRITES,
    "should enforce case-sensitive seq ordering": WRITES,
    "should return Location header on 201": WRITES,
    "should reject missing Content-Type on POST": WRITES,
    "should return TTL metadata if configured": "a conversation does not expire",
    "should allow If-None-Match in CORS preflight responses": "the gateway answers preflights: tests/stacks/test_ingress_stack.py",
    "should reject POST with empty array body": WRITES,
    "should reject invalid JSON with 400": WRITES,
    "should reject empty JSON arrays with 400": WRITES,
    "out-of-order seq values are rejected": WRITES,
}
"""The accepted findings: the end of a test's name, and the reason."""
TEST: Final = """
import {{ runConformanceTests }} from "@durable-streams/server-conformance-tests"
runConformanceTests({{ baseUrl: "{url}", longPollTimeoutMs: {wait_ms} }})
"""
CLIENT: Final = "@durable-streams/client@0.2.7"
READ: Final = """
import {{ stream }} from "@durable-streams/client"
const [from, headers] = ["{url}/v1/conversations/{conversation}/stream", {{ Authorization: "Bearer {token}" }}]
const backoffOptions = {{ initialDelay: 1, maxDelay: 10, multiplier: 2 }}
const found = await stream({{ url: from, headers, offset: "-1", live: "long-poll", backoffOptions }})
const read = []
found.subscribeJson((batch) => {{
  read.push(...batch.items.map(({{ n }}) => n))
  if (read.length < 3) return
  console.log(JSON.stringify([read, batch.offset]))
  process.exit()
}})
"""

pytestmark = pytest.mark.skipif(NPM is None, reason="there is no npm here")


def test_the_suite_has_no_finding_about_reading_beside_the_accepted_ones(tmp_path: Path) -> None:
    _run(tmp_path, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", SUITE)
    with stream_server() as url:
        (tmp_path / "suite.test.ts").write_text(TEST.format(url=url, wait_ms=WAIT_S * 2_000))
        names = f"^({'|'.join(READS)})"
        timeout = ("--test-timeout", "120000")
        _run(
            tmp_path,
            "npx",
            "vitest",
            "run",
            "--reporter=json",
            "--outputFile=out.json",
            *timeout,
            "-t",
            names,
            fails=True,
        )
    found = json.loads((tmp_path / "out.json").read_text())
    tests = [one for file in found["testResults"] for one in file["assertionResults"]]
    failed = {one["title"]: one["failureMessages"][0][:500] for one in tests if one["status"] == "failed"}
    assert {title: why for title, why in failed.items() if title not in FINDINGS} == {}
    assert failed.keys() == FINDINGS.keys()
    assert sum(one["status"] == "passed" for one in tests) >= 80


def test_the_protocols_own_client_repeats_a_refused_read_and_reads_everything(tmp_path: Path) -> None:
    _run(tmp_path, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", CLIENT)
    conversation = Conversation(answered("One."))
    conversation.send()
    conversation.run()
    caller = Caller(conversation.ports)
    caller.services = dataclasses.replace(caller.services, wait_s=20)
    server = CrowdedServer(caller, refusals=2)
    with served(server) as url:
        script = READ.format(url=url, conversation=LANE.conversation, token=TOKEN)
        (tmp_path / "read.mjs").write_text(script)
        said = _run(tmp_path, "node", "read.mjs")
    assert (server.refusals, server.failures) == (0, [])
    assert json.loads(said) == [[1, 2, 3], "000000000003"]


def _run(folder: Path, *command: str, fails: bool = False) -> str:
    """Run a command of npm in a project of its own, and return its output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    ran: Any = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "CI": "1"},  # noqa: TID251 - npm finds its registry by its own variables
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert fails or ran.returncode == 0, ran.stderr
    return str(ran.stdout)
