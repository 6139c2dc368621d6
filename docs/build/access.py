"""docs/reference/access.md: the rights of every role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from docs.build import DOCS
from stepline_cdk.access import ACCESS, ATTACHES, TARGETS, TASKS, UNSCOPED, Right
from stepline_cdk.execution import REPORT_ACTIONS, TAKE_ACTIONS
from stepline_cdk.image import PULL_ACTIONS
from stepline_cdk.key import key_uses

PATH: Final = DOCS / "reference/access.md"

_HEAD = """\
# Access

Generated from `stepline_cdk/access.py` by `make docs`; a test compares the page with it. Another test compares every
statement of every role in the templates of stage `prod` with a list written by hand (`tests/data/roles.txt`).

Each function has its own role, and no role has a managed policy. In addition to this list, a function may write
to its own log group. Rights that a deployment does not need are not granted: those marked *tasks* exist only if
programs run in tasks (`exec_image`), `execute` only if they run next to the functions, a right on the model's
key or on the models by `model_provider`, a right on the URL of a Redis by `redis_secret_arn`, rights on memory and its embedding
model by `memory`.

A transaction needs the rights of its parts. A task's requests for objects are signed by the role of
`act`, so they can do what `act` can, each on its one object until it expires. A role that may read objects but not
list them gets "access denied" for a missing object; a role that needs the difference may list below `exec/`.
"""


def render() -> str:
    """Return the page."""
    given = [f"- {name}: {text}" for name, text in TARGETS.items()]
    unscoped = [f"| `{action}` | {reason} |" for action, reason in UNSCOPED.items()]
    return "\n".join(
        [
            _HEAD,
            "| principal | may | on | which |",
            "|---|---|---|---|",
            *(row for principal, rights in ACCESS.items() for row in _rows(principal, rights)),
            *_rows("each function in a VPC", ATTACHES),
            *_rows("task", _task_rights(), only=TASKS),
            *_rows("task's start", _start_rights(), only=TASKS),
            "",
            "If AWS builds the image, as by default, there are two more: a build reads its source, pushes into the image's repository and",
            "writes its own log, and the function that CloudFormation calls starts that build and writes its own log.",
            "",
            "If GuardDuty scans uploads (`av=guardduty`), its service reads and tags the objects of quarantine, manages its own rule of",
            "EventBridge, and writes one object, by which it tests the bucket. With a key of yours it also uses that, by S3 alone.",
            "",
            "The function that uploads the chat page reads the archives of its release by their names, writes, lists and deletes objects of",
            "the page's own bucket, and writes its own log. Only the page's distribution reads that bucket.",
            "",
            "The function that deletes former versions reads the versions and aliases of the stage's functions, deletes versions and the",
            "alias `previous`, never a function, and writes its own log.",
            "",
            "With [a key of yours](../concepts/security.md#a-key-of-yours) a role may also use the key, only by requests of these services",
            "(`kms:ViaService`), as far as the deployment has what the rights above are on:",
            "",
            "| principal | may | by |",
            "|---|---|---|",
            *(row for principal, rights in ACCESS.items() for row in _key_rows(f"`{principal}`", rights)),
            *_key_rows("task", _task_rights()),
            "",
            "In a VPC (`vpc`), Lambda attaches each function with the function's role. The code of the function is denied these actions.",
            "",
            "Targets:",
            "",
            *given,
            "",
            "## Actions on every resource",
            "",
            "No granted action has a `*` in its name. Only these are granted on the resource `*`; a test fails for any other:",
            "",
            "| action | why |",
            "|---|---|",
            *unscoped,
            "",
        ]
    )


def _task_rights() -> tuple[Right, ...]:
    return (Right(REPORT_ACTIONS, "machine"), Right(TAKE_ACTIONS, "handovers"))


def _start_rights() -> tuple[Right, ...]:
    return (
        Right(PULL_ACTIONS, "repository"),
        Right(("ecr:GetAuthorizationToken",), "everything"),
        Right(("logs:CreateLogStream", "logs:PutLogEvents"), "the tasks' log group"),
    )


def _key_rows(name: str, rights: Iterable[Right]) -> Iterable[str]:
    for action, services in key_uses(action for right in rights for action in right.actions).items():
        yield f"| {name} | `{action}` | {', '.join(services)} |"
        name = "〃"


def _rows(principal: str, rights: Iterable[Right], *, only: str = "") -> list[str]:
    rows, name = [], f"`{principal}`" if principal in ACCESS else principal
    for right in rights:
        actions = "<br>".join(f"`{action}`" for action in right.actions)
        where = f" *({right.only or only})*" if right.only or only else ""
        which = " ".join(f"`{word}`" for word in right.of)
        rows.append(f"| {name} | {actions} | {right.on}{where} | {which} |")
        name = "〃"
    return rows
