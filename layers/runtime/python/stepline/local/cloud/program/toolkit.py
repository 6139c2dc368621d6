"""Command lines of the CDK, and a reader of its output folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stepline.local.stage.cdk import CDK, render_choices
from stepline.local.stage.deployed import PYTHON, read_json
from stepline.model.base import Value

_QUIET: Final = ("--no-notices", "--no-version-reporting")
# The library may not import the app's modules, so they run in their own process.
_COST: Final = """
import json, pathlib, sys
from stepline_cdk.cost import price_idle
files = pathlib.Path(sys.argv[1]).glob("*.template.json")
lines = price_idle({path.name: json.loads(path.read_bytes()) for path in files})
for line in lines:
    print(f"{line.usd:8.2f}  {line.what}, {line.much}")
print(f"{sum(line.usd for line in lines):8.2f}  USD a month without turns (list prices of us-east-1)")
"""
KEPT: Final = ("Retain", "RetainExceptOnCreate")
VERSION: Final = "AWS::Lambda::Version"
"""A version is retained when the next one replaces it, but is deleted with its function."""


class Planned(Value):
    """One synthesized stack."""

    name: str
    description: str
    resources: int
    kept: tuple[str, ...]
    """Types of the resources that are retained when the stack is deleted."""
    outputs: tuple[str, ...] = ()


def render_bootstrap(account: str, region: str, profile: str, *, qualifier: str = "") -> list[str]:
    """Return the command that bootstraps an account.

    It must not run beside cdk.json, or the CDK would synthesize the app first.
    """
    own = ["--qualifier", qualifier] if qualifier else []
    return [str(CDK), "bootstrap", f"aws://{account}/{region}", *own, *_profile(profile), *_QUIET]


def render_synth(stage: str, context: Mapping[str, str], folder: Path, profile: str) -> list[str]:
    """Return the command that writes a stage's templates into `folder`."""
    return [
        *(str(CDK), "synth", "--quiet", "--output", str(folder), "--app", f'"{PYTHON}" app.py'),
        *(*render_choices({**context, "stage": stage}), *_profile(profile), *_QUIET),
    ]


def render_deploy(folder: Path, outputs: Path, profile: str) -> list[str]:
    """Return the command that deploys the stacks in `folder` unchanged."""
    return [
        *(str(CDK), "deploy", "--all", "--app", str(folder), "--outputs-file", str(outputs)),
        *("--require-approval", "never", "--progress", "events", *_profile(profile), *_QUIET),
    ]


def render_destroy(folder: Path, stacks: Sequence[str], profile: str) -> list[str]:
    """Return the command that deletes these stacks, but no stacks that depend on them."""
    return [
        *(str(CDK), "destroy", *stacks, "--exclusively", "--force", "--app", str(folder)),
        *(*_profile(profile), *_QUIET),
    ]


def render_cost(folder: Path) -> list[str]:
    """Return the command that prints the stage's cost at rest, from the templates in `folder`."""
    return [sys.executable, "-c", _COST, str(folder)]


def read_stacks(folder: Path) -> list[Planned]:
    """Return the stacks in the CDK's output folder, in deployment order."""
    artifacts: dict[str, Any] = read_json(folder / "manifest.json").get("artifacts", {})
    stacks = {
        key: artifact for key, artifact in artifacts.items() if artifact["type"] == "aws:cloudformation:stack"
    }
    return [_read_stack(folder, name, stacks[name]) for name in _ordered(stacks)]


def kept_resources(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the resources that outlive their stack: logical id to type."""
    return {
        name: resource["Type"]
        for name, resource in template["Resources"].items()
        if resource.get("DeletionPolicy") in KEPT and resource["Type"] != VERSION
    }


def _read_stack(folder: Path, name: str, artifact: Mapping[str, Any]) -> Planned:
    template = json.loads((folder / artifact["properties"]["templateFile"]).read_bytes())
    return Planned(
        name=name,
        description=template.get("Description", ""),
        resources=len(template["Resources"]),
        kept=tuple(sorted(set(kept_resources(template).values()))),
        outputs=tuple(template.get("Outputs", ())),
    )


def _ordered(stacks: Mapping[str, Any]) -> Iterable[str]:
    """Yield each stack after its dependencies; the CDK refuses cycles."""
    done: list[str] = []
    while len(done) < len(stacks):
        for name, artifact in stacks.items():
            needed = set(artifact.get("dependencies", ())) & stacks.keys()
            if name not in done and needed <= set(done):
                done.append(name)
    return done


def _profile(profile: str) -> list[str]:
    return ["--profile", profile] if profile else []
