"""Accepted findings of AWS's best-practice rules in our templates: each with its place and the reason.

A test fails for a row that no longer matches anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Acknowledgement:
    """One finding, the constructs where it is accepted, and the reason.

    A place is `<part>/<path of the construct>`: below a stack of a stage, or a construct of an agent. In a finding, `…`
    matches text that the CDK generates: hashes, names of outputs, and the stage's name in them.
    """

    finding: str
    places: tuple[str, ...]
    reason: str

    def matches(self, finding: str) -> bool:
        """Return True if a finding on one of the places is accepted."""
        parts = (re.escape(part) for part in self.finding.split("…"))
        return bool(re.fullmatch("[^\\n]*?".join(parts), finding))

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield every pair of finding and place."""
        return ((self.finding, place) for place in self.places)


def _policies(*roles: str) -> tuple[str, ...]:
    return tuple(f"{role}/DefaultPolicy" for role in roles)


_INGRESS: Final = ("ingress/Api", "ingress/Authorizer", "ingress/Socket")
_LOOP: Final = (
    *("loop/Act", "loop/Close", "loop/Decide", "loop/Eraser"),
    *("loop/Output", "loop/Preflight", "loop/Serve", "loop/Sweeper"),
)
_SOCKET, _ACT, _CLOSE, _DECIDE, _ERASER, _OUTPUT, _PREFLIGHT, _SERVE, _SWEEPER = (
    f"{function}/Role" for function in ("ingress/Socket", *_LOOP)
)
_EVENTS: Final = "loop/EventSource/Role"
_API: Final = "ingress/Api/Role"
_SEARCH: Final = "ingress/Search/Role"
_STREAM: Final = "ingress/Stream/Role"
_FUNCTIONS: Final = (
    _API,
    "ingress/Authorizer/Role",
    _SEARCH,
    _STREAM,
    *(f"{one}/Role" for one in ("ingress/Socket", *_LOOP)),
)
_SHIFTS: Final = ("ingress/IngressShift/Role", "loop/LoopShift/Role")

_OBJECTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "att": (
        "Attachments: keys are made for each conversation",
        (
            _API,
            _SEARCH,
            _STREAM,
            _SOCKET,
            _EVENTS,
            _ACT,
            _CLOSE,
            _DECIDE,
            _ERASER,
            _PREFLIGHT,
            _SERVE,
            _SWEEPER,
        ),
    ),
    "out": (
        "Bodies of a log's entries: keys end in their content's hash",
        (_API, _SEARCH, _STREAM, _SOCKET, _EVENTS, _ACT, _CLOSE, _DECIDE, _ERASER, _SERVE, _SWEEPER),
    ),
    "quarantine": ("Files that clients post: keys are made for each slot", (_API, _ERASER, _PREFLIGHT)),
    "git": (
        "Versions of a conversation's project: keys are made for each turn",
        (_CLOSE, _DECIDE, _ERASER, _SWEEPER),
    ),
    "seg": (
        "Segments of folded logs: keys are made for each conversation",
        (_API, _SEARCH, _SOCKET, _ACT, _CLOSE, _DECIDE, _ERASER, _SERVE, _SWEEPER),
    ),
    "mem": ("Segments of users' memory: keys are made for each user", (_ACT, _ERASER, _SEARCH, _SERVE)),
    "store": ("Values that a bundle keeps: keys are made for each user", (_ACT, _CLOSE, _DECIDE, _ERASER)),
    "exec": ("Objects of a run: keys are made for each call", (_ACT, _ERASER, _SERVE)),
    "tomb": ("Tombstones of deleted conversations: keys end in the hash of a name", (_ERASER,)),
}
"""The classes of objects in the bucket, by their prefix: what they are, and the roles that reach them."""

