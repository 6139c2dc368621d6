"""The image of tasks: built by the deployer, built in AWS, or an external one. Nothing is built at synthesis."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stepline_cdk.app_root import app_root
from stepline_cdk.code import RUNTIME
from stepline_cdk.log_group import add_log_group
from stepline_cdk.stage import Stage

DOCKERFILE: Final = "exec_task/Dockerfile"
BASE: Final = "public.ecr.aws/docker/library/python:3.13-slim-bookworm"
"""Docker's own library without its registry's limits for anonymous users; also for arm64."""

PULL_ACTIONS: Final = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
PUSH_ACTIONS: Final = (
    *PULL_ACTIONS,
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
BUILD_TIMEOUT: Final = cdk.Duration.minutes(25)
ANSWER_TIMEOUT: Final = cdk.Duration.minutes(30)
IMAGES_KEPT: Final = 5
REQUIREMENTS: Final = "REQUIREMENTS"
RESULT: Final = "Result"
"""The attribute of a build's custom resource that says how it ended."""
NO_ANSWER: Final = "none"

_IN_ECR: Final = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<name>[^:@]+)(?:[:@].+)?"
)


@dataclass(frozen=True, kw_only=True)
class Image:
    """The image of a task.

    `repository_arn` is its ECR repository, to which the task needs access, if it has one; `build` ends when it exists.
    """

    uri: str
    repository_arn: str = ""
    build: cdk.CustomResource | None = None


def make_image(scope: Construct, stage: Stage, requirements: tuple[str, ...] = ()) -> Image:
    """Return the image of the stage's choice, with its resources: `asset`, `codebuild`, or a URI.

    `requirements` are the files of bundles, by their paths in the checkout, whose packages a built image has.
    """
    match stage.exec_image:
        case "" | "none":
            raise ValueError("tasks need an image: -c exec_image=asset, codebuild or a URI")
        case "asset":
            asset = ecr_assets.DockerImageAsset(
                scope,
                "Image",
                directory=str(app_root()),
                file=DOCKERFILE,
                build_args={"BASE": BASE, **_named(requirements)},
                platform=ecr_assets.Platform.LINUX_ARM64,
                ignore_mode=cdk.IgnoreMode.DOCKER,
            )
            return Image(uri=asset.image_uri, repository_arn=asset.repository.repository_arn)
        case "codebuild":
            return ImageBuild(scope, stage, requirements).image
        case uri:
            return _find_image(cdk.Stack.of(scope), uri)


def _named(requirements: tuple[str, ...]) -> dict[str, str]:
    """Return the build's argument for the packages of bundles; nothing for none."""
    return {REQUIREMENTS: " ".join(requirements)} if requirements else {}


def _find_image(stack: cdk.Stack, uri: str) -> Image:
    found = _IN_ECR.fullmatch(uri)
    if not found:
        return Image(uri=uri)
    arn = f"arn:{stack.partition}:ecr:{found['region']}:{found['account']}:repository/{found['name']}"
    return Image(uri=uri, repository_arn=arn)


