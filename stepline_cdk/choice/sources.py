"""The places that choices are read from: the CDK's context, the environment, and the stage's file.

A choice of the context (`-c`, `cdk.json`) precedes one of the environment, that precedes one of `stages/<name>.toml`, and that
the default of the kind of stage.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepline_cdk.choice.read import (
    BadChoiceError,
    check_name,
    choice_name,
    print_choice,
    read_choices,
    refuse_unknown,
)
from stepline_cdk.stage import Stage

STAGES: Final = "stages"
"""The folder of the project with a file of each stage, to be committed."""
STAGE: Final = "stage"
STAGE_VARIABLE: Final = "STEPLINE_STAGE"
PREFIX: Final = "STEPLINE_CHOICE_"
"""Of the variables of choices: `STEPLINE_CHOICE_OIDC_ISSUER`. The settings of a process have other names."""
DERIVED: Final = "derived"
"""The key that lists the choices which the command read from the account, separated by commas."""
OF_APP: Final = ("bundle_code", DERIVED, "nag", "page_folder", "stages_folder")
"""Keys of the context that are no choices: they say how the app is synthesised."""
_OF_CDK: Final = re.compile("[@:]")
_CDK_WORDS: Final = ("acknowledged-issue-numbers", "cli-telemetry")
"""Keys of the CDK's own without its `@` or `:`. Source: docs.aws.amazon.com/cdk/v2/guide, "cdk acknowledge"."""


class Given(NamedTuple):
    """A stage, and the choices that a source names, with their values; None for an empty text, which means the default."""

    stage: Stage
    named: Mapping[str, Any]

    def texts(self) -> dict[str, str]:
        """Return all choices as text, also those that are defaults."""
        return {choice_name(name): print_choice(getattr(self.stage, name)) for name in Stage.model_fields}


def read_stage(
    context: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Given:
    """Return the stage that the context, the environment and the file in `folder` choose. Raises BadChoiceError."""
    environ = environ or {}
    of_context = {name: value for name, value in context.items() if not _is_foreign(name)}
    of_environment = {
        name.removeprefix(PREFIX).lower(): value for name, value in environ.items() if name.startswith(PREFIX)
    }
    name = str(of_context.pop(STAGE, None) or environ.get(STAGE_VARIABLE, "") or "dev")
    check_name(Stage, name)  # before it is part of a path
    of_file = read_file(folder / f"{name}.toml") if folder else {}
    named = {**of_file, **of_environment, **of_context}
    for choice in named:
        if choice == "name" or choice not in Stage.model_fields:
            raise refuse_unknown(Stage, choice)
    stage = Stage(name=name, **named)
    return Given(stage, {**dict.fromkeys(named), **read_choices(Stage, named)})


def read_file(path: Path) -> dict[str, Any]:
    """Return the choices of a stage's file; none if it does not exist. Raises BadChoiceError."""
    if not path.is_file():
        return {}
    where = f"{STAGES}/{path.name}"
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadChoiceError(f"{where}: got no TOML ({error}), takes lines like alarms = true") from error
    for name in found:
        if name in (STAGE, "name"):
            raise BadChoiceError(
                f"{where}: got {name}, takes choices alone: the name of the file is the stage's"
            )
        if _OF_CDK.search(name):
            raise BadChoiceError(
                f"{where}: got {name}, takes choices alone: the CDK's own keys are those of cdk.json"
            )
    return found


def _is_foreign(name: str) -> bool:
    """Return True for a key of the context that is not a choice of ours."""
    return bool(_OF_CDK.search(name)) or name in _CDK_WORDS or name in OF_APP
