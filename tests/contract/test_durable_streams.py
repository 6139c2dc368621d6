"""The read side of Durable Streams, judged by the protocol's own conformance suite, from npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

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


@pytest.mark.skipif(NPM is None, reason="there is no npm here")
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


def _run(folder: Path, *command: str, fails: bool = False) -> None:
    """Run a command of npm in a project of its own."""
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
