"""The construct of every function: own role, own log group, alias `live`, and a size from one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stepline import metrics
from stepline.errors import InputError
from stepline.loop.graph import TASKS
from stepline.model.program.served_call import SERVED_S
from stepline.settings import TABLE
from stepline_cdk.access import ATTACHES, TRACING, Resources, statements
from stepline_cdk.code import AUTHORIZER, Package
from stepline_cdk.environment import check_environment, function_environment
from stepline_cdk.log_group import add_log_group
from stepline_cdk.network import Network
from stepline_cdk.stage import Stage

_SNAP_WARNING: Final = "@aws-cdk/aws-lambda:snapStartRequirePublish"
STEP_TIMEOUTS_S: Final = {task.function: task.function_timeout_s for task in TASKS}


class Size(NamedTuple):
    """A function's timeout and memory, and whether a turn's first token waits for it, so that it has a snapshot.

    `task_storage_mib` is the disk of one that collects files of tasks, beside files of earlier turns.
    """

    timeout_s: int
    memory_mib: int
    is_before_first_token: bool = False
    task_storage_mib: int = 512


SIZES: Final[Mapping[str, Size]] = {
    "authorizer": Size(10, 256),
    "socket": Size(25, 512, is_before_first_token=True),
    "api": Size(25, 512),
    "search": Size(25, 512),
    "stream": Size(25, 256),
    "decide": Size(STEP_TIMEOUTS_S["decide"], 512, is_before_first_token=True),
    "act": Size(STEP_TIMEOUTS_S["act"], 512, task_storage_mib=2048),
    "execute": Size(STEP_TIMEOUTS_S["execute"], 2048),
    "serve": Size(SERVED_S, 512),
    "output": Size(30, 256),
    "preflight": Size(120, 1024),
    "close": Size(STEP_TIMEOUTS_S["close"], 512),
    "sweeper": Size(300, 512),
    "eraser": Size(240, 512),
}
"""Memory is chosen by cost times time. Source: docs/reference/bench.md, `size_<function>`.

The authorizer has no snapshot: a client connects when its page opens and sends later, over the same connection.
"""
SNAPSHOTS: Final = tuple(name for name, size in SIZES.items() if size.is_before_first_token)
"""The functions with a snapshot of each version, in a stage that enables them."""


ACTING: Final[Mapping[str, tuple[str, ...]]] = {
    "act": ("memory", "mcp"),
    "serve": ("memory", "mcp"),
    "search": ("memory",),
    AUTHORIZER: (AUTHORIZER,),
}
"""The functions that search the memory index, ask MCP servers, or authorize, with the layers they have for it.

No other one has them, and the authorizer has none of the common dependencies: a layer is fetched by every new environment,
whether it is used or not.
"""
LOADING: Final = ("act", "close", "decide", "serve")
"""The functions that import the bundle, and the packages that it requires."""


class Function(Construct):
    """`lambdas.<name>.handler`; callers use `live`, never the function, so that a deployment swaps versions."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        stage: Stage,
        package: Package,
        settings: Mapping[str, Any],
        resources: Resources,
        undelivered: sqs.IQueue | None = None,
        network: Network | None = None,
    ) -> None:
        """Add the function, its log group, and its role with its rights from the table.

        Snapshots are for the functions that a turn's first token waits for, if the stage enables them; a reservation of executions is
        both the guarantee and the limit of a function. `settings` are those of the stack, of which it gets what it reads.
        `undelivered` gets the events that it failed; it runs in the owner's `network`. Raises InputError `environment_too_large`.
        """
        super().__init__(scope, name.title())
        size = SIZES[name]
        self.name = name
        self.function_name = stage.needed_name("function", name)
        self._variables = _variables(name, settings)
        self.log_group = add_log_group(self, "Logs", stage, name)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.log_group.grant_write(self.role)
        for statement in statements(name, resources):
            self.role.add_to_policy(statement)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=self.function_name,
            runtime=package.runtime,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"lambdas.{name}.handler",
            code=package.handlers,
            layers=_layers(name, package),
            role=self.role.without_policy_updates(),
            log_group=self.log_group,
            timeout=cdk.Duration.seconds(size.timeout_s),
            memory_size=size.memory_mib,
            reserved_concurrent_executions=stage.division.reserved.get(name),
            dead_letter_queue=undelivered,
            ephemeral_storage_size=cdk.Size.mebibytes(size.task_storage_mib) if stage.has_tasks else None,
            environment=self._variables,
            # The previous version remains for a rollback, until the stack's own clock deletes it; on the emulator `stepline up`
            # removes it, since only that ends its workers. The version of a failed update does not remain: Lambda publishes
            # the same code only once, so that the next update would have none (aws-cdk#28252).
            current_version_options=lambda_.VersionOptions(
                removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            ),
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS
            if name in SNAPSHOTS and stage.snap_start
            else None,
        )
        if network:
            self._attach(network)
        # The alias below names a published version, which this warning does not recognise.
        cdk.Annotations.of(self.function).acknowledge_warning(_SNAP_WARNING)
        self.live = lambda_.Alias(self, "Live", alias_name="live", version=self.function.current_version)

    def _attach(self, network: Network) -> None:
        """Place the function by ids: the construct's property would need all of the VPC, and attach a managed policy."""
        self.role.add_to_policy(self._keep_from_network())
        made = self.function.node.default_child
        assert isinstance(made, lambda_.CfnFunction)
        made.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(network.subnet_ids), security_group_ids=list(network.security_group_ids)
        )

    def _keep_from_network(self) -> iam.PolicyStatement:
        """Return the denial, to the function's code, of the rights by which Lambda attaches it to a network.

        Source: docs.aws.amazon.com/lambda, "Giving Lambda functions access to resources in an Amazon VPC".
        """
        arn = cdk.Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=self.function_name,
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=[action for right in ATTACHES for action in right.actions],
            resources=["*"],
            conditions={"ArnEquals": {"lambda:SourceFunctionArn": arn}},
        )

    def add_variable(self, variable: str, value: str) -> None:
        """Add a variable of the bundle's own. Raises InputError `environment_too_large`, and `bad_choice` for one that exists."""
        if variable in self._variables or variable in {row.variable for row in TABLE.values()}:
            raise InputError(
                f"variable {variable}: got a setting's, takes a name of the bundle's own", code="bad_choice"
            )
        self._variables[variable] = value
        check_environment(self.name, self._variables)
        self.function.add_environment(variable, value)


def _variables(name: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a function. Raises InputError `environment_too_large`."""
    variables = {
        **function_environment(name, settings),
        "POWERTOOLS_SERVICE_NAME": name,
        "POWERTOOLS_METRICS_NAMESPACE": metrics.NAMESPACE,
    }
    check_environment(name, variables)
    return variables


def _layers(name: str, package: Package) -> list[lambda_.LayerVersion]:
    """Return the layers of a function, of which Lambda takes five. Source: docs.aws.amazon.com/lambda, "Lambda quotas"."""
    acting = [layer for of, layer in package.acting.items() if of in ACTING.get(name, ())]
    bundle = package.bundle if name in LOADING else []
    base = package.traced if name in TRACING else package.layers
    if name == AUTHORIZER:
        base = base[:1]  # the library, without the common dependencies
    return list(dict.fromkeys([*base, *acting, *bundle]))
