"""A CDK app of the caller's, whose agent the local stage runs in place of the runtime's own app.

The construct `stepline_cdk.Agent` reads the choices from the app's context, and writes the outputs that are read here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from stepline.errors import DependencyError, InputError
from stepline.local.install.agent_words import AGENT_OUTPUT, BUNDLE_OUTPUT, CONTEXT
from stepline.local.stage.deployed import LOCAL_STAGE, LocalStage, read_json
from stepline.model.base import Value

_STACK: Final = "aws:cloudformation:stack"
_ASSEMBLY: Final = "cdk:cloud-assembly"


class OwnApp(Value):
    """The folder of the app, and the path of the construct to run; the first agent if it is empty."""

    folder: str
    agent: str = ""

    def context(self, choices: Mapping[str, str]) -> dict[str, str]:
        """Return the choices of the local stage as the app's context."""
        return {CONTEXT: json.dumps({"agent": self.agent, "choices": dict(choices)})}


class AssembledStack(Value):
    """A stack of a cloud assembly: its path in the app, its name in the account, its template."""

    path: str
    name: str
    template: dict[str, Any]


class AssembledAgent(Value):
    """The agent of an assembly that is made for the local stage, and what the ids of its outputs begin with."""

    stack: AssembledStack
    prefix: str

    @property
    def module(self) -> str:
        """The module of its bundle."""
        outputs: dict[str, dict[str, str]] = self.stack.template["Outputs"]
        return outputs[f"{self.prefix}{BUNDLE_OUTPUT}"]["Value"]

    def describe(self, stage: LocalStage, app: OwnApp, requests: tuple[str, ...]) -> LocalStage:
        """Return the stage with this agent of an app, and the requests that its tools answer."""
        return replace(
            stage,
            app=app.folder,
            bundle=self.module,
            requests=requests,
            stack=self.stack.name,
            prefix=self.prefix,
        )


def take_app(folder: Path, agent: str = "") -> OwnApp:
    """Return the app of a folder. Raises InputError `app_not_found`."""
    if not read_json(folder / "cdk.json").get("app"):
        raise InputError(f"{folder} has no cdk.json that names an app", code="app_not_found")
    return OwnApp(folder=str(folder.resolve()), agent=agent)


def read_assembly(assembly: Path) -> Iterator[AssembledStack]:
    """Yield the stacks of a cloud assembly and of those within. Raises DependencyError."""
    found = list(_walk(assembly))
    if not found:
        raise DependencyError(f"there is no stack in {assembly}", code="local_deploy")
    yield from found


def _walk(assembly: Path) -> Iterator[AssembledStack]:
    for name, one in read_json(assembly / "manifest.json").get("artifacts", {}).items():
        properties = one.get("properties", {})
        if one["type"] == _ASSEMBLY:
            yield from _walk(assembly / properties["directoryName"])
        elif one["type"] == _STACK:
            template = read_json(assembly / properties["templateFile"])
            yield AssembledStack(
                path=one.get("displayName", name), name=properties.get("stackName", name), template=template
            )


def find_agent(assembly: Path, app: OwnApp) -> AssembledAgent:
    """Return the agent that the app made for the local stage. Raises InputError `agent_not_found`."""
    found = {
        (stack.name, key): AssembledAgent(stack=stack, prefix=key.removesuffix(AGENT_OUTPUT))
        for stack in read_assembly(assembly)
        for key, output in stack.template.get("Outputs", {}).items()
        if key.endswith(AGENT_OUTPUT) and output["Value"] == LOCAL_STAGE
    }
    if not found:
        wanted = f"no agent {app.agent}" if app.agent else "no agent, a construct stepline_cdk.Agent,"
        raise InputError(
            f"the app of {app.folder} has {wanted} in a stack of its own", code="agent_not_found"
        )
    (one,) = found.values()
    return one


def digest_assembly(assembly: Path) -> str:
    """Return a digest of all stacks of an assembly with their assets, which are named by their content."""
    total = hashlib.sha256()
    for stack in read_assembly(assembly):
        total.update(json.dumps([stack.name, stack.template], sort_keys=True).encode())
    return total.hexdigest()
