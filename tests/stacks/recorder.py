"""The loop over AWS's own clients and moto, with every call written down as the right it needs."""

import dataclasses
import json
import threading
from contextlib import contextmanager

from bundles.default import WORKFLOW
from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.client import connect, session
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.grant import S3Grants
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.machine import StepFunctionsMachine
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.aws.tenancy.accounts import DynamoAccounts, DynamoCosts, DynamoRate
from stepline.adapters.aws.tenancy.eraser_call import EraserCall
from stepline.adapters.aws.tenancy.erasure import AwsErasure, DynamoUserErasures
from stepline.adapters.aws.ticket import DynamoTickets
from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.adapters.memory.channel import MemoryPublisher
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.upload.quarantine import S3Quarantine
from stepline.bootstrap.choice import StoredUploads
from stepline.bootstrap.event_source import EventSource
from stepline.bundle.assembly import build_agent
from stepline.delivery.posting import GatewayBroadcast
from stepline.errors import NotFoundError, UnknownOutcome
from stepline.ingress.erase_user import ErasurePorts
from stepline.ingress.message import receive
from stepline.log.timeline_cache import History
from stepline.model.program.execution import RunLimits, RuntimeProfile, TaskConfig
from stepline.model.tenancy.consumption import Consumption, InvocationCost
from stepline.model.tenancy.limits import Limits as AccountLimits
from stepline.model.tenancy.limits import ScopeLimits
from stepline.model.wire.event import ErrorFrame
from stepline.tools.context import ReadCaps
from stepline_cdk.access import ACCESS, INGRESS, LOOP
from stepline_cdk.owned import LANE_INDEX
from tests.support.aws import create_machine, create_table
from tests.support.conversation import LANE, USER, Conversation, of

