"""Saved state of a deployed stage: its location, its choices, its outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import field

from stepline.errors import InputError
from stepline.local.stage.deployed import LOCAL_STAGE as LOCAL
from stepline.local.stage.deployed import make_home, read_json, write_private
from stepline.model.base import Value

_STAGE: Final = re.compile(r"[a-z][a-z0-9-]{0,15}")
_KEY: Final = re.compile(r"[\w@][\w@/:.-]*")
_BETWEEN_STACKS: Final = ("ExportsOutput", "PublishOutput")
"""What the names of outputs begin with that the CDK makes for other stacks."""
_OWN: Final = {"stage": "--stage NAME", "endpoint": "stepline up"}
"""Context keys that cannot be set with `-c`, and the option that sets each."""


class Deployment(Value):
    """A stage in one account and region. `deployed_at` is empty until a deployment has succeeded.

    It holds ids and addresses, no secrets. `context` has keys of the CDK's own; an earlier release saved the choices of the
    stage there too, which are in a file of the project now. For an agent in an app of the user's, `stack` is its stack, and the ids
    of its outputs there begin with `prefix`.
    """

    stage: str
    account: str
    region: str
    profile: str = ""
    context: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    deployed_at: str = ""
    stack: str = ""
    prefix: str = ""


def check_stage(stage: str) -> str:
    """Validate the name of a deployed stage and return it. Raises InputError `bad_stage`."""
    if stage == LOCAL:
        raise InputError("stage local is on this machine: `stepline up` deploys it", code="bad_stage")
    if not _STAGE.fullmatch(stage):
        raise InputError(
            f"{stage[:80]!r} is not the name of a stage: a lowercase letter, then lowercase letters, digits and dashes,"
            " at most 16 characters",
            code="bad_stage",
        )
    return stage


def stage_folder(home: Path, stage: str) -> Path:
    """Return the folder of one stage, readable by its owner only."""
    return make_home(make_home(make_home(home) / "stages") / stage)


def list_stages(home: Path) -> list[str]:
    """Return the names of the stages that were deployed from this checkout."""
    names = sorted(path.stem for path in (home / "stages").glob("*.json"))
    return [name for name in names if (found := load_deployment(home, name)) and found.outputs]


def load_deployment(home: Path, stage: str) -> Deployment | None:
    """Return the saved deployment of a stage, or None if this checkout never deployed it."""
    path = _path(home, stage)
    return msgspec.json.decode(path.read_bytes(), type=Deployment) if path.exists() else None


def save_deployment(home: Path, deployment: Deployment) -> None:
    """Save a deployment for later commands."""
    stage_folder(home, deployment.stage)
    write_private(_path(home, deployment.stage), msgspec.json.format(msgspec.json.encode(deployment)))


def save_found(home: Path, deployment: Deployment) -> None:
    """Save an agent that was found in its stack. Raises InputError `bad_stage` in the place of a stage that is another one."""
    known = load_deployment(home, deployment.stage)
    if known and (known.account, known.region, known.stack) != (
        deployment.account,
        deployment.region,
        deployment.stack,
    ):
        raise InputError(
            f"this machine knows another stage {known.stage}, in account {known.account}, {known.region}: if it does not exist any"
            f" more, remove {_path(home, known.stage)}",
            code="bad_stage",
        )
    save_deployment(home, deployment)


def delete_deployment(home: Path, stage: str) -> None:
    """Delete the saved deployment of a stage."""
    _path(home, stage).unlink(missing_ok=True)


def parse_choices(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse `key=value` pairs; an empty value removes the key. Raises InputError `bad_choice`."""
    choices: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise InputError(f"-c {text}: write KEY=VALUE", code="bad_choice")
        if key in _OWN:
            raise InputError(f"-c {key}=… is not a setting: use `{_OWN[key]}`", code="bad_choice")
        choices[key] = value
    return choices


def fold_choices(known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Apply the choices of one command to those of a stage; an empty value removes its key."""
    return {key: value for key, value in {**known, **given}.items() if value}


def read_outputs(path: Path) -> dict[str, str]:
    """Return the outputs of all stacks from the CDK's outputs file, without those for other stacks."""
    return {
        key: value
        for stack in read_json(path).values()
        for key, value in stack.items()
        if not key.startswith(_BETWEEN_STACKS)
    }


def _path(home: Path, stage: str) -> Path:
    return home / "stages" / f"{stage}.json"
