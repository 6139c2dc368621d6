"""The files of the chat page: uploaded last, with the addresses of everything that they talk to.

Source: docs/how-to/deploy.md#the-page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stepline_cdk.code import RUNTIME
from stepline_cdk.edge import Edge
from stepline_cdk.ingress import Ingress
from stepline_cdk.log_group import add_log_group
from stepline_cdk.page_files import CONFIG, DASHBOARDS, PageFiles
from stepline_cdk.stage import Stage
from stepline_cdk.state import State

_CODE: Final = Path(__file__).with_name("page_upload.py")
_LEFT_OUT: Final = [CONFIG, ".*"]
_TIMEOUT: Final = cdk.Duration.minutes(5)


class Page:
    """A function that writes the page's files, and the resource that calls it when one of them changes."""

    def __init__(
        self,
        scope: Construct,
        stage: Stage,
        *,
        files: PageFiles,
        edge: Edge,
        state: State,
        ingress: Ingress,
    ) -> None:
        """Add both to a scope, with `config.json` and the hosts that the page's policy allows."""
        self.scope = scope
        sources = {
            "": s3_assets.Asset(scope, "Files", path=str(files.dist), exclude=_LEFT_OUT),
            **{
                f"{DASHBOARDS}{name}/": s3_assets.Asset(
                    scope, f"Dashboard{name.title()}", path=str(folder), exclude=_LEFT_OUT
                )
                for name, folder in files.dashboards.items()
            },
        }
        function = self._make_function(stage, edge, list(sources.values()))
        upload = cdk.CustomResource(
            scope,
            "Upload",
            resource_type="Custom::SteplinePage",
            service_token=function.function_arn,
            service_timeout=_TIMEOUT,
            properties={
                "Bucket": edge.bucket.bucket_name,
                "Sources": [
                    {"Prefix": prefix, "Bucket": asset.s3_bucket_name, "Key": asset.s3_object_key}
                    for prefix, asset in sources.items()
                ],
                "Config": cdk.Stack.of(scope).to_json_string(ingress.page_config),
                "Connect": " ".join(
                    [
                        ingress.http_origin,
                        ingress.socket_origin,
                        *state.issuer_origins,
                        f"https://{state.bucket.bucket_regional_domain_name}",
                    ]
                ),
                "Headers": json.dumps(files.headers),
                "CacheAssets": files.headers["assets"]["Cache-Control"],
                "CacheOthers": files.headers["page"]["Cache-Control"],
            },
        )
        upload.node.add_dependency(self._role)

    def _make_function(self, stage: Stage, edge: Edge, assets: list[s3_assets.Asset]) -> lambda_.Function:
        self._role = iam.Role(
            self.scope, "UploadRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
        )
        log_group = add_log_group(self.scope, "UploadLogs", stage, "page-upload")
        log_group.grant_write(self._role)
        for actions, resources in (
            (["s3:GetObject"], [one.bucket.arn_for_objects(one.s3_object_key) for one in assets]),
            (["s3:PutObject", "s3:DeleteObject"], [edge.bucket.arn_for_objects("*")]),
            (["s3:ListBucket"], [edge.bucket.bucket_arn]),
        ):
            self._role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        return lambda_.Function(
            self.scope,
            "Function",
            function_name=stage.needed_name("function", "page-upload"),
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"{_CODE.stem}.handler",
            code=lambda_.Code.from_asset(
                str(_CODE.parent), exclude=["/*", f"!/{_CODE.name}"], ignore_mode=cdk.IgnoreMode.GIT
            ),
            role=self._role.without_policy_updates(),
            log_group=log_group,
            memory_size=512,
            timeout=_TIMEOUT,
        )