NAME = "calls"
LIMITS = ScopeLimits(
    user=AccountLimits(messages_per_minute=1_000, turns_at_once=3, tokens_day=10**9),
    project=AccountLimits(usd_month=1e6),
    tenant=AccountLimits(storage_bytes=10**12),
)
"""Of every kind one, and none that is reached."""
REPORTING = {*INGRESS, *LOOP} - {"authorizer", "eraser", "stream"}
"""The functions that report what their calls cost: neither the authorizer nor the eraser, which work for no conversation, nor the readers of streams."""
TASK = TaskConfig(
    cluster="cluster", task_definition="exec", container_name="supervisor", subnets=("subnet-1", "subnet-2")
)
ITEMS = ("PutItem", "GetItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
OF_OBJECTS = {
    # Asking for an object's size is reading it.
    "HeadObject": "s3:GetObject",
    "DeleteObjects": "s3:DeleteObject",
    "ListObjectsV2": "s3:ListBucket",
    "ListObjectVersions": "s3:ListBucketVersions",
}
"""The actions of S3 that are not named like what is called."""
TARGETS = {
    "states:StartExecution": "machine",
    "states:SendTaskFailure": "machine",
    "states:DescribeExecution": "executions",
    "states:StopExecution": "executions",
    "states:ListExecutions": "machine",
    "secretsmanager:CreateSecret": "handovers",
    "secretsmanager:DeleteSecret": "handovers",
    "ecs:RunTask": "task definition",
    "ecs:ListTasks": "cluster",
    "ecs:StopTask": "tasks",
    "ecs:DescribeTasks": "tasks",
}


class Calls:
    """What each principal called, as pairs of an action and what it was done to."""

    def __init__(self):
        self.used = {}
        self.principal = ""
        session().register("provide-client-params", self._hear)

    @contextmanager
    def by(self, principal):
        before, self.principal = self.principal, principal
        yield
        self.principal = before

    def note(self, action, target):
        self.used.setdefault(self.principal, set()).add((action, target))

    def _hear(self, params, model, **_):
        service, name = model.service_model.service_name, model.name
        if (
            not self.principal or name == "CreateBucket"
        ):  # so botocore finds the address of a form; nothing is called
            return
        if service == "dynamodb":
            self._hear_table(name, params)
        elif service == "s3":
            self._hear_bucket(name, params)
        elif service == "lambda":
            self.note("lambda:InvokeFunction", params["FunctionName"].split("-")[-1].partition(":")[0])
        else:
            action = f"{'states' if service == 'stepfunctions' else service}:{name}"
            self.note(action, TARGETS.get(action, "?"))

    def _hear_bucket(self, name, params):
        action = OF_OBJECTS.get(name, f"s3:{name}")
        if name == "DeleteObjects":
            for one in params["Delete"]["Objects"]:
                for needed in (action, f"{action}Version") if "VersionId" in one else (action,):
                    self.note(needed, one["Key"].partition("/")[0])
        elif "Key" in params:
            deletes_version = name == "DeleteObject" and "VersionId" in params
            action = f"{action}Version" if deletes_version else action
            self.note(action, self._place(params["Key"], action))
        else:
            self.note(action, params["Prefix"].partition("/")[0])

    def _place(self, key, action):
        """Return the first word of an object's key, or its pattern where that is all that the principal may do."""
        word = key.partition("/")[0]
        pattern = f"{word}/*/{key.rpartition('/')[2]}"
        given = {one for right in ACCESS[self.principal] if action in right.actions for one in right.of}
        return pattern if word not in given and pattern in given else word

    def _hear_table(self, name, params):
        if name == "TransactWriteItems":
            for item in params["TransactItems"]:
                ((kind, inner),) = item.items()
                self._hear_table(f"{kind}Item", inner)
        elif name == "Query":
            values = params["ExpressionAttributeValues"]
            key = values.get(":pk", values.get(":user", {})).get("S", "")
            of_lanes = params.get("IndexName") == LANE_INDEX
            shard = values.get(":shard") or values.get(":kind")
            self.note("dynamodb:Query", shard["S"] if of_lanes else word(key))
        elif name in ("BatchGetItem", "BatchWriteItem"):
            for pk in batch_keys(params):
                self.note(f"dynamodb:{name}", word(pk))
        elif name in ITEMS:
            self.note(f"dynamodb:{name}", word(params.get("Key", params.get("Item"))["pk"]["S"]))


def batch_keys(params):
    """Return the partition keys of the rows that a request reads, or writes."""
    (asked,) = params["RequestItems"].values()
    if isinstance(asked, dict):
        return {key["pk"]["S"] for key in asked["Keys"]}
    requests = [request for item in asked for request in item.values()]
    return {request.get("Key", request.get("Item"))["pk"]["S"] for request in requests}


def word(key):
    return f"{key.partition('#')[0]}#*"


class Artifacts(S3Artifacts):
    """Says what S3 asks for besides, where an object is not there."""

    def __init__(self, bucket, calls):
        super().__init__(bucket)
        self.calls = calls

    def get(self, key):
        try:
            return super().get(key)
        except NotFoundError:
            self.calls.note("s3:ListBucket", key.partition("/")[0])
            raise


class Slots(S3Quarantine):
    """Notes the additional rights that S3 requires for an absent object, and of the signer of a form."""

    def __init__(self, bucket, calls):
        super().__init__(bucket)
        self.calls = calls

    def allow(self, key, **asked):
        self.calls.note("s3:PutObject", key.partition("/")[0])
        return super().allow(key, **asked)

    def fetch(self, key, into, *, max_bytes):
        found = super().fetch(key, into, max_bytes=max_bytes)
        if found is None:
            self.calls.note("s3:ListBucket", key.partition("/")[0])
        return found


class Log(DynamoLog):
    """Loses the next put, or the answer to it, once it was asked to. `looked` is set when a batch was looked for."""

    loses = ""

    def __init__(self, table):
        super().__init__(table)
        self.table = table
        self.looked = threading.Event()

    def get(self, lane, n, *, consistent=True):
        found = super().get(lane, n, consistent=consistent)
        self.looked.set()
        return found

    def put(self, *args, **kwargs):
        loses, self.loses = self.loses, ""
        if loses == "request":
            raise UnknownOutcome("the request was lost")
        put = super().put(*args, **kwargs)
        if loses == "answer":
            raise UnknownOutcome("the answer was lost")
        return put


class Publisher(MemoryPublisher):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def post(self, connection, frame):
        if self.calls.principal:
            self.calls.note("execute-api:ManageConnections", "connections")
        super().post(connection, frame)

    def close(self, connection):
        if self.calls.principal:
            self.calls.note("execute-api:ManageConnections", "endings")
        super().close(connection)


class Cloud(Conversation):
    """A conversation on moto. Who does what is said by `calls.by`; each call begins as cold as a new process."""

    def __init__(self, calls, *script, ingress="socket"):
        super().__init__(*script)
        self.calls, self.ingress = calls, ingress
        self.bucket = name = f"{NAME}-{ingress}"
        create_table(name)
        connect("s3", read_timeout_s=5).create_bucket(Bucket=name)
        table, clock, publisher = Table(name), self.clock, Publisher(calls)
        deltas, subscriptions = DynamoDeltas(table, clock), DynamoSubscriptions(table, clock)
        self.publisher = publisher
        self.ports = dataclasses.replace(
            self.ports,
            log=Log(table),
            artifacts=Artifacts(name, calls),
            subscriptions=subscriptions,
            tickets=DynamoTickets(table, clock),
            rate=DynamoRate(table),
            costs=DynamoCosts(table),
            erasure=AwsErasure(table, name, clock),
            accounts=DynamoAccounts(table),
            publisher=publisher,
            broadcast=GatewayBroadcast(
                subscriptions=subscriptions, publisher=publisher, meter=self.ports.meter, clock=clock
            ),
            deltas=deltas,
            relay=MemoryRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher),
            machine=StepFunctionsMachine(create_machine(name)),
            tasks=EcsTasks(table, "prod", clock),
            grants=S3Grants(name),
            uploads=StoredUploads(table),
            policy=dataclasses.replace(
                self.ports.policy, seal_batches=2, workspace="git", message_max_chars=100_000, limits=LIMITS
            ),
        )
        profile = RuntimeProfile(placement="remote", backend="fargate", task=TASK)
        agent = build_agent(ReadCaps(), parts=WORKFLOW.parts(), runtime=(profile, RunLimits(timeout_s=60)))
        places = dataclasses.replace(agent.execution, places=frozenset({"remote"}))
        self.agent = dataclasses.replace(agent, execution=places)

    def desk(self):
        """Return the ports of erasure, as the functions wire them."""
        return ErasurePorts(
            ports=dataclasses.replace(self.ports, memory=EmbeddedMemoryIndex(self.ports)),
            erasure=self.ports.erasure,
            users=DynamoUserErasures(self.ports.log.table, self.clock),
            wake=EraserCall("arn:aws:lambda:us-east-1:123456789012:function:stepline-prod-eraser:live"),
        )

    def batches(self, lane=LANE):
        with self.calls.by(""):
            return self.ports.log.since(lane, 0)

    @contextmanager
    def acting(self, principal, *, loses=""):
        """Be a function that has just started; with `loses`, its first put or the answer to it is lost."""
        self.history = History()
        step = self.now()
        self.ports.log.loses = loses
        with self.calls.by(principal):
            yield step
            if principal in REPORTING:
                cost = InvocationCost(turn=step.turn, function=principal, at="2026-11-26", used=Consumption())
                self.ports.costs.put(LANE, cost)
        assert not self.ports.log.loses

    def say(self, text="", *, loses="", **message):
        """Let the user say something, over the socket or by a service that speaks for them."""
        if text:
            message |= {"action": "send", "text": text}
        if message["action"] in ("send", "event"):
            message.setdefault("message_id", f"m{len(self.batches())}")
            if self.ingress == "events":
                self._submit(message, loses)
                return
        if message["action"] != "auth":
            message["conversation"] = LANE.conversation
        known = len(self.publisher.inboxes["k1"])
        with self.acting("socket", loses=loses):
            receive(self.ports, "k1", json.dumps(message))
        assert not of(ErrorFrame, self.publisher.inboxes["k1"][known:])

    def _submit(self, message, loses):
        """Say it by the library, with a file that was stored before."""
        where = {field: getattr(LANE, field) for field in ("tenant", "project", "conversation")}
        source = EventSource(self.ports, source="billing")
        payload = {"text": message["text"]} if "text" in message else message["payload"]
        is_steer = message.get("kind") == "steer"
        with self.acting("events", loses=loses):
            file = source.store_attachment(**where, body=b"%PDF-", filename="a.pdf", mime="application/pdf")
            source.submit_event(
                **where,
                user=USER,
                kind=message.get("kind", "followup"),
                message_id=message["message_id"],
                payload=payload,
                attachments=[] if is_steer else [file],
                founds=True,
            )
