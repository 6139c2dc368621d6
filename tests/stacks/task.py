"""The template of tasks, for whoever runs them on this machine."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@cache
def synthesise(*, memory_mib: int = 2048) -> dict[str, Any]:
    """Return the template of a stage in AWS. Skips where the CDK is not installed."""
    cdk = pytest.importorskip("aws_cdk", reason="needs aws-cdk-lib: pip install -e '.[local,test]'")
    from aws_cdk.assertions import Template

    from stacks.execution import ExecutionStack
    from stacks.stage import Stage

    app = cdk.App(context=json.loads((ROOT / "cdk.json").read_text())["context"])
    stage = Stage(name="prod", exec_mode="fargate", exec_image="programs:1", exec_memory_mib=memory_mib)
    return Template.from_stack(ExecutionStack(app, stage)).to_json()