ACKNOWLEDGED: Final = (
    # --- would cost more than it is worth
    Acknowledgement(
        finding="S1",
        places=("state/Artifacts",),
        reason="Every access is by a function's role or by the right to one object that it signed, and is in the "
        "functions' logs; an account that needs more turns on CloudTrail's data events, without a second bucket.",
    ),
    Acknowledgement(
        finding="APIG1",
        places=("ingress/SocketStage",),
        reason="Access logs of a websocket API need a role that belongs to the whole account and region, so they are a choice "
        "of the stage (`socket_access_log`). The function that it calls logs every route.",
    ),
    Acknowledgement(
        finding="SF1",
        places=("loop/Machine",),
        reason="What fails is logged. Step Functions keeps the history of every execution for 90 days, and the functions log "
        "every step, so that a line of every state would be paid for three times.",
    ),
    Acknowledgement(
        finding="SF2",
        places=("loop/Machine",),
        reason="A turn can be followed in its execution's history and, step by step, in the logs under one `turn_id`.",
    ),
    Acknowledgement(
        finding="ECS4",
        places=("exec/Cluster",),
        reason="Tasks live for one run; its time, memory and end are in the run's envelope and in our metrics.",
    ),
    Acknowledgement(
        finding="VPC7",
        places=("exec/Network",),
        reason="Programs have no network at all, and their supervisor reaches out on port 443 only: flow logs would "
        "record AWS's own endpoints.",
    ),
    Acknowledgement(
        finding="CB4",
        places=("exec/ImageBuild/Project",),
        reason="The project has no artifacts to encrypt: it pushes an image, and ECR encrypts that.",
    ),
    Acknowledgement(
        finding="S1",
        places=("edge/Site",),
        reason="Its objects are the page, which is public; only CloudFront reads them, and one function writes them.",
    ),
    Acknowledgement(
        finding="CFR3",
        places=("edge/Distribution",),
        reason="Public static files: a log would hold addresses with conversations' names and users' IP addresses, which no one "
        "needs. Requests to the agent are in the logs of the functions.",
    ),
    # --- a deployment may choose otherwise
    Acknowledgement(
        finding="CFR1",
        places=("edge/Distribution",),
        reason="The app does not restrict the countries of its users; the sign-in identifies them.",
    ),
    Acknowledgement(
        finding="CFR2",
        places=("edge/Distribution",),
        reason="The distribution serves one bucket of static files, and no code that a request could reach; a firewall costs 5 "
        "USD a month at rest.",
    ),
    Acknowledgement(
        finding="CFR4",
        places=("edge/Distribution",),
        reason="CloudFront's own domain has a fixed protocol policy; with its own domain and certificate "
        "the page speaks TLS 1.2 and later. Browsers that can run the page speak nothing older.",
    ),
    Acknowledgement(
        finding="COG2",
        places=("state/Users/Pool",),
        reason="A second factor is offered, not required: users are made by an administrator, who decides. A "
        "deployment with rules of its own names its own issuer.",
    ),
    Acknowledgement(
        finding="COG8",
        places=("state/Users/Pool",),
        reason="Threat protection is billed by the user; to have it, change the pool's plan or name an issuer.",
    ),
    # --- unknown to the rule
    Acknowledgement(
        finding="APIG4",
        places=("ingress/SocketApi/$default-Route", "ingress/SocketApi/$disconnect-Route"),
        reason="A websocket is authorized when it connects; AWS offers nothing on its other routes. Expiry is checked "
        "with every message.",
    ),
    Acknowledgement(
        finding="ECS2",
        places=("exec/Task",),
        reason="The variables are names, limits and a region; what is secret comes by the name of a secret that is "
        "deleted when it is read.",
    ),
    # --- cannot be named before it exists
    *(
        Acknowledgement(
            finding=f"IAM5[Resource::…Artifacts…/{prefix}/*]",
            places=_policies(*roles),
            reason=f"{what}, below the one prefix of their class.",
        )
        for prefix, (what, roles) in _OBJECTS.items()
    ),
    Acknowledgement(
        finding="IAM5[Resource::…Artifacts…/exec/*/log.json]",
        places=_policies(_API, _SOCKET, _STREAM, _OUTPUT),
        reason="Logs of running programs: keys are made for each call, below the one prefix of their class, with one name.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:execute-api:…/live/POST/@connections/*]",
        places=_policies(
            _API, _SOCKET, _EVENTS, _ACT, _CLOSE, _DECIDE, _ERASER, _OUTPUT, _PREFLIGHT, _SWEEPER
        ),
        reason="Connections get their ids when they open; one method on one stage of one API.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:execute-api:…/live/DELETE/@connections/*]",
        places=_policies(_ERASER),
        reason="Connections get their ids when they open; those of a person who was erased are closed, on one stage of one API.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:states:…:execution:…:*]",
        places=_policies(_SOCKET, _EVENTS, _SWEEPER),
        reason="Executions are named for conversations and epochs; those of one machine.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:secretsmanager:…:secret:stepline/…/exec/*]",
        places=_policies(_SOCKET, _EVENTS, _ACT, _ERASER, _SWEEPER, "exec/TaskRole"),
        reason="A run is handed over in a secret under a fresh name; those of one stage, for as long as a task starts.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:secretsmanager:…:secret:stepline/…/secret/*]",
        places=_policies(_ACT, _CLOSE, _DECIDE, _SERVE),
        reason="The secrets that tools read, one for the deployment and one for each of its bundles; those of one stage.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:ecs:…:task/…-exec/*]",
        places=_policies(_SOCKET, _EVENTS, _ERASER, _SWEEPER),
        reason="Tasks get their ids when they start; those of one cluster.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:ecs:…:task-definition/…-exec:*]",
        places=_policies(_ACT),
        reason="A new image is a new revision; those of one family, on one cluster.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:bedrock:*::foundation-model/anthropic.*]",
        places=_policies(_DECIDE, _ACT, _CLOSE, _SERVE),
        reason="An inference profile calls its models in any region it spans, so each must be allowed there.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:bedrock:…:inference-profile/*anthropic.*]",
        places=_policies(_DECIDE, _ACT, _CLOSE, _SERVE),
        reason="Roles of the agent are mapped to models by settings; one provider's profiles.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…Memory…/index/*]",
        places=_policies(_API, _ACT, _CLOSE, _ERASER, _SEARCH, _SERVE, _SWEEPER),
        reason="An index is made for each project when its first turn ends or moves in; those of the stage's one vector bucket.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…Site…/*]",
        places=_policies("page/UploadRole"),
        reason="The page's files have names by their content; those of the one bucket that holds nothing else.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:lambda:…:function:stepline-…-*]",
        places=_policies(*_SHIFTS, "loop/Retirement/Role"),
        reason="Aliases of the stage's own functions, whose names begin with its own; a release moves all of them, and the former "
        "versions of all end.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:lambda:…:function:stepline-…-*:*]",
        places=_policies("loop/Retirement/Role"),
        reason="Versions get their numbers when they are published; those of the stage's own functions, never a function, and AWS "
        "refuses those that an alias names.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…Artifacts…/quarantine/*]",
        places=_policies("loop/ScanRole"),
        reason="GuardDuty reads and tags what clients post: keys are made for each slot, below the one prefix that it scans.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::…:events:…:rule/DO-NOT-DELETE-AmazonGuardDutyMalwareProtectionS3*]",
        places=_policies("loop/ScanRole"),
        reason="GuardDuty names the rest of its own rule; a condition limits changes to rules that it manages.",
    ),
    # --- functions in a VPC
    *(
        Acknowledgement(
            finding=f"IAM5[Resource::arn:…:ec2:…:{resource}]", places=_policies(*_FUNCTIONS), reason=why
        )
        for resource, why in (
            (
                "*:subnet/…",
                "The subnets that the stage names, which another account may share: their owner is not known.",
            ),
            (
                "*:security-group/…",
                "The security groups of the functions, which another account may share, too.",
            ),
            (
                "network-interface/*",
                "Lambda makes network interfaces, which get their ids then, in the named subnets alone.",
            ),
            (
                "*/*",
                "Lambda deletes a function's network interfaces with its role, and names this resource; the function's code is denied it.",
            ),
        )
    ),
    Acknowledgement(
        finding="IAM5[Resource::*]",
        places=_policies(_API, "ingress/Authorizer/Role", _SEARCH, _STREAM, _OUTPUT, _PREFLIGHT, _SERVE),
        reason="`ec2:DescribeNetworkInterfaces` and `ec2:DescribeSubnets` know no resource; Lambda looks for the network interfaces of a "
        "function in a VPC, and the function's own code is denied them.",
    ),
    # --- AWS offers no resource for it; tests/stacks/test_access.py names these actions
    Acknowledgement(
        finding="IAM5[Resource::*]",
        places=_policies(_SOCKET, _EVENTS, _ERASER, _SWEEPER),
        reason="`ecs:ListTasks` knows no resource for tasks, and its condition names the cluster; for `xray:PutTraceSegments` see below.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::*]",
        places=_policies(_ACT, _CLOSE, _DECIDE),
        reason="`xray:PutTraceSegments` knows no resource; it adds spans, and reads none. A stage without traces does not have it.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::*]",
        places=_policies("exec/ExecutionRole", "exec/ImageBuild/BuildRole"),
        reason="`ecr:GetAuthorizationToken` knows no resource; what may be pulled and pushed is named beside it.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::*]",
        places=_policies("loop/MachineRole"),
        reason="Deliveries of logs know no resource, and Step Functions asks its role for them before it makes the machine; only the "
        "service takes that role, and what it delivers is without content.",
    ),
    Acknowledgement(
        finding="IAM5[Resource::*]",
        places=_policies(*_SHIFTS),
        reason="`cloudwatch:DescribeAlarms` knows no resource that it could be narrowed to; it reads states and names.",
    ),
)

OLDER_PYTHON: Final = Acknowledgement(
    finding="L1",
    places=tuple(
        f"{function}/Function" for function in (*_INGRESS, "ingress/Search", "ingress/Stream", *_LOOP)
    ),
    reason="The stage chose (`python`) an older version that Lambda supports, with snapshots.",
)
"""Accepted of a stage whose functions do not run the newest Python."""

WARNINGS: Final = {
    "@aws-cdk/aws-lambda:snapStartRequirePublish": "Every caller uses the alias `live`, which is of a published version.",
}
"""Warnings of the CDK itself by id, and the reason why they are accepted."""
