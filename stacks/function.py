"""The one way to make a function: own role, own log group, alias `live`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.code import Code
from stacks.stage import Stage
from stepline import metrics


class Function(Construct):
    """`lambdas.<name>.handler`; callers use `live`, never the function, so that a deployment swaps versions."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        stage: Stage,
        code: Code,
        layers: Sequence[lambda_.ILayerVersion],
        environment: Mapping[str, str],
        timeout_s: int,
        memory_mib: int,
        snap_start: bool = False,
    ) -> None:
        """Add the function, its role and its log group. `snap_start` takes effect where the stage wants it."""
        super().__init__(scope, name.title())
        full_name = f"stepline-{stage.name}-{name}"
        self.name = name
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/stepline/{stage.name}/{name}",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=full_name,
            runtime=code.runtime,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"lambdas.{name}.handler",
            code=code.handlers,
            layers=list(layers),
            role=self.role.without_policy_updates(),
            log_group=self.log_group,
            timeout=cdk.Duration.seconds(timeout_s),
            memory_size=memory_mib,
            environment={
                **environment,
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_METRICS_NAMESPACE": metrics.NAMESPACE,
            },
            # On the emulator `stepline up` removes old versions, since only that ends their workers.
            current_version_options=lambda_.VersionOptions(removal_policy=cdk.RemovalPolicy.RETAIN)
            if stage.is_local
            else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS
            if snap_start and stage.snap_start
            else None,
        )
        self.live = lambda_.Alias(self, "Live", alias_name="live", version=self.function.current_version)

    def allow(
        self, actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, object] | None = None
    ) -> None:
        """Let the function do exactly this."""
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=list(actions),
                resources=list(resources),
                conditions=dict(conditions) if conditions else None,
            )
        )
