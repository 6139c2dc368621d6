"""The records of a command: conversations of a stage, records in files, and folders of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepline.errors import AuthError, DependencyError, InputError
from stepline.local.command.argument import check_conversation, text_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepline.replay.record_file import ConversationRecord

DECIDE: Final = "decide"
"""The function whose variables are those of an agent."""
SUFFIX: Final = ".zip"


@dataclass(frozen=True, kw_only=True)
class RecordPlace:
    """The stage whose conversations are meant: that of this machine, or a deployed one, read with AWS credentials."""

    stage: str = ""
    profile: str = ""
    region: str = ""
    tenant: str = ""
    project: str = ""

    def find(self, named: str) -> ConversationRecord:
        """Return the record of a conversation of the stage, or of a file. Raises the errors of both."""
        if is_path(named):
            return open_record(Path(named))
        context = click.get_current_context()
        name = check_conversation(context, context.command.params[0], named)
        return self._find_deployed(name) if self.stage else _find_local(name)

    def _find_deployed(self, conversation: str) -> ConversationRecord:
        from stepline.adapters.aws.artifacts import S3Artifacts
        from stepline.adapters.aws.log import DynamoLog
        from stepline.adapters.aws.table import Table
        from stepline.local.caller import PROJECT
        from stepline.local.cloud.account import open_account
        from stepline.local.cloud.deployment import check_stage, load_deployment
        from stepline.local.stage.deployed import HOME
        from stepline.model.ids import make_lane
        from stepline.replay.record_file import ConversationRecord

        known = load_deployment(HOME, check_stage(self.stage))
        if known is None or "TableName" not in known.outputs:
            raise InputError(f"stage {self.stage} is not deployed from here", code="not_deployed")
        if not self.tenant:
            raise click.UsageError(
                "add --tenant and --project: the names in the tokens of the conversation's owner"
            )
        account = open_account(self.profile or known.profile, self.region or known.region)
        os.environ["AWS_DEFAULT_REGION"] = account.region  # noqa: TID251 - botocore's own variable, not a setting of Stepline
        if account.profile:
            os.environ["AWS_PROFILE"] = account.profile  # noqa: TID251 - as above
        return ConversationRecord(
            log=DynamoLog(Table(known.outputs["TableName"])),
            artifacts=S3Artifacts(known.outputs["BucketName"]),
            lane=make_lane(self.tenant, self.project or PROJECT, conversation),
            variables=read_variables(account.client("lambda"), self.stage),
        )


def record_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its `place`."""

    @wraps(command)
    def wrapped(*, stage: str, profile: str, region: str, tenant: str, project: str, **given: Any) -> None:
        place = RecordPlace(stage=stage, profile=profile, region=region, tenant=tenant, project=project)
        command(place=place, **given)

    for option in (
        text_option("--stage", metavar="NAME", help="Read this deployed stage, with your AWS credentials."),
        text_option(
            "--profile", metavar="NAME", help="With --stage: AWS profile; default: the deployment's."
        ),
        text_option(
            "--region", metavar="REGION", help="With --stage: AWS region; default: the deployment's."
        ),
        text_option("--tenant", metavar="NAME", help="With --stage: the tenant of the conversation."),
        text_option("--project", metavar="NAME", help="With --stage: its project; default: `default`."),
    ):
        wrapped = option(wrapped)
    return wrapped


def is_path(named: str) -> bool:
    """Return True for the path of a file or a folder, False for the name of a conversation."""
    return os.sep in named or named.endswith(SUFFIX)


def list_records(names: Sequence[str]) -> Iterator[str]:
    """Yield the names of records, those of a folder in order. Raises InputError `record_invalid`: a folder has none."""
    for named in names:
        folder = Path(named)
        if not (is_path(named) and folder.is_dir()):
            yield named
        elif found := sorted(folder.rglob(f"*{SUFFIX}")):
            yield from map(str, found)
        else:
            _refuse_export(folder)


def open_record(path: Path) -> ConversationRecord:
    """Return the record in a file. Raises as `read_record_file` does, and `record_incomplete` for an export."""
    from stepline.replay.record_file import INVALID, read_record_file

    try:
        return read_record_file(path)
    except InputError as error:
        if error.reason == INVALID and path.exists():
            _refuse_export(path, error)
        raise


def _refuse_export(path: Path, error: InputError | None = None) -> None:
    """Raise InputError: `record_incomplete`, the documents of an export have no requests; else `error`, or its like."""
    from stepline.local.imported_documents import first_turn
    from stepline.log.spill import INCOMPLETE
    from stepline.replay.record_file import INVALID

    if turn := first_turn(path):
        raise InputError(
            f"{path}, {turn}, round 0: an export has the documents of a conversation, without the requests of its"
            " rounds; `stepline export CONVERSATION --record FILE` writes them",
            code=INCOMPLETE,
        )
    raise error or InputError(f"{path} has no records: files that end in {SUFFIX}", code=INVALID)


def _find_local(conversation: str) -> ConversationRecord:
    from stepline.local import caller
    from stepline.local.command.batches import open_log
    from stepline.model.ids import make_lane
    from stepline.replay.record_file import ConversationRecord

    stage = caller.find_stage()
    log, artifacts = open_log(stage)
    lane = make_lane(caller.TENANT, caller.PROJECT, conversation)
    return ConversationRecord(log=log, artifacts=artifacts, lane=lane, variables=local_variables(stage))


def local_variables(stage: Any) -> Mapping[str, str]:
    """Return the variables of the local stage's agent. Secret. Raises DependencyError `not_running`."""
    from stepline.local.stage.deployed import LOCAL_STAGE, client

    try:
        return read_variables(client("lambda", stage), LOCAL_STAGE)
    except AuthError as error:
        raise DependencyError("the stage does not answer: stepline up", code="not_running") from error


def read_variables(functions: Any, stage: str) -> Mapping[str, str]:
    """Return the variables of a stage's function that decides, without those that are in its package. Secret.

    Raises AuthError `cloud_account`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from stepline.settings import PACKAGED

    try:
        found = functions.get_function_configuration(FunctionName=f"stepline-{stage}-{DECIDE}")
    except (BotoCoreError, ClientError) as error:
        raise AuthError(
            f"the settings of stage {stage} cannot be read: {error}", code="cloud_account"
        ) from error
    variables: dict[str, str] = found.get("Environment", {}).get("Variables", {})
    return {name: text for name, text in variables.items() if not text.startswith(PACKAGED)}
