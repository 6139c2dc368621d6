"""Deployments without an account: recorded programs, recorded prompts, and a CDK that writes an assembly."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import boto3
import pytest

from stepline.errors import SteplineError
from stepline.local.cloud.deploy import Order
from stepline.local.cloud.program.child import Done
from stepline.local.cloud.readiness import BOOTSTRAP_PARAMETER
from stepline_cdk.choice.__main__ import answer

ACCOUNT_ID = "123456789012"
REGION = "eu-central-1"
BOOTSTRAPPED = BOOTSTRAP_PARAMETER.format("hnb659fds")

TEMPLATES = {
    "stepline-dev-edge": {
        "Description": "page",
        "Resources": {"Site": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Delete"}},
    },
    "stepline-dev-state": {
        "Description": "logs",
        "Resources": {
            "Table": {"Type": "AWS::DynamoDB::GlobalTable", "DeletionPolicy": "Retain"},
            "Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Delete"},
        },
    },
    "stepline-dev-loop": {"Description": "loop", "Resources": {"Role": {"Type": "AWS::IAM::Role"}}},
}


NEEDS = {
    "stepline-dev-state": ["stepline-dev-state.assets", "stepline-dev-edge"],
    "stepline-dev-loop": ["stepline-dev-state"],
}


class Programs:
    """Starts nothing: records each command line, writes the files that the CDK would write, and fails on request.

    The app's answer about choices is its own, with `choices` as its environment.
    """

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.failing: set[str] = set()
        self.outputs: dict[str, dict[str, str]] = {"stepline-dev-state": {"TableName": "t"}}
        self.choices: dict[str, str] = {}
        self.on_bootstrap = lambda: None

    def __call__(self, command, environment, *, catch=False, cwd=None) -> Done:
        self.commands.append(list(command))
        self.environments.append(dict(environment))
        verb = self.verb(command)
        if verb in self.failing:
            return Done(code=1, text="no")
        if verb == "choices":
            return Done(code=0, text=json.dumps(answer(json.loads(command[3]), self.choices)))
        if verb == "cost":
            return Done(code=0, text="    1.60  USD a month while idle\n")
        if verb == "bootstrap":
            self.on_bootstrap()
        if verb == "synth":
            write_assembly(Path(command[command.index("--output") + 1]))
        if verb == "deploy":
            Path(command[command.index("--outputs-file") + 1]).write_text(json.dumps(self.outputs))
        return Done(code=0, text="")

    @staticmethod
    def verb(command) -> str:
        return {"-c": "cost", "-m": "choices"}.get(command[1], command[1])

    @property
    def verbs(self) -> list[str]:
        return [self.verb(command) for command in self.commands]

    def said(self, verb: str) -> str:
        """Return the last command line of a verb."""
        return " ".join(next(c for c in reversed(self.commands) if self.verb(c) == verb))


def write_assembly(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    artifacts = {
        # The CDK lists them by name, and their dependencies separately.
        name: {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": f"{name}.template.json"},
            "dependencies": NEEDS.get(name, []),
        }
        for name in sorted(TEMPLATES)
    }
    assets = {"stepline-dev-state.assets": {"type": "cdk:asset-manifest"}}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": {**artifacts, **assets}}))
    for name, template in TEMPLATES.items():
        (folder / f"{name}.template.json").write_text(json.dumps(template))


@cache
def session(region) -> boto3.Session:
    """Return one session for all tests: each would read the services' descriptions anew."""
    return boto3.Session(region_name=region)


def bootstrap(account, version="27") -> None:
    account.client("ssm").put_parameter(Name=BOOTSTRAPPED, Value=version, Type="String")


class RecordedPrompts:
    """The messages and questions; the answer is `yes` by default."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.questions: list[str] = []
        self.answers: list[bool] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.answers.pop(0) if self.answers else True

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def order(stage="dev", **fields) -> Order:
    return Order(stage=stage, **fields)


def refused(call, *arguments) -> SteplineError:
    """Return the error that a call raises."""
    with pytest.raises(SteplineError) as caught:
        call(*arguments)
    return caught.value
