"""The monthly cost of an unused deployment, from its templates. Pure.

Every type of resource is either priced here or named as free at rest; any other type is refused, so that no
new one is left unpriced. Source: docs/reference/cost.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from stepline.model.tenancy.aws_price import UNITS

Templates = Mapping[str, Mapping[str, Any]]
"""A deployment's templates by stack name."""

TASK: Final = "AWS::ECS::TaskDefinition"
HOURS: Final = 730
MONTH_S: Final = HOURS * 3600
CLOCKED: Final = ("sweeper", "eraser")
"""The functions that a clock calls."""
SWEEP_S: Final = 0.5
"""The duration of one query of the open lanes, or of pending erasures, usually of none."""
SWEPT: Final = "FUNCTIONS"
"""The variable of the function that deletes former versions, four times a day."""
IMAGE_GB: Final = 0.5
"""The image of programs, compressed, with pandas and similar packages."""
RUN_S: Final = 90
"""One short program in a task, from the pull of its image to its end."""
SECRET_CALLS: Final = 3
"""The secret by which a program is handed over is created, read and deleted."""

FREE: Final[Mapping[str, str]] = {
    "AWS::ApiGatewayV2": "by the message and the minute of a connection; by the request",
    "AWS::CloudFront": "by the request and the byte, each month's first 10 million and 1 TB free; its functions by the call",
    "AWS::CodeBuild::Project": "by the minute of a build, about 0.03 USD for each new image",
    "AWS::CodeDeploy": "free for functions",
    "AWS::Cognito": "by the user who was active in the month, the first 10,000 free",
    "AWS::DynamoDB::GlobalTable": "by the request on demand, and by what is stored with its backups",
    "AWS::EC2": "a network without NAT gateway, interface endpoint or address; the gateway endpoint is free",
    "AWS::ECR::Repository": "by what is stored: the image, above",
    "AWS::ECS": "by the second of a task; no service keeps one running",
    "AWS::Events::Rule": "rules and their matches in the account's own bus; the calls of the clocks are above; where programs run, "
    "an event for each object, at most 1 USD a million",
    "AWS::GuardDuty::MalwareProtectionPlan": "by the uploaded file and by the byte that it scans",
    "AWS::IAM": "",
    "AWS::Lambda": "by the call and the second; snapshots are above",
    "AWS::Logs::LogGroup": "by what is written, 0.50 USD a GB",
    "AWS::S3": "by what is stored and asked for",
    "AWS::S3Vectors::VectorBucket": "by what is stored, written and searched, with `memory=s3_vectors` only",
    "AWS::SSM::Parameter": "",
    "AWS::SQS": "by the request, 0.40 USD a million: an event that could not be delivered, and what reads it again",
    "AWS::StepFunctions::StateMachine": "by the transition, 0.025 USD a thousand",
    "Custom::SteplineImage": "",
    "Custom::SteplinePage": "",
}
"""Resource types free at rest, or prefixes of them → their billing in use; empty: never billed."""

NOT_FREE: Final = ("AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::ECS::Service")


class Line(NamedTuple):
    """One line of the bill: the item, its amount, and US dollars a month."""

    what: str
    much: str
    usd: float


def price_idle(templates: Templates) -> list[Line]:
    """Return the monthly cost of a deployment at rest. Raises KeyError for an unpriced resource."""
    resources = [one for template in templates.values() for one in template["Resources"].values()]
    for one in resources:
        _family(one)
    return [line for line in _lines(resources) if line.usd]


def price_run(templates: Templates) -> tuple[float, float]:
    """Return the cost of a program of `RUN_S` seconds, in US dollars: of its task, and of its secret.

    Both are 0 without tasks.
    """
    tasks = _of([one for template in templates.values() for one in template["Resources"].values()], TASK)
    hours = RUN_S / 3600
    task = sum(
        hours
        * (
            int(one["Properties"]["Cpu"]) / 1024 * UNITS["task processor"].usd
            + int(one["Properties"]["Memory"]) / 1024 * UNITS["task memory"].usd
            + UNITS["task address"].usd
        )
        for one in tasks
    )
    # Secrets are billed by the hour, and a handover lives for seconds.
    secret = UNITS["secret"].usd / HOURS + SECRET_CALLS * UNITS["secret call"].usd
    return task, secret if tasks else 0.0


