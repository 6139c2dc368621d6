"""docs/reference/execution.md: profiles, limits, descriptors, and every code of a run."""

from __future__ import annotations

from typing import Final

from msgspec.structs import fields

from docs.build import DOCS
from stepline.adapters.docker.command_line import ALLOWED
from stepline.bootstrap.runtime_profile import FARGATE, LIMITS, PROFILE_KEYS, SELECTORS
from stepline.bundle.descriptor_set import FOLDER_VARIABLE, FORMS, MAX_BYTES
from stepline.model.program.execution import RunLimits, RuntimeProfile
from stepline.model.program.handover import SECRET_MAX_BYTES
from stepline.programs.archive.member import ArchiveLimits
from stepline.programs.bundle_files import BUNDLE_MAX_BYTES, BUNDLE_MAX_FILES
from stepline.programs.contract import CONTRACT_FILES_MAX
from stepline.programs.outcome import Envelope
from stepline.programs.outputs import OUTPUTS_KEPT_MAX, PROJECT_KEPT_MAX
from stepline.settings import EXEC_MODES

PATH: Final = DOCS / "reference/execution.md"
MIB = 1024 * 1024

PROFILE = {
    "mode": f"one of {', '.join(f'`{word}`' for word in EXEC_MODES)}; `local` is `process`, `external` is `fargate`",
    "enabled": "`false` is mode `none`, whatever `mode` says; `true` by default",
    "image": "mode `docker`: the image of both sides",
    "container_strategy": "mode `docker`: `split` or `combined`; `py_code_exec_container_strategy` is its older name",
    "network_mode": "mode `docker`: the network of the supervisor; a split executor has none in any case",
    "cpus": "mode `docker`: processors of the container with the program, a number",
    "memory": "memory, a size: of the container in mode `docker`, of each process in mode `process`",
    "extra_args": "mode `docker`: more arguments for the container with the program, from [a list](#docker)",
    "descriptor_payload_scope": "which bundles' [descriptors](#descriptors) go to a supervisor elsewhere: "
    "`active_bundle` or `all`",
}
"""Keys of a profile that are neither limits nor Fargate's."""

LIMIT = {
    "timeout_s": "wall clock from the start of the program; a call may ask for less (`timeout_s`), never for more",
    "max_file_bytes": "one file",
    "max_delta_bytes": "growth of the workspace",
    "max_workspace_bytes": "the workspace as a whole, also before the program starts; 0: no separate limit",
    "monitor_interval_s": "interval of the checks, 0.1 at least; they take a fifth of the time at most",
    "memory_bytes": "address space of a process, and of all processes of a run [together](../concepts/execution.md#memory); in mode `docker` the memory of the container",
    "processes": "processes and threads at a time",
    "open_files": "descriptors of a process",
    "tool_calls": "calls of tools, refused ones too",
    "log_bytes": "the end of the output that is kept; all of it is counted",
}
"""Fields of `RunLimits`."""

CONTRACT = {
    "missing_turn_id": "the turn is not known; a mistake of ours",
    "missing_artifacts": "no contract",
    "invalid_artifacts_json": "a text that is not JSON",
    "invalid_artifacts": f"not a list of objects, an empty one, or more than {CONTRACT_FILES_MAX}",
    "invalid_artifact_spec": "an item without `filename` or `description`, or with another `visibility`",
    "invalid_filename": "a file outside `files/` and `outputs/` of this turn, or one that conflicts with another",
    "exec_missing_code": "the channel `code` was empty",
    "exec_code_contaminated": "the text contains a leftover of the channels or a fence; `marker`, `line`, `excerpt` locate it",
    "pre_exec_pull_required": "the text names files of other turns that are missing; `pull_hint` is the call that "
    "fetches them",
    "execution_unavailable": "this deployment runs no programs",
    "backend_unavailable": "the profile names a mode that this deployment does not have",
    "fargate_config_missing": "mode `fargate`: neither the profile nor the deployment says where tasks start; `missing`",
    "payload_too_large": f"mode `fargate`: the descriptors take more than the {SECRET_MAX_BYTES // 1024} KiB of a secret",
    "bundle_too_large": f"the bundle's package has more than {BUNDLE_MAX_BYTES // MIB} MiB or {BUNDLE_MAX_FILES:,} files "
    "that programs can read",
}
"""Reasons why a program is not run, in the order of the checks."""