class ImageBuild(Construct):
    """A build in AWS, on the tasks' own architecture, each time the sources change.

    A custom resource starts it, and the build itself reports its end to CloudFormation: no function waits. After a failed build
    the tasks' image does not exist, until someone starts the project again. Source: docs/how-to/deploy.md#programs.
    """

    def __init__(self, scope: Construct, stage: Stage, requirements: tuple[str, ...] = ()) -> None:
        """Add repository, project and the function that starts a build."""
        super().__init__(scope, "ImageBuild")
        self._stage = stage
        self._named = _named(requirements)
        source = s3_assets.Asset(
            self,
            "Source",
            path=str(app_root()),
            exclude=(app_root() / ".dockerignore").read_text().splitlines(),
            ignore_mode=cdk.IgnoreMode.DOCKER,
        )
        repository = ecr.Repository(
            self,
            "Repository",
            repository_name=stage.optional_name("image repository"),
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            # Its content can be built again.
            removal_policy=cdk.RemovalPolicy.DESTROY,
            empty_on_delete=True,
            lifecycle_rules=[ecr.LifecycleRule(max_image_count=IMAGES_KEPT)],
        )
        tag = self._tag(source)
        project = self._make_project(source, repository, tag)
        build = cdk.CustomResource(
            self,
            "Build",
            resource_type="Custom::SteplineImage",
            service_token=self._make_starter(project).function_arn,
            service_timeout=ANSWER_TIMEOUT,
            # `Reports` is new since 0.1.0, whose resource has no result to read.
            properties={"Project": project.project_name, "Tag": tag, "Reports": RESULT},
        )
        build.node.add_dependency(project.role)
        cdk.CfnOutput(scope, "ImageProject", value=project.project_name)
        cdk.CfnOutput(scope, "ImageResult", value=build.get_att_string(RESULT))
        self.image = Image(
            uri=f"{repository.repository_uri}:{tag}", repository_arn=repository.repository_arn, build=build
        )

    def _tag(self, source: s3_assets.Asset) -> str:
        """Return the tag of the image, which never changes: sources with the packages of other bundles have another."""
        words = "".join(self._named.values())
        return (
            f"{source.asset_hash}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
            if words
            else source.asset_hash
        )

    def _make_project(
        self, source: s3_assets.Asset, repository: ecr.Repository, tag: str
    ) -> codebuild.Project:
        role = iam.Role(self, "BuildRole", assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"))
        log_group = add_log_group(self, "ImageBuildLogs", self._stage, "image-build")
        objects = source.bucket.arn_for_objects(source.s3_object_key)
        for actions, resource in (
            (["s3:GetObject", "s3:GetObjectVersion"], objects),
            (["ecr:GetAuthorizationToken"], "*"),
            (list(PUSH_ACTIONS), repository.repository_arn),
            (["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
        return codebuild.Project(
            self,
            "Project",
            project_name=self._stage.optional_name("image project"),
            role=role.without_policy_updates(),
            source=codebuild.Source.s3(bucket=source.bucket, path=source.s3_object_key),
            environment=codebuild.BuildEnvironment(
                build_image=codebuild.LinuxArmBuildImage.AMAZON_LINUX_2_STANDARD_3_0,
                compute_type=codebuild.ComputeType.SMALL,
                privileged=True,  # for the Docker daemon inside
            ),
            environment_variables={
                "BASE": codebuild.BuildEnvironmentVariable(value=BASE),
                "REPOSITORY": codebuild.BuildEnvironmentVariable(value=repository.repository_uri),
                # For a build that no deployment starts.
                "TAG": codebuild.BuildEnvironmentVariable(value=tag),
                "ANSWER_URL": codebuild.BuildEnvironmentVariable(value=NO_ANSWER),
                **{
                    name: codebuild.BuildEnvironmentVariable(value=value)
                    for name, value in self._named.items()
                },
            },
            build_spec=codebuild.BuildSpec.from_object(render_buildspec()),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=log_group)
            ),
            grant_report_group_permissions=False,
            timeout=BUILD_TIMEOUT,
        )

    def _make_starter(self, project: codebuild.Project) -> lambda_.Function:
        role = iam.Role(self, "StartRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group = add_log_group(self, "ImageStartLogs", self._stage, "image-start")
        log_group.grant_write(role)
        role.add_to_policy(
            iam.PolicyStatement(actions=["codebuild:StartBuild"], resources=[project.project_arn])
        )
        return lambda_.Function(
            self,
            "Start",
            function_name=self._stage.needed_name("function", "exec-image"),
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler="index.handler",
            code=lambda_.Code.from_inline(Path(__file__).with_name("image_start.py").read_text()),
            role=role.without_policy_updates(),
            log_group=log_group,
            timeout=cdk.Duration.minutes(1),
        )


def render_buildspec() -> dict[str, object]:
    """Return the steps of a build. The last phase runs however the one before ended.

    Sources that were built before, as those of a release that is rolled back to, have their image: a tag never changes.
    """
    known = 'docker manifest inspect "$REPOSITORY:$TAG" >/dev/null 2>&1'
    arguments = f'--build-arg "BASE=$BASE" --build-arg "{REQUIREMENTS}=${REQUIREMENTS}"'
    build = f'docker build --platform linux/arm64 {arguments} --file {DOCKERFILE} --tag "$REPOSITORY:$TAG" .'
    answer = (
        f'if [ "$ANSWER_URL" = {NO_ANSWER} ]; then exit 0; fi; '
        'if [ "$CODEBUILD_BUILD_SUCCEEDING" = 1 ]; then answer="$ON_SUCCESS"; else answer="$ON_FAILURE"; fi; '
        "curl --fail --silent --show-error --retry 5 --request PUT --header 'Content-Type:' "
        '--data "$answer" "$ANSWER_URL"'
    )
    login = 'aws ecr get-login-password | docker login --username AWS --password-stdin "${REPOSITORY%%/*}"'
    return {
        "version": "0.2",
        "phases": {
            "build": {"commands": [login, f'{known} || {{ {build} && docker push "$REPOSITORY:$TAG"; }}']},
            "post_build": {"commands": [answer]},
        },
    }
