"""An execution: a program's inputs, its result, and the events about it.

Paths here are physical, below the artifact root: `turn_<id>/outputs/…`, `turn_<id>/files/…`, an attachment's.

Source: docs/concepts/execution.md.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.source import Source
from stepline.model.usage import ModelCall, Usage

PREVIEW_CHARS: Final = 8_000
MIB: Final = 1024 * 1024

Placement: TypeAlias = Literal["inline", "remote"]
ContainerStrategy: TypeAlias = Literal["split", "combined"]
Visibility: TypeAlias = Literal["external", "internal"]
DescriptorScope: TypeAlias = Literal["active_bundle", "all"]
Switch: TypeAlias = Literal["ENABLED", "DISABLED"]
WorkspaceMode: TypeAlias = Literal["custom", "git"]
"""`git`: each completed turn is a commit of its conversation's own history."""


class ContractFile(Value):
    """A file that the program promises to write. `name` is unique in its contract."""

    name: str
    filename: str
    description: str
    mime: str
    visibility: Visibility = "external"


class WorkFile(Value):
    """A file in the workspace at the start of the program; `key` names its bytes in the artifact store."""

    path: str
    key: str
    sha256: str
    size_bytes: int
    mime: str


class RunLimits(Value):
    """The limits of one run.

    `max_workspace_bytes` 0 is no separate limit; `log_bytes` limits the kept output only.
    """

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
    """The ECS settings for tasks of mode `fargate`.

    Empty names are unknown; without them no program can be started. `memory_mib` and `cpu_units` (1,024 a processor) are a
    task's size, for its price.
    """

    cluster: str = ""
    task_definition: str = ""
    container_name: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    assign_public_ip: Switch = "ENABLED"
    platform_version: str = "LATEST"
    memory_mib: int = 2048
    cpu_units: int = 1024


class RuntimeProfile(Value):
    """`execution.runtime` after selection and precedence. Source: docs/reference/execution.md#profiles.

    An `inline` program runs in the function that executes the step, a `remote` one in a separate task. `backend` is the
    name of the backend that runs it, for its adapter, records and readers.
    """

    name: str = ""
    placement: Placement = "inline"
    backend: str = ""
    image: str = ""
    container_strategy: ContainerStrategy = "split"
    network_mode: str = "host"
    cpus: str = ""
    memory: str = ""
    extra_args: tuple[str, ...] = ()
    descriptor_payload_scope: DescriptorScope = "active_bundle"
    task: TaskConfig = TaskConfig()


class ServedGrant(Value):
    """The calls that a function makes for a run: of these `tools`, at most `calls`, with the run's `ticket`. Secret.

    Its model calls are at most `model_calls`, with `model_tokens` tokens and `model_usd` dollars; the one that reaches a
    limit still ends. Without tools there are none. Source: docs/concepts/execution.md#calls-that-a-function-makes.
    """

    tools: tuple[str, ...] = ()
    ticket: str = ""
    calls: int = 0
    model_calls: int = 0
    model_tokens: int = 0
    model_usd: float = 0.0


class ExecRequest(Value):
    """One run of one program.

    `exec_id` is the call's id, `index` its position in the decision, `n` the newest batch of the log visible to its
    tools.

    `preview_chars` of a text that it writes are shown to the model. `bundle` is the package of its agent. `tools` run in
    its supervisor, those of `served` in a function.
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
    limits: RunLimits = RunLimits()
    profile: RuntimeProfile = RuntimeProfile()
    preview_chars: int = PREVIEW_CHARS
    bundle: str = ""
    index: int = 0
    served: ServedGrant = ServedGrant()
    v: int = 1


class Isolation(Value):
    """The isolation of a program, as measured by the jail after closing itself.

    `refused` are the system calls that the kernel refused to the jail, each with its error.
    """

    backend: str = ""
    seccomp: bool = False
    no_new_privs: bool = False
    landlock_abi: int = 0
    uid: int = -1
    namespaces: tuple[str, ...] = ()
    kernel: str = ""
    signals: str = ""
    refused: tuple[str, ...] = ()


class ToolCallRecord(Value):
    """A tool call by generated code; `ret` is the beginning of its result, as JSON.

    `usage` is that of the model calls that the tool made, and `models` are these calls.
    """

    tool_id: str
    params: dict[str, Any]
    status: Literal["ok", "error"]
    at: str
    duration_ms: int = 0
    ret: str = ""
    code: str = ""
    truncated: bool = False
    usage: Usage | None = None
    models: tuple[ModelCall, ...] = ()


class ToolEvent(Value):
    """A message to the user from a tool in the supervisor: `type` is the tool's own, `data` JSON for clients."""

    type: str
    at: str
    tool_id: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class CollectedFile(Value):
    """A file that the program wrote or changed; its bytes are in the job's spool under their hash."""

    path: str
    sha256: str
    size_bytes: int
    mode: int = 0o644


class RefusedFile(Value):
    """An entry under the artifact root that is not stored, with the code of the reason."""

    path: str
    code: str
    message: str


class Run(Value):
    """A backend's report of one run; the same fields for every backend.

    `error` is empty for a program that ended with 0, otherwise a code of docs/reference/execution.md#errors.
    `program_log` and `runtime_log` are the ends of the output of the program and of its runtime; `log_bytes` is the
    size of the program's whole output. It ran for `seconds` from `began_at` on, "" if it never did or that is not
    known. `unchanged` are the inputs that are still as restored. `sources` are the rows of the pool that its tools
    added.
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
    began_at: str = ""
