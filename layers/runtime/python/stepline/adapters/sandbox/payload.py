"""The part of the executor's payload that all backends share. Pure.

Source: docs/reference/executor-protocol.md.
"""

from __future__ import annotations

from typing import Any

from stepline.model.program.execution import ExecRequest
from stepline.model.program.image import GID, UID


def plan_payload(
    request: ExecRequest, token: str, *, work: str, out: str, bundle: str, socket: str
) -> dict[str, Any]:
    """Return the fields that depend only on the run: its folders, its tools, and the limits that the jail sets.

    A backend adds its isolation, and adds `processes` to the limits if nothing else counts them.
    """
    limits = request.limits
    return {
        "v": 1,
        "exec_id": request.exec_id,
        "bundle_id": request.bundle,
        "turn": request.turn,
        "work": work,
        "out": out,
        "bundle_root": bundle,
        "socket": socket,
        "token": token,
        "aliases": plan_aliases((*request.tools, *request.served.tools)),
        "limits": {
            "timeout_s": limits.timeout_s,
            "max_file_bytes": limits.max_file_bytes,
            "memory_bytes": limits.memory_bytes,
            "open_files": limits.open_files,
        },
        "uid": UID,
        "gid": GID,
    }


def plan_aliases(tools: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the functions of each alias: `react.read` is function `read` of alias `react`."""
    aliases: dict[str, list[str]] = {}
    for tool in tools:
        alias, _, function = tool.rpartition(".")
        aliases.setdefault(alias, []).append(function)
    return aliases
