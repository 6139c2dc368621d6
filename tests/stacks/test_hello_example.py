"""The app of examples/hello: it synthesises, its functions have its bundle, and the bundle answers."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from stepline.testing import answer, call_tool, run_turn
from stepline_cdk import Agent
from stepline_cdk.stage import Stage
from tests.stacks.empty_layers import ROOT, code_of

HELLO = ROOT / "examples/hello"


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process import what the app does: Python puts the folder of a program first."""
    monkeypatch.syspath_prepend(str(HELLO))
    yield
    sys.modules.pop("greeter", None)


@pytest.fixture
def assembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the app writes, with empty layers."""
    monkeypatch.setattr("stepline_cdk.Agent", partial(Agent, code=code_of(Stage(), tmp_path)))
    monkeypatch.setattr("aws_cdk.App", partial(cdk.App, outdir=str(tmp_path / "cdk.out")))
    _, program = json.loads((HELLO / "cdk.json").read_text())["app"].split()
    runpy.run_path(str(HELLO / program), run_name="__main__")
    return tmp_path / "cdk.out"


@pytest.mark.usefixtures("project")
def test_the_app_has_one_stack_whose_functions_have_the_bundle_and_the_key(assembly: Path) -> None:
    (file,) = assembly.glob("*.template.json")
    template: dict[str, Any] = json.loads(file.read_text())
    functions = [one for one in template["Resources"].values() if one["Type"] == "AWS::Lambda::Function"]
    (decide,) = [one for one in functions if one["Properties"]["Handler"] == "lambdas.decide.handler"]
    assert decide["Properties"]["Environment"]["Variables"]["STEPLINE_BUNDLE"] == "greeter"
    assert "ModelKey" in json.dumps(decide["Properties"]["Environment"]["Variables"])
    code = decide["Properties"]["Code"]["S3Key"].removesuffix(".zip")
    (package,) = assembly.glob(f"asset.{code}/greeter/__init__.py")
    assert package.read_bytes() == (HELLO / "greeter/__init__.py").read_bytes()
    assert "wss://" in json.dumps(template["Outputs"]["Socket"])


@pytest.mark.usefixtures("project")
def test_the_bundle_looks_the_opening_hours_up() -> None:
    decisions = [call_tool("greeter.hours", {"day": "sunday"}), answer("We are closed on Sunday.")]
    turn = run_turn("greeter", "When do you open on Sunday?", decisions=decisions)
    assert "closed" in turn.requests[1]
    assert turn.answer == "We are closed on Sunday."
