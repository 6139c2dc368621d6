"""The template of tasks, for tests that run them on this machine."""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SIZES_MIB = (2048, 4096)
"""The sizes of tasks that tests ask for: made together, since loading the CDK takes longer than both."""
KEPT = ROOT / ".stepline/test-templates"
SOURCES = (
    "stepline_cdk",
    "layers/runtime/python/stepline",
    "exec_task",
    "cdk.json",
    "requirements.lock",
)
"""All that the template of tasks could be made from."""


@cache
def synthesise(*, memory_mib: int = 2048) -> dict[str, Any]:
    """Return the template of a stage in AWS. Skips where the CDK is not installed.

    Tests of several processes ask for it; the first one makes it, and it is kept for as long as its sources are the same.
    """
    if find_spec("aws_cdk") is None:
        pytest.skip("needs aws-cdk-lib: pip install -e '.[local,test]'")
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"tasks-{_digest()}.json"
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            for old in KEPT.glob("tasks-*"):
                old.unlink()
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps({str(size): _make(size) for size in SIZES_MIB}))
            fresh.rename(file)
        made: dict[str, dict[str, Any]] = json.loads(file.read_text())
    return made[str(memory_mib)]


def _digest() -> str:
    digest = hashlib.sha256(f"{sys.version} {version('aws-cdk-lib')}".encode())
    for name in SOURCES:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(
                    f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
                )
    return digest.hexdigest()[:16]


def _make(memory_mib: int) -> dict[str, Any]:
    # Only the process that makes it loads the CDK.
    import aws_cdk as cdk
    from aws_cdk.assertions import Template

    from stepline_cdk.execution import Execution
    from stepline_cdk.stage import Stage

    app = cdk.App(context=json.loads((ROOT / "cdk.json").read_text())["context"])
    stage = Stage(name="prod", exec_mode="fargate", exec_image="programs:1", exec_memory_mib=memory_mib)
    stack = cdk.Stack(app, "exec")
    Execution(stack, stage)
    return dict(Template.from_stack(stack).to_json())
