"""The loop: the functions of its states, the state machine, and the rules that trigger the sweeper and the eraser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stepline.loop.graph import SWEEP_EVERY_S, TASKS
from stepline.model.file.upload_slot import QUARANTINE
from stepline.model.program.running_log import LOG
from stepline_cdk.access import LOOP, Resources, bedrock_arns, converse_arns, embedding_arn, statements
from stepline_cdk.alarm import add_alarms, add_dashboard
from stepline_cdk.code import Code
from stepline_cdk.definition import render_definition
from stepline_cdk.environment import event_environment, loop_settings
from stepline_cdk.event_source import EventSource
from stepline_cdk.execution import Execution
from stepline_cdk.function import ACTING, Function
from stepline_cdk.ingress import STAGE_NAME, Ingress
from stepline_cdk.key import find_key
from stepline_cdk.network import interfaces_arn
from stepline_cdk.retirement import add_retirement
from stepline_cdk.scan import add_scan
from stepline_cdk.service_log import log_executions
from stepline_cdk.shift import add_shift
from stepline_cdk.stage import Stage
from stepline_cdk.state import State
from stepline_cdk.watch import Watched

RECEIVERS: Final = ("preflight", "sweeper", "eraser")
"""The functions that rules call and whose events are kept. What a program prints is of no use later, so `output` is not
one of them."""
ENDED_BADLY: Final = ("FAILED", "TIMED_OUT", "ABORTED")


class Loop:
    """The resources of a turn: machine → decide, act, close, and programs beside them or in tasks.

    `resources` are those that rights apply to, `event_environment` the variables of a service that submits events.
    """

    def __init__(
        self,
        scope: Construct,
        stage: Stage,
        *,
        state: State,
        ingress: Ingress,
        code: Code,
        packages: tuple[str, ...] = (),
        execution: Execution | None = None,
    ) -> None:
        """Add all of it to a scope. `packages` are those that programs may import, `execution` the part with tasks."""
        self.scope = scope
        self._stack = cdk.Stack.of(scope)
        self._execution = execution
        self._network = ingress.network
        self.queues = make_queues(scope, stage)
        self.resources = resources = self._name_resources(stage, state, ingress)
        self.event_environment = event_environment(
            stage, state, machine_arn=resources.machine_arn, callback_url=ingress.callback_url
        )
        settings = loop_settings(
            stage,
            state,
            machine_arn=resources.machine_arn,
            callback_url=ingress.callback_url,
            packages=packages,
            serve_arn=resources.serve_arn if stage.runs_programs else "",
            fargate=_fargate(execution, stage) if execution else {},
        )
        self.functions = self._make_functions(stage, code, settings, resources)
        self.machine = self._make_machine(stage, resources)
        self._add_rules(stage, state.bucket.bucket_name)
        if stage.event_source_principals:
            EventSource(
                scope,
                "EventSource",
                stage=stage,
                resources=resources,
                environment=self.event_environment,
            )
        self._watch(stage, state, ingress)
        add_shift(scope, stage, "loop", self.functions.values())
        every = (*ingress.functions.values(), *self.functions.values())
        add_retirement(scope, stage, (one.function_name for one in every))
        add_scan(scope, stage, state.bucket)
        cdk.CfnOutput(scope, "MachineArn", value=resources.machine_arn)
        if stage.lacks_key and not stage.is_local:
            cdk.Annotations.of(scope).add_warning_v2(
                "stepline:model",
                f"no model_secret_arn given ({stage.spell('model_secret_arn=…')}): turns will fail",
            )
        if not stage.runs_programs:
            cdk.Annotations.of(scope).add_info_v2(
                "stepline:programs", f"exec_image={stage.exec_image or 'none'}: the agent runs no programs"
            )

    def _watch(self, stage: Stage, state: State, ingress: Ingress) -> None:
        watched = Watched(
            machine_arn=stage.machine_arn(self._stack),
            table=state.table.table_name,
            websocket_api_id=ingress.socket_api.api_id,
            websocket_stage=STAGE_NAME,
            http_api_id=ingress.http_api.api_id,
            queues=tuple(queue.queue_name for queue in self.queues.values()),
        )
        add_dashboard(self.scope, stage, watched, add_alarms(self.scope, stage, watched))

    def _make_functions(
        self, stage: Stage, code: Code, settings: Mapping[str, Any], resources: Resources
    ) -> dict[str, Function]:
        package = code.add_to(self.scope, acting=ACTING["act"], loads_bundle=True, traced=stage.is_traced)
        return {
            name: Function(
                self.scope,
                name,
                stage=stage,
                package=package,
                settings=settings,
                resources=resources,
                undelivered=self.queues.get(name),
                network=self._network,
            )
            for name in LOOP
            if (stage.executes or name != "execute")
            and (stage.runs_programs or name not in ("output", "serve"))
        }

    def _name_resources(self, stage: Stage, state: State, ingress: Ingress) -> Resources:
        resources = Resources(
            table=state.table,
            bucket=state.bucket,
            machine_arn=stage.machine_arn(self._stack),
            executions_arn=stage.executions_arn(self._stack),
            connections_arn=ingress.connections_arn,
            endings_arn=ingress.endings_arn,
            model_secrets=stage.model_secrets,
            search_secret_arn=stage.search_secret_arn,
            redis_secret_arn=stage.redis_secret_arn,
            traces_secret_arn=stage.tracing_secret_arn if stage.is_traced else "",
            traces="*" if stage.is_traced and not stage.tracing_endpoint else "",
            model_arns=(
                *(bedrock_arns(self._stack, stage.models) if stage.asks_bedrock else ()),
                *converse_arns(self._stack, stage.converse_models),
            ),
            serve_arn=stage.serve_arn(self._stack),
            handovers_arn=stage.handovers_arn(self._stack),
            tools_secrets_arn=stage.tools_secrets_arn(self._stack),
            memory_arn=state.memory_arn,
            keys=state.keys,
            embedding_arn=embedding_arn(self._stack) if state.memory_arn else "",
            undelivered={name: queue.queue_arn for name, queue in self.queues.items()},
            delivers_logs=not stage.is_local,
            network_arns=self._network.arns(self._stack) if self._network else (),
            interfaces_arn=interfaces_arn(self._stack),
        )
        if not (execution := self._execution):
            return resources
        return replace(
            resources,
            cluster_arn=execution.cluster_arn,
            tasks_arn=stage.tasks_arn(self._stack),
            task_definition_arn=self._stack.format_arn(
                service="ecs", resource="task-definition", resource_name=f"{execution.family}:*"
            ),
            task_role_arns=(execution.task_role_arn, execution.execution_role_arn),
        )

    def _make_machine(self, stage: Stage, resources: Resources) -> sfn.StateMachine:
        """Generate the machine from the table; its role calls the aliases, starts tasks, and nothing else."""
        called = {task.function for task in TASKS} & self.functions.keys()
        aliases = {name: self.functions[name].live.function_arn for name in sorted(called)}
        role = iam.Role(self.scope, "MachineRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        for statement in statements("machine", replace(resources, aliases=aliases)):
            role.add_to_policy(statement)
        definition = render_definition(aliases, remote=stage.has_tasks, partition=self._stack.partition)
        # Not `to_json_string`, which leaves out null values; an ARN needs no quoting.
        return sfn.StateMachine(
            self.scope,
            "Machine",
            state_machine_name=stage.machine_name,
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(json.dumps(definition)),
            role=role.without_policy_updates(),
            logs=log_executions(self.scope, stage),
        )

    def _target(self, name: str) -> targets.LambdaFunction:
        """Return a function as a rule's target; undelivered events are stored in its queue."""
        return targets.LambdaFunction(
            self.functions[name].live, retry_attempts=2, dead_letter_queue=self.queues.get(name)
        )

    def _add_rules(self, stage: Stage, bucket: str) -> None:
        """Trigger the functions that no state and no client calls."""
        self._sweep(stage)
        self._erase()
        self._judge_uploads(stage, bucket)
        if stage.runs_programs:
            self._show_output(bucket)

    def _show_output(self, bucket: str) -> None:
        """Trigger `output` on each copy of a running program's log; a late one is of no use."""
        events.Rule(
            self.scope,
            "ProgramPrinted",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={"bucket": {"name": [bucket]}, "object": {"key": [{"wildcard": f"exec/*/{LOG}"}]}},
            ),
            targets=[
                targets.LambdaFunction(
                    self.functions["output"].live, retry_attempts=0, max_event_age=cdk.Duration.minutes(1)
                )
            ],
        )

    def _judge_uploads(self, stage: Stage, bucket: str) -> None:
        """Trigger `preflight` on each file that a client posted, or on the end of its scan; Lambda tries again what fails."""
        key = [{"prefix": f"{QUARANTINE}/"}]
        pattern = events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created"],
            detail={"bucket": {"name": [bucket]}, "object": {"key": key}},
        )
        if stage.av == "guardduty":
            pattern = events.EventPattern(
                source=["aws.guardduty"],
                detail_type=["GuardDuty Malware Protection Object Scan Result"],
                detail={"s3ObjectDetails": {"bucketName": [bucket], "objectKey": key}},
            )
        events.Rule(self.scope, "FilePosted", event_pattern=pattern, targets=[self._target("preflight")])

    def _sweep(self, stage: Stage) -> None:
        """Trigger the sweeper on failed executions and ended tasks, and every five minutes for missed events."""
        target = self._target("sweeper")
        events.Rule(
            self.scope,
            "TurnEndedBadly",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={"status": list(ENDED_BADLY), "stateMachineArn": [stage.machine_arn(self._stack)]},
            ),
            targets=[target],
        )
        if self._execution:
            events.Rule(
                self.scope,
                "TaskEnded",
                event_pattern=events.EventPattern(
                    source=["aws.ecs"],
                    detail_type=["ECS Task State Change"],
                    detail={
                        "lastStatus": ["STOPPED"],
                        "clusterArn": [self._execution.cluster_arn],
                        "group": [f"family:{self._execution.family}"],
                    },
                ),
                targets=[target],
            )
        events.Rule(
            self.scope,
            "SweepClock",
            schedule=events.Schedule.rate(cdk.Duration.minutes(SWEEP_EVERY_S // 60)),
            targets=[target],
        )

    def _erase(self) -> None:
        """Trigger the eraser every five minutes for what is left; the API calls it at once."""
        events.Rule(
            self.scope,
            "EraseClock",
            schedule=events.Schedule.rate(cdk.Duration.minutes(5)),
            targets=[self._target("eraser")],
        )


def make_queues(scope: Construct, stage: Stage) -> Mapping[str, sqs.Queue]:
    """Add a dead-letter queue for each of `RECEIVERS`, by its name; none on stage `local`, whose developer sees the failure.

    A rule puts into it what it could not deliver in a day, Lambda what the function failed three times. Both store the event
    unchanged, so one command sends either to the function again. Source: docs/how-to/runbook.md.
    """
    if stage.is_local:
        return {}
    key = find_key(scope, stage)
    return {
        name: sqs.Queue(
            scope,
            f"{name.title()}Undelivered",
            queue_name=stage.optional_name("queue", name),
            encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
            # Longer than a replay of one event takes.
            visibility_timeout=cdk.Duration.minutes(10),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        for name in RECEIVERS
    }


def _fargate(execution: Execution, stage: Stage) -> dict[str, Any]:
    return {
        "fargate_cluster": execution.cluster_name,
        "fargate_task_definition": execution.family,
        "fargate_container_name": execution.container_name,
        "fargate_subnets": execution.subnet_ids,
        "fargate_security_groups": execution.security_group_ids,
        "fargate_assign_public_ip": execution.public_ip,
        "fargate_memory_mib": stage.exec_memory_mib,
        "fargate_cpu_units": stage.exec_cpu,
        "fargate_kms_key_arn": stage.kms_key_arn,
    }