RUN = {
    "timeout": "ended by its time limit",
    "cancelled": "the user steered while it ran, or before it began; its files and output are kept",
    "nonzero_exit": "ended with another code than 0; the last lines have the reason",
    "memory_limit": "all its processes together exceeded the memory limit, or the machine had hardly any left",
    "file_size_limit": "a file exceeded the size limit",
    "exec_workspace_delta_limit": "the workspace exceeded its growth limit, or got too many or too deep entries",
    "workspace_size_limit": "the workspace as a whole exceeds its limit, or its disk is full",
    "descriptors_in_flight": "mode `process`: more than 64 descriptors were sent over sockets of the run and not received",
    "isolation_failed": "the jail did not close; nothing of the program ran",
    "unsupported_platform": "this machine cannot isolate a program this way; the message says what to do",
    "restore_failed": "a file of the workspace could not be restored",
    "collect_failed": "the program's files could not be collected",
    "docker_unavailable": "no Docker command or daemon responds",
    "docker_image_missing": "the image does not exist; nothing is ever pulled",
    "docker_args_refused": "`extra_args` contains an argument that is not a resource limit",
    "payload_unavailable": "the descriptors could not be read, or not written for the supervisor",
    "backend_unavailable": "the profile names a mode that this deployment does not have",
    "task_stopped": "mode `fargate`: the task was stopped; the program's files and output are kept",
    "sandbox_not_started": "the run was lost before it began; nothing happened",
    "fargate_run_failed": "no task could be started for the run; nothing happened",
    "unverified": "the run was lost after it began: it may have happened, and is not run again",
    "sandbox_execution_failed": "another failure of the environment, not of the program",
    "execution_failed": "the program left no exit status",
    "missing_output_files": "the program ended well, and a promised file is missing or empty",
    "artifact_validation_failed": "the program ended well, and a promised file is not accepted",
}
"""The codes of a run's end; of several, the first one applies."""

OUTPUT = {
    "missing_file": "the program did not write it",
    "empty_file": "it has no bytes",
    "artifact_symlink_blocked": "a symbolic link",
    "artifact_path_escape_blocked": "it is on another file system",
    "artifact_not_regular_file": "a pipe, a device, a socket, or a file with two names",
    "artifact_unstable": "it changed or vanished while it was collected",
    "artifact_unreadable": "its mode does not let us read it",
    "artifact_too_many_entries": "there are more entries than are read",
    "path_too_deep": "it is too deep in folders",
    "path_not_canonical": "its name is not in Unicode NFC; restoring it is refused, collecting composes it",
    "path_clash": "another file has this name on a system that ignores case or composes characters",
    "path_not_writable": "it is neither in `files/` nor in `outputs/` of the turn",
    "artifact_not_current_turn": "it belongs to another turn, and those never change",
    "file_size_limit": "it exceeds the size limit of a file",
    "exec_workspace_delta_limit": "all files together exceed the growth limit of a run",
    "artifact_internal_path_blocked": "an archive that is [not accepted](#archives)",
    "file_unusually_small": "a PDF, DOCX, PPTX or XLSX too small to hold anything",
    "artifact_invalid": "an XLSX that does not open (`xlsx_open_failed`) or shows no sheet (`xlsx_no_visible_sheets`)",
    "content_type_mismatch": "its first bytes do not match the type of its name, or it is a text only by its name",
    "artifact_not_in_contract": "too many files that no contract names",
}
"""Reasons why a file is not accepted."""

ARCHIVE = {
    "archive_unreadable": "two readers could see different contents, or ours less than another: a zip with anything before, between or after its members; encrypted ones too",
    "archive_empty": "it is empty",
    "archive_too_many_entries": f"more than {ArchiveLimits().max_entries:,} members",
    "archive_too_large": f"more than {ArchiveLimits().max_inflated_bytes // MIB} MiB inflated",
    "archive_ratio_too_high": f"it grows to more than {ArchiveLimits().max_ratio} times its size, and to more than "
    f"{ArchiveLimits().ratio_from_bytes // MIB} MiB",
    "archive_path_escape": "a member with an absolute name, or one outside its folder",
    "archive_name_ambiguous": "a member whose name another system [reads as another one](paths.md#what-is-refused): a backslash, a second name, or a name without a stated encoding",
    "archive_name_clash": "two members of one name, even if their case or the encoding of an accent differs",
    "archive_internal_path": "a member in a folder of the system or of the run",
    "archive_runtime_log": "a member named like a log of the run",
    "archive_not_regular_file": "a link or a device",
}

