"""The image of executions: the accounts and paths in it, and the commands of its containers.

exec_task/Dockerfile creates the paths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

UID: Final = 1001
GID: Final = 1001
"""The account of programs."""

WORKSPACE: Final = Path("/workspace")
PRIVATE: Final = Path("/private")
"""The supervisor's private folder."""

_SUPERVISOR: Final = ("/opt/supervisor/bin/python", "-I", "-B", "-m")
SUPERVISOR_COMMAND: Final = (*_SUPERVISOR, "exec_task.supervisor")
TASK_COMMAND: Final = (*_SUPERVISOR, "exec_task.task")
"""The supervisor commands for a run in Docker and for one in a task."""

EXECUTOR_COMMAND: Final = ("/opt/exec/bin/python", "-I", "-B", "/opt/executor/executor/__main__.py")
INIT_COMMAND: Final = (
    *("/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"),
    *("/opt/exec/bin/python", "-I", "-B", "/opt/executor/init.py"),
)
"""The executor as process 1 of a container.

A process can read the variables it was started with even after deleting them, and the `docker` command adds
some automatically: proxies of its own configuration, with their passwords. So Python is started without them.
"""

SOCKET: Final = WORKSPACE / "socket/control.sock"
"""The socket at which a task's executor asks its supervisor for the run."""

KEEPER_COMMAND: Final = (*INIT_COMMAND, "--serve")
"""The executor in a container that is not started for one run's payload, but requests it."""

STRATEGY_VARIABLE: Final = "STEPLINE_EXEC_STRATEGY"
"""The location of a task's executor: in its own container (`split`), or in that of the supervisor."""
