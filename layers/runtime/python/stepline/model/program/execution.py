"""An execution: what one program is given, what came of it, and what is told about that.

Paths in here are physical, below the artifact root: `turn_<id>/outputs/…`, `turn_<id>/files/…`, an attachment's.
Source: docs/concepts/execution.md.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.source import Source

PREVIEW_CHARS: Final = 8_000
MIB: Final = 1024 * 1024

Placement: TypeAlias = Literal["inline", "remote"]
Strategy: TypeAlias = Literal["split", "combined"]
Visibility: TypeAlias = Literal["external", "internal"]
Scope: TypeAlias = Literal["active_bundle", "all"]
Switch: TypeAlias = Literal["ENABLED", "DISABLED"]


class ContractFile(Value):
    """A file that the program promises to write. `name` is unique in its contract."""

    name: str
    filename: str
    description: str
    mime: str
    visibility: Visibility = "external"


class WorkFile(Value):
    """A file that lies in the workspace before the program starts; `key` names its bytes in the artifact store."""

    path: str
    key: str
    sha256: str
    size_bytes: int
    mime: str


class Limits(Value):
    """What one run may use. `max_workspace_bytes` 0 means no limit of its own; `log_bytes` are kept, not written."""

    timeout_s: int = 600
    max_file_bytes: int = 100 * MIB
    max_delta_bytes: int = 250 * MIB
    max_workspace_bytes: int = 0
    monitor_interval_s: float = 0.5
    memory_bytes: int = 4096 * MIB
    processes: int = 256
    open_files: int = 1024
    tool_calls: int = 200
    log_bytes: int = 256 * 1024


class TaskConfig(Value):
    """Where the tasks of remote programs start. Empty names are not known, and a program cannot be started without them."""

    cluster: str = ""
    task_definition: str = ""
    container_name: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    assign_public_ip: Switch = "ENABLED"
    platform_version: str = "LATEST"


class RuntimeProfile(Value):
    """`execution.runtime` after selection and precedence. Source: docs/reference/execution.md#profiles.

    An `inline` program runs in the function that executes the step, a `remote` one in a task of its own. `backend`
    is the name of what runs it, for its adapter, records and readers.
    """

    name: str = ""
    placement: Placement = "inline"
    backend: str = ""
    image: str = ""
    container_strategy: Strategy = "split"
    network_mode: str = "host"
    cpus: str = ""
    memory: str = ""
    extra_args: tuple[str, ...] = ()
    descriptor_payload_scope: Scope = "active_bundle"
    task: TaskConfig = TaskConfig()


class ExecRequest(Value):
    """One run of one program. `exec_id` is the call's id, `n` the newest batch of the log its tools may see.

    `preview_chars` of a text that it writes are shown to the model.
    """

    exec_id: str
    lane: Lane
    turn: str
    iteration: int
    at: str
    n: int
    code: str
    contract: tuple[ContractFile, ...]
    files: tuple[WorkFile, ...] = ()
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    profile: RuntimeProfile = RuntimeProfile()
    preview_chars: int = PREVIEW_CHARS
    v: int = 1


class Isolation(Value):
    """What kept the program in, as the jail found it after closing itself."""

    backend: str = ""
    seccomp: bool = False
    no_new_privs: bool = False
    landlock_abi: int = 0
    uid: int = -1
    namespaces: tuple[str, ...] = ()
    kernel: str = ""


class ToolCallRecord(Value):
    """One call of a tool by generated code; `ret` is the beginning of what it returned, as JSON."""

    tool_id: str
    params: dict[str, Any]
    status: Literal["ok", "error"]
    at: str
    duration_ms: int = 0
    ret: str = ""
    code: str = ""
    truncated: bool = False


class ToolEvent(Value):
    """What a tool in the supervisor told the user: `type` is its own word, `data` JSON for clients."""

    type: str
    at: str
    tool_id: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class CollectedFile(Value):
    """A file that the program wrote or changed; its bytes lie in the job's spool under their hash."""

    path: str
    sha256: str
    size_bytes: int
    mode: int = 0o644


class RefusedFile(Value):
    """Something under the artifact root that is not taken over, with the code that says why."""

    path: str
    code: str
    message: str


class Run(Value):
    """What a backend reports of one run; the same fields wherever it ran.

    `error` is empty for a program that ended with 0, otherwise the code of docs/reference/execution.md#errors.
    `program_log` and `runtime_log` are the ends of what the program and its surroundings printed; `log_bytes`
    counts everything the program printed. `unchanged` are the inputs that lie there as they were restored. `sources` are the rows of the pool that
    its tools brought.
    """

    error: str = ""
    message: str = ""
    returncode: int | None = None
    seconds: float = 0.0
    program_log: str = ""
    log_bytes: int = 0
    runtime_log: str = ""
    isolation: Isolation = Isolation()
    files: tuple[CollectedFile, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    deleted: tuple[str, ...] = ()
    calls: tuple[ToolCallRecord, ...] = ()
    events: tuple[ToolEvent, ...] = ()
    sources: tuple[Source, ...] = ()