DESCRIPTOR = {
    "bad_setting": "a value that is unknown, of the wrong type, or names a missing profile; the message has "
    "its location",
    "bad_descriptor": "unsupported YAML: a key twice, another shape, a secret that is not text; the message never "
    "quotes it",
    "secret_missing": "a tool requested a missing secret",
}

ENVELOPE = {
    "exec_id": "the call's id",
    "ok": "it ended with 0 and every promised file exists and is valid",
    "result_filename": "the envelope's name in other runtimes",
    "artifacts": "the existing promised files, as resources",
    "items": "the same by the names of the contract",
    "error": "the failure: `code`, `message`, `description` (the remedy), `details`; null on success",
    "report_text": "the [report](#report)",
    "errors": "promised files that are not accepted, each with a [code](#outputs)",
    "succeeded": "existing promised files, each with its size and whether it existed before",
    "user_out_tail": "the end of the program's output",
    "runtime_err_tail": "the end of its environment's output",
    "user_error_lines": "error lines of the program",
    "user_tracebacks": "its tracebacks",
    "runtime_error_lines": "the same of its environment",
    "runtime_tracebacks": "the same of its environment",
    "seconds": "how long the program ran",
    "returncode": "its exit code, negative for a signal; null if it did not run",
    "backend": "the mode",
    "isolation": "its isolation, as reported by [the hello](executor-protocol.md#requests-and-replies)",
    "log_bytes": "the size of its output",
    "files": "every accepted file, with its body and the preview of a text",
    "left": "the other files",
    "deleted": "inputs of this turn that it removed",
    "calls": "its calls of tools, each with parameters, duration and the beginning of the result",
    "events": "the events that those tools sent to the user",
    "began_at": "when the program began to run; empty if it never did, or if unknown",
    "sources": "the rows that its tools added to the pool of sources, each with its number",
    "v": "version of the envelope",
}
"""Fields of `Envelope`."""

CODES = {code for group in (CONTRACT, RUN, OUTPUT, ARCHIVE, DESCRIPTOR) for code in group}


def render() -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Execution: profiles, limits, codes",
            "",
            "Generated by `make docs`; a test compares it with the source. Background:",
            "[execution](../concepts/execution.md); how to: [run programs](../how-to/run-programs.md).",
            "",
            *_profiles(),
            *_limits(),
            *_descriptors(),
            *_before(),
            *_after(),
            *_docker(),
        ]
    )


def _profiles() -> list[str]:
    return [
        "## Profiles",
        "",
        "`execution.runtime` (older name `exec_runtime`) says where programs run. Each key has the value of the first of these",
        "that has it:",
        "",
        "1. the profile that a call names;",
        "2. the bundle: its properties, then its descriptor, then the defaults of its code;",
        "3. the assembly; for limits then its `platform.services.proc.exec`;",
        "4. variables: `EXEC_RUNTIME_MODE`, `PY_CODE_EXEC_IMAGE`, `PY_CODE_EXEC_TIMEOUT`, `PY_CODE_EXEC_NETWORK_MODE`,",
        "   `PY_CODE_EXEC_CONTAINER_STRATEGY`, `EXEC_DESCRIPTOR_PAYLOAD_SCOPE`; then the built-in value.",
        "",
        "A deployment whose `EXEC_RUNTIME_MODE` is `none` runs no programs, whatever the others say: it has no function for",
        "them.",
        "",
        "```yaml",
        "execution:",
        "  runtime:",
        "    use: docker                  # a profile; or one word instead of all this: a profile's name, or a mode",
        "    cpus: 2                      # keys next to `profiles` override the chosen one",
        "    profiles:",
        "      docker:",
        "        mode: docker",
        "        image: py-code-exec:latest",
        "        memory: 2g",
        '        extra_args: ["--pids-limit", "256"]',
        "      quick:",
        "        mode: process",
        "        timeout_s: 60",
        "```",
        "",
        f"A profile is chosen by the first of {', '.join(f'`{key}`' for key in SELECTORS)} in the first place that has one.",
        "Profiles of one name in two places are merged. An unknown key, mode or profile name, or a value of the wrong type, is",
        "refused with its location, also in profiles that are not chosen (`bad_setting`).",
        "",
        *_keys(),
        "A size is a number of bytes, or is followed by `k`, `m`, `g` or `t`, with or without `b` or `ib`, each 1024 of the one",
        "before. `0`, `off`, `none`, `disabled` and `unlimited` lift a limit of size.",
        "",
    ]


