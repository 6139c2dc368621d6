"""The versions of functions that served before a deployment: recorded as alias `previous`, to which `stepline rollback` returns.

The alias is part of the function, so that any machine finds it, and AWS deletes no version that an alias names. A day after
the release the stack itself deletes alias and version (stepline_cdk/version_sweep.py). Source: docs/how-to/deploy.md#roll-back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.local.cloud.account import AwsAccount, aws_error_code
from stepline.local.stage.emulator import Progress
from stepline.local.stage.own_app import read_assembly

ROLLBACK_S: Final = 24 * 3600
"""The time in which a release can be rolled back by its versions."""
LIVE: Final = "live"
PREVIOUS: Final = "previous"
_ALIAS: Final = "AWS::Lambda::Alias"
_ABSENT: Final = "ResourceNotFoundException"


def find_functions(assembly: Path) -> list[str]:
    """Return the names of the functions with an alias, from the templates in `assembly`."""
    return [
        str(resources[alias["Properties"]["FunctionName"]["Ref"]]["Properties"]["FunctionName"])
        for stack in read_assembly(assembly)
        for resources in [stack.template["Resources"]]
        for alias in resources.values()
        if alias["Type"] == _ALIAS
    ]


@contextmanager
def recorded_versions(account: AwsAccount, functions: Iterable[str], say: Progress) -> Iterator[None]:
    """Record the versions that served before what happens inside, unless they still serve. AWS's refusals are reported.

    After a failure too: some stacks may have been updated.
    """
    client = account.client("lambda")
    before: dict[str, str] = {}
    with _reported(say):
        before = versions_named(client, functions, LIVE)
    try:
        yield
    finally:
        with _reported(say):
            _record(client, before)


@contextmanager
def _reported(say: Progress) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        say(
            f"warn: the versions that served before are not recorded, so `stepline rollback` cannot return to them: {error}"
        )


def _record(client: Any, before: Mapping[str, str]) -> None:
    """Point `previous` to the versions before, of all functions: a rollback then leaves those alone that did not change."""
    if versions_named(client, before, LIVE) == before:
        return
    for function, version in before.items():
        alias = {"FunctionName": function, "Name": PREVIOUS, "FunctionVersion": version}
        try:
            client.update_alias(**alias)
        except ClientError as error:
            if aws_error_code(error) != _ABSENT:
                raise
            client.create_alias(**alias)


def versions_named(client: Any, functions: Iterable[str], alias: str) -> dict[str, str]:
    """Return the version that an alias of each function names; without those that do not exist."""
    found: dict[str, str] = {}
    for function in functions:
        try:
            found[function] = str(client.get_alias(FunctionName=function, Name=alias)["FunctionVersion"])
        except ClientError as error:
            if aws_error_code(error) != _ABSENT:
                raise
    return found