def _family(resource: Mapping[str, Any]) -> str:
    """Return a resource's row of `FREE`, or its own type if it is priced."""
    kind = str(resource["Type"])
    is_interface = resource.get("Properties", {}).get("VpcEndpointType") == "Interface"
    if kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::SecretsManager::Secret"):
        return kind
    if kind not in NOT_FREE and not is_interface:
        for name in FREE:
            if kind == name or kind.startswith(f"{name}::"):
                return name
    raise KeyError(kind)


def _lines(resources: list[Mapping[str, Any]]) -> Iterator[Line]:
    metrics = sum(_alarm_metrics(one["Properties"]) for one in _of(resources, "AWS::CloudWatch::Alarm"))
    yield Line("alarms", f"{metrics} metrics", metrics * UNITS["alarm"].usd)
    dashboards = len(_of(resources, "AWS::CloudWatch::Dashboard"))
    yield Line("the dashboard", f"{dashboards} of CloudWatch", dashboards * UNITS["dashboard"].usd)
    functions = [one["Properties"] for one in _of(resources, "AWS::Lambda::Function")]
    keyed = any("STEPLINE_MODEL_SECRET_ARN" in _variables(function) for function in functions)
    secrets = len(_of(resources, "AWS::SecretsManager::Secret")) + keyed
    yield Line("the secret with the model's key", "1 secret", secrets * UNITS["secret"].usd)
    kept_gb = sum(function["MemorySize"] for function in functions if "SnapStart" in function) / 1024
    snapshots = Line("SnapStart", f"{kept_gb:g} GB", kept_gb * MONTH_S * UNITS["snapshot"].usd)
    yield snapshots
    # A version has its snapshot until it is deleted: AWS knows no other way.
    if not any(SWEPT in _variables(function) for function in functions):
        yield snapshots._replace(what="SnapStart of the versions before, from the second deployment on")
    ticks = [ticks for rule in _of(resources, "AWS::Events::Rule") if (ticks := _ticks(rule))]
    clocked = [one for one in functions if one["Handler"].split(".")[1] in CLOCKED]
    clocked_gb = sum(one["MemorySize"] for one in clocked) / 1024 / max(1, len(clocked))
    tick = UNITS["function call"].usd + SWEEP_S * clocked_gb * UNITS["function time"].usd
    yield Line("the clocks of sweeper and eraser", f"{sum(ticks):,} calls", sum(ticks) * tick)
    image_gb = IMAGE_GB if _of(resources, TASK) else 0
    yield Line("the image of programs", f"{IMAGE_GB} GB", image_gb * UNITS["image"].usd)


def _of(resources: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [one for one in resources if one["Type"] == kind]


def _alarm_metrics(alarm: Mapping[str, Any]) -> int:
    return sum("MetricStat" in query for query in alarm.get("Metrics", ())) or 1


def _variables(function: Mapping[str, Any]) -> set[str]:
    """Return the names of the variables that are not empty."""
    return {name for name, value in function.get("Environment", {}).get("Variables", {}).items() if value}


def _ticks(rule: Mapping[str, Any]) -> int:
    """Return the monthly number of calls of a schedule rule; rates in hours cost less than a cent a year and count as none."""
    properties = rule["Properties"]
    schedule = properties.get("ScheduleExpression")
    if not schedule or "hour" in schedule or properties.get("State") == "DISABLED":
        return 0
    minutes = int(schedule.removeprefix("rate(").partition(" minute")[0])
    return HOURS * 60 // minutes
