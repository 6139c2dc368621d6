"""The choices of a stage: its file in the project, the app's answer about them, and those it was deployed with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from stepline.errors import DependencyError, InputError
from stepline.local.cloud.account import AwsAccount, aws_error_code
from stepline.local.cloud.program.child import RunCommand
from stepline.local.stage.deployed import PYTHON, install_environment
from stepline.model.base import Value

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

STAGES: Final = "stages"
"""The folder of the project with a file of each stage."""
RECORD: Final = "/stepline/{}/choices"
"""The parameter in which a stage records its choices."""
RECORD_PERMISSION: Final = "ssm:GetParameter"
_OF_CDK: Final = re.compile("[@:]")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)")


class ChoiceChange(Value):
    """A choice that a deployment changes: its recorded text, and the new one.

    It `is_lost` if it is guarded, and neither the command line nor a file names it any more.
    """

    name: str
    old: str
    new: str
    is_lost: bool

    def render(self) -> str:
        """Return the change as a line."""
        return f"{self.name}: {self.old or '(default)'} → {self.new or '(none)'}"


class ChosenStage(Value):
    """All choices of a stage as text, the names of those that are chosen, and what they change of the deployed ones."""

    values: dict[str, str]
    named: tuple[str, ...]
    changes: tuple[ChoiceChange, ...] = ()


def choices_file(project: Path, stage: str) -> Path:
    """Return the file with a stage's choices, which the project commits."""
    return project / STAGES / f"{stage}.toml"


def is_choice(key: str) -> bool:
    """Return False for the CDK's own keys of the context, which are not choices of a stage."""
    return not _OF_CDK.search(key)


def given_choices(context: Mapping[str, str]) -> dict[str, str]:
    """Return the choices among keys of the context."""
    return {key: text for key, text in context.items() if is_choice(key)}


def ask_app(
    run: RunCommand, stage: str, choices: Mapping[str, str], *, project: Path, record: str = ""
) -> ChosenStage:
    """Ask the app to read a stage's file, the environment and the choices of a command; return all choices.

    Raises:
        InputError: `bad_choice`, with the app's sentence.
        DependencyError: `cloud_deploy`, the app cannot be asked.
    """
    question = {
        "stage": stage,
        "choices": given_choices(choices),
        "folder": str(project / STAGES),
        "record": record,
    }
    done = run([PYTHON, "-m", "stepline_cdk.choice", json.dumps(question)], install_environment(), catch=True)
    if done.code != 0:
        raise DependencyError(f"the choices of the stage cannot be read:\n{done.text}", code="cloud_deploy")
    answer: dict[str, Any] = json.loads(done.text)
    if "refused" in answer:
        raise InputError(answer["refused"], code="bad_choice")
    return msgspec.convert(answer, ChosenStage)


def find_choices(
    run: RunCommand, stage: str, *, project: Path, context: Mapping[str, str] | None
) -> dict[str, str] | None:
    """Return all choices of a stage as text; None if it has no file and was not deployed from here.

    `context` is that of its deployment, None without one. Raises as `ask_app`.
    """
    if context is None and not choices_file(project, stage).exists():
        return None
    return {**ask_app(run, stage, context or {}, project=project).values, **(context or {})}


def read_record(account: AwsAccount, stage: str) -> str:
    """Return the record of a deployed stage's choices; "" if it has none.

    Raises DependencyError `cloud_deploy` if the record cannot be read.
    """
    name = RECORD.format(stage)
    try:
        return str(account.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    except (BotoCoreError, ClientError) as error:
        if aws_error_code(error) == "ParameterNotFound":
            return ""
        raise DependencyError(
            f"{name} cannot be read: {error}; allow {RECORD_PERMISSION}", code="cloud_deploy"
        ) from error


def write_choices(project: Path, stage: str, choices: Mapping[str, str]) -> Path | None:
    """Write choices to the stage's file and return it; None if nothing changed. An empty text removes a choice.

    Comments and order of the file are kept.
    """
    import tomlkit

    path = choices_file(project, stage)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    document = tomlkit.parse(before) if before else _new_file(stage)
    for key, text in choices.items():
        if text:
            document[key] = _to_toml(text)
        else:
            document.pop(key, None)
    after = tomlkit.dumps(document)
    if after == before or not (before or choices):
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(after, encoding="utf-8")
    fresh.replace(path)
    return path


def move_choices(project: Path, stage: str, known: Mapping[str, str]) -> dict[str, str]:
    """Move choices that an earlier release saved to the stage's file, which precedes them; return those it lacked."""
    import tomlkit

    path = choices_file(project, stage)
    there = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else {}
    moved = {key: text for key, text in given_choices(known).items() if key not in there}
    if moved:
        write_choices(project, stage, moved)
    return moved


def _new_file(stage: str) -> TOMLDocument:
    import tomlkit

    document = tomlkit.document()
    document.add(
        tomlkit.comment(
            f"Choices of stage {stage}, as `stepline deploy` and `cdk deploy` read them: commit this file."
        )
    )
    document.add(tomlkit.comment("docs/reference/choices.md lists them."))
    document.add(tomlkit.nl())
    return document


def _to_toml(text: str) -> Any:
    """Return the value that a text means, for a file that people read: the app reads both the same."""
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return int(text)
    if text[0] in "[{":
        try:
            found = json.loads(text)
        except ValueError:
            return text
        return text if "null" in text else found
    return text
