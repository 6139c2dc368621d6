"""A run in a separate task: the values that are handed over, and their names.

    the execution's state   `TaskLaunch`: names only
    a secret                `Handover`: where the parcel is, and the descriptors
    the artifact store      `Parcel`: the request, the log, the bundle's files, and the grants for the objects of this run

The executor gets none of them. Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.program.execution import ExecRequest, Switch

PROVISION_S: Final = 180
"""The longest time from starting a task to its first heartbeat, and between two heartbeats."""
HEARTBEAT_S: Final = 30
RUN_MAX_S: Final = 1500
"""The longest run of a program in a task, whatever its profile says."""
COLLECT_S: Final = 60
"""For the steps after the program: collecting, storing, reporting."""
STOP_S: Final = 120
"""From a task's SIGTERM to its SIGKILL, the longest that the service grants."""

UNSTARTED: Final = "TaskNotStarted"
"""The error name of a task that cannot be started at the moment: a throttle, a failure of the service, no capacity."""
TASK_REFUSED: Final = "TaskRefused"
"""The error name of a task that cannot be started at all: a wrong permission, name or size."""
STEERED: Final = "Steered"
"""The error name by which a steer ends a state that waits for a task."""

TOKEN_VARIABLE: Final = "STEPLINE_TASK_TOKEN"  # noqa: S105 - a name
SECRET_VARIABLE: Final = "STEPLINE_EXEC_PAYLOAD_SECRET_ID"  # noqa: S105 - a name
SECRET_MAX_BYTES: Final = 65_536


class ObjectGrant(Value):
    """A grant for one request on one object until it expires: its URL, and the headers to send. Secret."""

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Handover(Value):
    """The content of the secret, as JSON.

    `descriptors` are the variables of `encode_payload`, `settings` those of Stepline.
    """

    parcel: ObjectGrant
    descriptors: dict[str, str] = msgspec.field(default_factory=dict)
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    v: int = 1


class Parcel(Value):
    """The inputs of a task's supervisor, as MessagePack.

    `started`, `run` and `files` are grants to put an object once: the marker that the run was accepted, the `Run` as
    JSON, and the bytes of its files one after the other, each content once, in the order of the `Run`. `reads` are
    grants to get artifacts by key, `log` is one to put the log again while it grows. `bundle` are the files of the
    bundle.
    """

    request: ExecRequest
    batches: tuple[bytes, ...]
    started: ObjectGrant
    run: ObjectGrant
    files: ObjectGrant
    reads: dict[str, ObjectGrant]
    log: ObjectGrant | None = None
    bundle: dict[str, bytes] = msgspec.field(default_factory=dict)
    v: int = 1


class TaskLaunch(Value, omit_defaults=False):
    """The input of the state that starts a task.

    Every field is written, because the state's paths name them all.

    `ref` names the run in the account, `client_token` an attempt at starting it: with the number
    of the retry appended, at most 64 characters.
    """

    ref: str
    client_token: str
    secret: str
    cluster: str
    task_definition: str
    container_name: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    assign_public_ip: Switch
    platform_version: str


def run_ref(lane: Lane, turn: str, call: str) -> str:
    """Return a run's name, unique in the account: 32 hexadecimal digits."""
    names = f"{lane.tenant}/{lane.project}/{lane.conversation}/{turn}/{call}"
    return hashlib.sha256(names.encode()).hexdigest()[:32]


def secret_name(stage: str, ref: str) -> str:
    """Return the name of a run's handover secret."""
    return f"stepline/{stage}/exec/{ref}"
