"""The image of executions: whose programs are, where everything lies in it, and what its containers run.

exec_task/Dockerfile makes the places.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

UID: Final = 1001
GID: Final = 1001
"""The account of programs."""

WORKSPACE: Final = Path("/workspace")
PRIVATE: Final = Path("/private")
"""The supervisor's own folder: nobody else may enter."""

_SUPERVISOR: Final = ("/opt/supervisor/bin/python", "-I", "-B", "-m")
SUPERVISOR_COMMAND: Final = (*_SUPERVISOR, "exec_task.supervisor")
TASK_COMMAND: Final = (*_SUPERVISOR, "exec_task.task")
"""The supervisor of a run in Docker, and of one in a task."""

EXECUTOR_COMMAND: Final = ("/opt/exec/bin/python", "-I", "-B", "/opt/executor/executor/__main__.py")
INIT_COMMAND: Final = (
    *("/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"),
    *("/opt/exec/bin/python", "-I", "-B", "/opt/executor/init.py"),
)
"""The executor as process 1 of a container.

A process can read the variables it was started with whatever it does to them later, and the `docker` command adds
some by itself: proxies of its own configuration, with their passwords. So Python is started without them.
"""

SOCKET: Final = WORKSPACE / "socket/control.sock"
"""Where the executor's container of a task asks its supervisor what to run."""

KEEPER_COMMAND: Final = (*INIT_COMMAND, "--serve")
"""The same in a container that is not started for one run's payload: it asks for it."""

STRATEGY_VARIABLE: Final = "STEPLINE_EXEC_STRATEGY"
"""How a task's supervisor finds the executor: beside it (`split`), or to be started in its own container."""