def _keys() -> list[str]:
    default = RuntimeProfile()
    shown = {
        "mode": "`none`",
        "enabled": "`true`",
        "image": "`py-code-exec:latest`",
        "container_strategy": f"`{default.container_strategy}`",
        "network_mode": f"`{default.network_mode}`",
        "memory": f"{RunLimits().memory_bytes // MIB // 1024} GiB",
        "descriptor_payload_scope": f"`{default.descriptor_payload_scope}`",
    }
    return [
        "| key | default | meaning |",
        "|---|---|---|",
        *(
            f"| `{key}` | {shown.get(key, 'none')} | {PROFILE[key]} |"
            for key in PROFILE_KEYS
            if key in PROFILE
        ),
        (
            f"| {', '.join(f'`{key}`' for key in FARGATE)} | none | mode `fargate`; also in a mapping `fargate`, which takes "
            "precedence. The default is the deployment's; `region` may only be its own |"
        ),
        "| the limits' keys | | see below |",
        "",
    ]


def _limits() -> list[str]:
    keys = {field: key for key, (field, _) in LIMITS.items()} | {"memory_bytes": "memory"}
    rows = []
    for field in fields(RunLimits):
        key = f"`{keys[field.name]}`" if field.name in keys else "none"
        rows.append(f"| `{field.name}` | {_shown(field.name, field.default)} | {key} | {LIMIT[field.name]} |")
    return [
        "## Limits",
        "",
        "| limit | default | key | of what |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _shown(name: str, value: float) -> str:
    if name.endswith("_bytes") and value:
        return f"{value / MIB:g} MiB"
    return f"{value:g}{' s' if name.endswith('_s') else ''}"


def _descriptors() -> list[str]:
    return [
        "## Descriptors",
        "",
        f"Five YAML files in the folder of `{FOLDER_VARIABLE}`, each at most {MAX_BYTES // MIB} MiB; a missing one is empty.",
        'Tools read them through their context, in a round and in a program, and programs never: `settings.get_plain("a.b")`, `secrets.get_secret("a.b")`,',
        "and for the active bundle with the prefix `b:`. On a stage the files without secrets are in the functions' package, and the",
        "secrets are [set by a command](../how-to/deploy.md#settings-and-secrets-of-a-bundle).",
        "",
        "| file | content | payload variable | path variable |",
        "|---|---|---|---|",
        *(f"| `{form.file}` | {HOLDS[form.name]} | `{form.payload}` | `{form.path}` |" for form in FORMS),
        "",
        "A supervisor in a separate container gets them with its launch, on standard input; if a launch can pass",
        "variables only, they are base64 in the payload variables. It writes them, before any tool is loaded, into a folder of",
        "mode 0700 as files of mode 0400, which the path variables name. `descriptor_payload_scope: active_bundle` sends of",
        "the two files about bundles only the active bundle's part, and neither without an active bundle. The active bundle",
        "is the one `bundles.default_bundle_id` names.",
        "",
        *_table(DESCRIPTOR),
    ]


HOLDS = {
    "assembly": "settings of the deployment",
    "bundles": "`bundles: {default_bundle_id, items: [{id, config}]}`; `props` for `config` is understood",
    "gateway": "settings of the gateway",
    "secrets": "secrets of the deployment, each of them text",
    "bundles.secrets": "`bundles: {items: [{id, secrets}]}`",
}


def _before() -> list[str]:
    return [
        "## Contract",
        "",
        "A call of [`exec_tools.execute_code_python`](tools.md#exec_toolsexecute_code_python) promises files. A name is completed",
        "to `turn_<current>/outputs/<name>` if it says neither `files/` nor `outputs/`; the notice",
        "`protocol_violation.exec_contract_rewritten` says so. `filepath` is understood for `filename`.",
        "",
        "## Before the run",
        "",
        "Each of these refuses the call before anything runs, as its result and as a notice to the model:",
        "",
        *_table(CONTRACT),
        "## What a program finds",
        "",
        "| | |",
        "|---|---|",
        "| working directory | `OUTPUT_DIR/turn_<current>`; `outputs/` and `files/` exist |",
        (
            "| globals | `OUTPUT_DIR`, `OUT_DIR` (the same as a `Path`), `WORKDIR`, `EXECUTION_ID`, `BUNDLE_ID` (the package of the agent), "
            "`BUNDLE_ROOT` (a copy of [its files](../concepts/execution.md#the-bundles-files)), `agent_io_tools`, `ctx_tools`, "
            "an object for every alias of a granted tool |"
        ),
        (
            "| environment | `WORKDIR`, `OUTPUT_DIR`, `EXECUTION_ID`, `BUNDLE_ID`, `BUNDLE_ROOT`, `AGENT_IO_CONTEXT` (JSON: version, socket, token), and "
            "the variables of Python and its packages |"
        ),
        "| modules | Python's own and those of `exec_task/requirements.txt`; modules that it writes next to itself |",
        "| `__name__` | `__main__`; top-level `await` works |",
        "| standard input | nothing |",
        "",
    ]


def _after() -> list[str]:
    return [
        "## Errors",
        "",
        "A failure of the program takes precedence over missing files, and those over invalid",
        "files.",
        "",
        *_table(RUN),
        "## Outputs",
        "",
        "A promised file must exist, be a file and match its type; the first failed rule is its code. If a file",
        "is not accepted, the former version remains.",
        "",
        *_table(OUTPUT),
        "Names that no logical path can have keep [their codes](paths.md#what-is-refused). Files that were not promised are kept",
        f"as internal ones, up to {OUTPUTS_KEPT_MAX} below `outputs/` and {PROJECT_KEPT_MAX} below `files/`; `tmp/`, `__pycache__` and `.pyc` are not.",
        "",
        "## Archives",
        "",
        "`zip`, `tar`, `tgz` and `gz` files are inflated without storing them, and counted meanwhile. One of these findings is",
        "enough:",
        "",
        *_table(ARCHIVE),
        "## Envelope",
        "",
        "`result.json`: the same fields for every failure and every backend.",
        "",
        "| field | |",
        "|---|---|",
        *(f"| `{field.name}` | {ENVELOPE[field.name]} |" for field in fields(Envelope)),
        "",
        "## Report",
        "",
        "The model's text, in this order, each part only if it is not empty: status with its code and advice; file",
        "errors; missing files; delivered files; errors of the environment; the end of the program's output; files kept",
        "without a promise; files not accepted; deletions; calls of tools. A program's output is indented, like all",
        "[data](../concepts/context.md#data-is-indented).",
        "",
    ]


def _docker() -> list[str]:
    return [
        "## Docker",
        "",
        "Nothing is pulled, and nothing of a run is logged by the daemon. All containers have a read-only root, no capability",
        "but those listed, `no-new-privileges`, and a `/tmp` in memory, `noexec,nosuid,nodev`.",
        "",
        "| | split supervisor | split executor | combined |",
        "|---|---|---|---|",
        "| network | `network_mode` | `none` | `network_mode`; the filter keeps the program off it |",
        "| user | root | 1001:1001 | root, the program 1001:1001 |",
        "| capabilities | `CHOWN`, `DAC_OVERRIDE`, `FOWNER` | none | these and `KILL`, `SETGID`, `SETPCAP`, `SETUID` |",
        "| cpus, memory, pids, `extra_args` | no | yes | yes |",
        "| workspace | a volume in memory that both mount, as large as the run may need | the same | in memory |",
        "| descriptors | yes | no | yes, protected by the user id |",
        "",
        "`extra_args` may limit resources and choose a runtime; an argument that would open the container is refused",
        f"(`docker_args_refused`). Allowed are {', '.join(f'`{name}`' for name in sorted(ALLOWED))}.",
        "",
    ]


def _table(rows: dict[str, str]) -> list[str]:
    return ["| code | means |", "|---|---|", *(f"| `{code}` | {what} |" for code, what in rows.items()), ""]
