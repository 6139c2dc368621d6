"""What may be destroyed any day: functions, the loop's state machine, the websocket API and the sweeper's rules."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks.access import Resources, bedrock_arns, function_names, grant
from stacks.code import Code
from stacks.function import Function
from stacks.ingress import Ingress
from stacks.stage import Stage
from stacks.state import StateStack
from stepline.loop.definition import render_definition
from stepline.loop.graph import TASKS
from stepline.settings import env

STEP_TIMEOUTS_S: Final = {task.function: task.function_timeout_s for task in TASKS}
TIMEOUTS_S: Final = {"authorizer": 10, "socket": 25, "sweeper": 120, **STEP_TIMEOUTS_S}
MEMORY_MIB: Final = {
    "authorizer": 256,
    "socket": 512,
    "decide": 1024,
    "act": 1024,
    "execute": 2048,
    "close": 512,
    "sweeper": 512,
}
# A person waits for these three.
WAITED_FOR: Final = ("authorizer", "socket", "decide")
ENDED_BADLY: Final = ("FAILED", "TIMED_OUT", "ABORTED")


class RuntimeStack(cdk.Stack):
    """The way of one message: gateway → socket → machine → decide, act, close."""

    def __init__(
        self, scope: Construct, stage: Stage, *, state: StateStack, code: Code, packages: tuple[str, ...] = ()
    ) -> None:
        """Compose the parts and give each function its rights. `packages` are what programs may import."""
        super().__init__(scope, f"stepline-{stage.name}-runtime", description="Stepline: loop and ingress.")
        self.packages = packages
        self.machine_arn = self._arn("stateMachine", stage.machine_name)
        self.ingress = Ingress(self, stage)
        self.functions = self._make_functions(stage, state, code)
        self.machine = self._make_machine(stage)
        self.ingress.serve(authorizer=self.functions["authorizer"], socket=self.functions["socket"])
        self._sweep(stage)
        for name, value in {"WebSocketUrl": self.ingress.url, "MachineArn": self.machine_arn}.items():
            cdk.CfnOutput(self, name, value=value)
        if not stage.oidc_issuer:
            cdk.Annotations.of(self).add_warning_v2(
                "stepline:issuer", "no oidc_issuer given (-c oidc_issuer=…): nobody can connect"
            )
        if stage.model_provider == "anthropic" and not stage.model_secret_arn and not stage.is_local:
            cdk.Annotations.of(self).add_warning_v2(
                "stepline:model", "no model_secret_arn given (-c model_secret_arn=…): turns will fail"
            )

    def _arn(self, resource: str, name: str) -> str:
        return self.format_arn(
            service="states",
            resource=resource,
            resource_name=name,
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )

    def _make_functions(self, stage: Stage, state: StateStack, code: Code) -> dict[str, Function]:
        layers = code.make_layers(self)
        environment = self._environment(stage, state)
        resources = Resources(
            table=state.table,
            bucket=state.bucket,
            machine_arn=self.machine_arn,
            execution_arn=self._arn("execution", f"{stage.machine_name}:*"),
            connections_arn=self.ingress.connections_arn,
            model_secret_arn=stage.model_secret_arn,
            model_arns=bedrock_arns(self) if stage.model_provider == "bedrock" else (),
        )
        functions = {
            name: Function(
                self,
                name,
                stage=stage,
                code=code,
                layers=layers,
                environment=environment,
                timeout_s=TIMEOUTS_S[name],
                memory_mib=MEMORY_MIB[name],
                snap_start=name in WAITED_FOR,
            )
            for name in function_names(executes=stage.executes)
        }
        for function in functions.values():
            grant(function, resources)
        return functions

    def _environment(self, stage: Stage, state: StateStack) -> dict[str, str]:
        return env(
            stage=stage.name,
            table=state.table.table_name,
            bucket=state.bucket.bucket_name,
            machine_arn=self.machine_arn,
            callback_url=self.ingress.callback_url,
            oidc_issuer=stage.oidc_issuer,
            oidc_audience=stage.oidc_audience,
            oidc_jwks_url=stage.oidc_jwks_url,
            allowed_origins=stage.allowed_origins,
            max_iterations=stage.max_iterations,
            bundle_props=stage.bundle_props,
            assembly=stage.assembly,
            model_provider=stage.model_provider,
            model_roles=stage.model_roles,
            model_secret_arn=stage.model_secret_arn,
            exec_mode=stage.exec_mode,
            exec_image=stage.exec_image,
            exec_python=stage.exec_python,
            exec_home=stage.exec_home,
            exec_packages=self.packages,
            descriptors_dir=stage.descriptors_dir,
        )

    def _make_machine(self, stage: Stage) -> sfn.StateMachine:
        """Generate the machine from the table. Its role calls the aliases and nothing else."""
        called = {task.function for task in TASKS} & self.functions.keys()
        aliases = {name: self.functions[name].live.function_arn for name in sorted(called)}
        role = iam.Role(self, "LoopRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(aliases.values()))
        )
        definition = render_definition(aliases, partition=self.partition)
        return sfn.StateMachine(
            self,
            "Loop",
            state_machine_name=stage.machine_name,
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(self.to_json_string(definition)),
            role=role.without_policy_updates(),
        )

    def _sweep(self, stage: Stage) -> None:
        """Wake the sweeper when an execution ends badly, and every five minutes for what no event told.

        On the emulator the clock is off: tests and idle machines stay quiet, and `stepline up` sweeps once.
        """
        target = targets.LambdaFunction(self.functions["sweeper"].live, retry_attempts=2)
        events.Rule(
            self,
            "TurnEndedBadly",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={"status": list(ENDED_BADLY), "stateMachineArn": [self.machine_arn]},
            ),
            targets=[target],
        )
        events.Rule(
            self,
            "SweepClock",
            schedule=events.Schedule.rate(cdk.Duration.minutes(5)),
            enabled=not stage.is_local,
            targets=[target],
        )
