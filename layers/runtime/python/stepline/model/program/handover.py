"""A run in a task of its own, far from whoever asked for it: what is handed over, and by which names.

    the execution's state   `Launch`: names only
    a secret                `Handover`: where the parcel lies, and the descriptors
    the artifact store      `Parcel`: the request, the log, and the rights to the objects of this run

Nothing of it reaches the executor. Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.program.execution import ExecRequest, Switch

PROVISION_S: Final = 180
"""A task may take this long from being asked for to its first heartbeat, and as long between two."""
HEARTBEAT_S: Final = 30
RUN_MAX_S: Final = 1500
"""The longest a program may run in a task, whatever its profile says."""
COLLECT_S: Final = 60
"""For what comes after the program: to collect, to store, to report."""
STOP_S: Final = 120
"""From a task's SIGTERM to its SIGKILL, the longest that Fargate grants."""

STEERED: Final = "Steered"
"""The error with which a steer ends a state that waits for a task."""

TOKEN_VARIABLE: Final = "STEPLINE_TASK_TOKEN"  # noqa: S105 - a name
SECRET_VARIABLE: Final = "STEPLINE_EXEC_PAYLOAD_SECRET_ID"  # noqa: S105 - a name
SECRET_MAX_BYTES: Final = 65_536


class Grant(Value):
    """The right to one request on one object until it expires: its URL, and the headers that must go with it. Secret."""

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Handover(Value):
    """What the secret holds, as JSON. `descriptors` are the variables of `encode_payload`, `settings` our own."""

    parcel: Grant
    descriptors: dict[str, str] = msgspec.field(default_factory=dict)
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    v: int = 1


class Parcel(Value):
    """What the supervisor of a task works with, as MessagePack.

    `started`, `run` and `files` are rights to put an object once: the marker that the run was taken, the `Run` as
    JSON, and the bytes of its files one after the other, each content once, in the order of the `Run`. `reads`
    are rights to get artifacts by their keys.
    """

    request: ExecRequest
    batches: tuple[bytes, ...]
    started: Grant
    run: Grant
    files: Grant
    reads: dict[str, Grant]
    v: int = 1


class Launch(Value, omit_defaults=False):
    """What the state that starts a task is given; every field is written, because its paths name them all.

    `ref` names the run in the account, `client_token` (at most 64 characters) one attempt at starting it.
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
    """Return the name of a run that is its own in the whole account: 32 hexadecimal digits."""
    names = f"{lane.tenant}/{lane.project}/{lane.conversation}/{turn}/{call}"
    return hashlib.sha256(names.encode()).hexdigest()[:32]


def secret_name(stage: str, ref: str) -> str:
    """Return the name of the secret that hands a run over."""
    return f"stepline/{stage}/exec/{ref}"
