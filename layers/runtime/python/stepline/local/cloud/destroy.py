"""`stepline destroy`: delete a stage, and print commands that delete the resources it retains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.errors import DependencyError
from stepline.local.cloud.account import AwsAccount, aws_error_code
from stepline.local.cloud.deploy import Desk, Order, choose, find_deployment, must, synthesize
from stepline.local.cloud.deployment import Deployment, delete_deployment, stage_folder
from stepline.local.cloud.health import DeployedResource, Stack, find_resources, find_stacks
from stepline.local.cloud.program.toolkit import kept_resources, read_stacks, render_destroy
from stepline.local.cloud.stage_choices import choices_file

KEEPERS: Final = ("state", "edge")
"""The suffixes of the stacks with buckets; all other stacks write to them, or need them."""
PAGE: Final = "-edge"
"""The suffix of the stack whose bucket holds the chat page."""
BUCKET: Final = "AWS::S3::Bucket"
VECTOR_BUCKET: Final = "AWS::S3Vectors::VectorBucket"
DELETE_COMMANDS: Final = {
    "AWS::DynamoDB::GlobalTable": (
        "aws dynamodb update-table --table-name {id} --no-deletion-protection-enabled",
        "aws dynamodb delete-table --table-name {id}",
    ),
    BUCKET: (
        (
            "aws s3api list-object-versions --bucket {id} --region {region}"
            " --query '[Versions,DeleteMarkers][].[Key,VersionId]' --output text | xargs -rn2 sh -c"
            """ 'aws s3api delete-object --bucket {id} --key "$2" --version-id "$3" "$0" "$1"'"""
        ),
        "aws s3 rb s3://{id}",
    ),
    VECTOR_BUCKET: (
        (
            "aws s3vectors list-indexes --vector-bucket-arn {id} --region {region} --query 'indexes[].[indexArn]' --output text |"
            " xargs -I% aws s3vectors delete-index --index-arn %"
        ),
        "aws s3vectors delete-vector-bucket --vector-bucket-arn {id}",
    ),
    "AWS::Cognito::UserPool": (
        "aws cognito-idp update-user-pool --user-pool-id {id} --deletion-protection INACTIVE",
        "aws cognito-idp delete-user-pool --user-pool-id {id}",
    ),
    "AWS::Logs::LogGroup": ("aws logs delete-log-group --log-group-name {id}",),
    "AWS::ECR::Repository": ("aws ecr delete-repository --force --repository-name {id}",),
    "AWS::SecretsManager::Secret": (
        "aws secretsmanager delete-secret --force-delete-without-recovery --secret-id {id}",
    ),
    "AWS::KMS::Key": ("aws kms schedule-key-deletion --key-id {id}",),
}


def destroy(order: Order, desk: Desk, confirm_name: Callable[[str], bool]) -> list[str]:
    """Delete the stage's stacks; return the commands that delete the retained resources.

    Raises:
        AuthError, InputError: `cloud_account`, as for a deployment.
        DependencyError: `cloud_deploy`, nothing to destroy, not confirmed, or refused by AWS.
    """
    account, deployment = find_deployment(order, desk)
    stacks, kept = _read_stacks_and_kept(account, order.stage)
    desk.say(f"these stacks will be deleted: {', '.join(stack.name for stack in stacks)}")
    desk.say("running turns end at once")
    for resource in kept:
        desk.say(f"kept: {resource.physical_id} ({resource.type})")
    if (file := choices_file(desk.project, order.stage)).exists():
        desk.say(f"kept: {file}, with the choices of the stage")
    emptied = _emptied(account, stacks, kept)
    for bucket in emptied:
        content = "the chat page" if bucket.stack.endswith(PAGE) else "all conversations and files"
        desk.say(f"will be deleted with {content} in it: {bucket.physical_id}")
    if not confirm_name(order.stage):
        raise DependencyError("nothing was destroyed", code="cloud_deploy")
    desk.install(desk.home, desk.say)
    deployed = {stack.name for stack in stacks}
    if {stack.name for stack in read_stacks(stage_folder(desk.home, order.stage) / "cdk.out")} != deployed:
        deployment, chosen = choose(order, deployment, desk)
        synthesize(order, deployment, chosen, account, desk)
    _delete(account, deployment, deployed, emptied, desk)
    delete_deployment(desk.home, order.stage)
    return [line for resource in kept for line in render_deletion(resource, account.region)]


def render_deletion(resource: DeployedResource, region: str) -> list[str]:
    """Return the commands that delete a resource retained by its stack."""
    commands = DELETE_COMMANDS.get(resource.type)
    if commands is None:
        return [f"# no known command deletes {resource.type} {resource.physical_id}"]
    return [
        f"{command.format(id=resource.physical_id, region=region)} --region {region}" for command in commands
    ]


def _read_stacks_and_kept(account: AwsAccount, stage: str) -> tuple[list[Stack], list[DeployedResource]]:
    """Return the deployed stacks, and the resources that they retain. Raises DependencyError."""
    try:
        stacks = find_stacks(account, stage)
        if not stacks:
            raise DependencyError(
                f"there is no stack of stage {stage} in {account.region}: nothing to destroy",
                code="cloud_deploy",
            )
        kept = {
            (stack.name, name) for stack in stacks for name in kept_resources(_template(account, stack.name))
        }
        resources = find_resources(account, stacks)
    except (BotoCoreError, ClientError) as error:
        raise DependencyError(
            f"the stacks cannot be read: {error}; this needs cloudformation:DescribeStacks, GetTemplate"
            " and ListStackResources",
            code="cloud_deploy",
        ) from error
    return stacks, [found for found in resources if (found.stack, found.logical_id) in kept]


def _template(account: AwsAccount, stack: str) -> Mapping[str, Any]:
    # botocore parses a JSON template.
    found: Mapping[str, Any] = account.client("cloudformation").get_template(
        StackName=stack, TemplateStage="Processed"
    )["TemplateBody"]
    return found


def _emptied(
    account: AwsAccount, stacks: list[Stack], kept: list[DeployedResource]
) -> list[DeployedResource]:
    """Return the buckets that are deleted with their stacks: CloudFormation deletes only empty ones."""
    buckets = [found for found in find_resources(account, stacks) if found.type in _EMPTIED]
    return [bucket for bucket in buckets if bucket not in kept]


def _delete(
    account: AwsAccount,
    deployment: Deployment,
    deployed: set[str],
    emptied: list[DeployedResource],
    desk: Desk,
) -> None:
    """Delete the writers first, then the contents of the buckets, then the stacks that hold them."""
    folder = stage_folder(desk.home, deployment.stage) / "cdk.out"
    names = [stack.name for stack in reversed(read_stacks(folder)) if stack.name in deployed]
    if foreign := sorted(deployed - set(names)):
        desk.say(
            f"kept, because the app of this checkout does not have them: {', '.join(foreign)}; delete them with"
            " aws cloudformation delete-stack --stack-name NAME"
        )
    writers = [name for name in names if name.rpartition("-")[2] not in KEEPERS]
    again = f"the reason is above; after the fix: stepline destroy --stage {deployment.stage}"
    if writers:
        must(desk, render_destroy(folder, writers, deployment.profile), account, again)
    for bucket in emptied:
        desk.say(f"emptying {bucket.physical_id}")
        _EMPTIED[bucket.type](account, bucket.physical_id)
    if rest := [name for name in names if name not in writers]:
        must(desk, render_destroy(folder, rest, deployment.profile), account, again)


def _empty(account: AwsAccount, bucket: str) -> None:
    """Delete every object and version. Raises DependencyError `cloud_deploy`."""
    s3 = account.client("s3")
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            doomed = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in found]
            refused = (
                s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed, "Quiet": True}).get("Errors", [])
                if doomed
                else []
            )
            if refused:
                raise DependencyError(
                    f"{bucket} could not be emptied: {refused[0]['Key']}: {refused[0]['Message']}",
                    code="cloud_deploy",
                )
    except (BotoCoreError, ClientError) as error:
        if aws_error_code(error) == "NoSuchBucket":
            return
        raise DependencyError(
            f"{bucket} could not be emptied: {error}; aws s3 rm --recursive s3://{bucket}",
            code="cloud_deploy",
        ) from error


def _empty_vectors(account: AwsAccount, bucket_arn: str) -> None:
    """Delete every index with its vectors. Raises DependencyError `cloud_deploy`."""
    vectors = account.client("s3vectors")
    try:
        for page in vectors.get_paginator("list_indexes").paginate(vectorBucketArn=bucket_arn):
            for index in page["indexes"]:
                vectors.delete_index(indexArn=index["indexArn"])
    except (BotoCoreError, ClientError) as error:
        if aws_error_code(error) == "NotFoundException":
            return
        raise DependencyError(
            f"{bucket_arn} could not be emptied: {error}; this needs s3vectors:ListIndexes and DeleteIndex",
            code="cloud_deploy",
        ) from error


_EMPTIED: Final[Mapping[str, Callable[[AwsAccount, str], None]]] = {
    BUCKET: _empty,
    VECTOR_BUCKET: _empty_vectors,
}
