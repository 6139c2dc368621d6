"""Backends for programs on this machine: which modes are possible, and building their environments."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, get_args

from msgspec.structs import replace

from stepline.errors import DependencyError, InputError, SteplineError
from stepline.local.install.package import make_environment
from stepline.local.stage.deployed import HOME, REPOSITORY, install_environment, make_home, path_to
from stepline.local.stage.emulator import Progress
from stepline.local.stage.program_image import build_image, find_daemon, find_image, image_name, remove_images
from stepline.model.base import Value
from stepline.settings import ExecMode

MODE_VARIABLE: Final = "STEPLINE_EXEC_MODE"
DOCKER_VARIABLES: Final = (
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "XDG_RUNTIME_DIR",
)
"""The variables that the `docker` command reads; functions that run programs need them too."""

_LEADING: Final = ("DOCKER_CONTEXT", "XDG_RUNTIME_DIR")
LOCK_FILE: Final = REPOSITORY / "exec_task/requirements.lock"
EXECUTOR_HOME: Final = REPOSITORY / "exec_task"
_SOCKET: Final = "unix://"
RETRY_S: Final = 3600
"""A failed build is retried after this time, or when Docker is requested by name."""

_MODES: Final[dict[str, ExecMode]] = {mode: mode for mode in get_args(ExecMode)}
_NAMESPACES: Final = 0x20000000 | 0x40000000 | 0x00020000  # CLONE_NEW{PID,NET,NS}
_NEW_USER: Final = 0x10000000
_TRY: Final = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
raise SystemExit(ctypes.get_errno() if libc.unshare({flags}) else 0)
"""


class Backend(Value):
    """A mode, and the reason why it cannot be used, or "". `failed` is true if its image has just failed to build."""

    mode: ExecMode
    obstacle: str = ""
    remedy: str = ""
    failed: bool = False


def prepare(home: Path, progress: Progress) -> dict[str, str]:
    """Build the environments of the modes and return the deployment's settings for them.

    Keys: `exec_mode` (none, process, docker or fargate), `exec_image`, `exec_python` and `exec_home` (the interpreter
    of mode process, and the folder that holds the package `executor`), empty where a mode is not possible here; and
    `exec_tasks`, whether mode fargate is possible in addition.

    Raises InputError for an unknown mode, DependencyError if the requested one is not possible.
    """
    asked = requested_mode()
    if asked == "none":
        return _settings()
    if asked == "fargate":
        docker, image = _prepare_docker(home, progress, demanded=True)
        _demand(_as_tasks(docker))
        return _settings("fargate", image=image, tasks=True)
    process, python = _prepare_process(home, progress)
    if asked == "process":
        _demand(process)
        return _settings("process", python=python)
    docker, image = _prepare_docker(home, progress, demanded=asked == "docker")
    if asked == "docker":
        _demand(docker)
        return _settings("docker", image=image, python=python, tasks=not _as_tasks(docker).obstacle)
    if docker.obstacle and process.obstacle:
        progress(f"the agent cannot run programs here: {docker.obstacle}; {process.obstacle}")
        return _settings()
    mode: ExecMode = "process" if docker.obstacle else "docker"
    if docker.failed:
        progress(f"programs run in mode {mode}: {docker.obstacle} ({docker.remedy})")
    return _settings(mode, image=image, python=python, tasks=not _as_tasks(docker).obstacle)


def docker_variables() -> dict[str, str]:
    """Return the variables by which a function's `docker` command finds its daemon, and its PATH if needed.

    A socket found by the command's own configuration is named as well: the emulator, which runs the tasks of mode
    fargate, reads the variable only. Other variables differ from shell to shell, and are left out.
    """
    here = install_environment()
    found = {name: here[name] for name in DOCKER_VARIABLES if here.get(name)}
    address = found.get("DOCKER_HOST") or find_daemon()
    if address.startswith(_SOCKET):
        found = {name: value for name, value in found.items() if name not in _LEADING}
        found["DOCKER_HOST"] = address
    return found | path_to("docker")


def install_exec_env(home: Path, progress: Progress) -> Path:
    """Create the environment of programs from its lock, unless it exists; return its interpreter."""
    from stepline.adapters.process.executor import PRELOAD  # slower than the rest of `stepline up`

    return make_environment(
        home / "exec-env",
        LOCK_FILE,
        lambda: progress("installing the packages of programs (200 MB, about 10 s)"),
        preload=PRELOAD,
    )


def backends(home: Path = HOME) -> list[Backend]:
    """Return every mode with its current obstacle; builds nothing."""
    docker = _find_docker(home)
    return [docker, process_backend(), _as_tasks(docker)]


def process_backend() -> Backend:
    """Return mode process, with the reason why this machine cannot isolate programs in namespaces, if any."""
    if platform.system() != "Linux":
        return Backend(
            mode="process", obstacle=f"{platform.system()} has no namespaces", remedy="install Docker"
        )
    if obstacle := _try_namespaces():
        return Backend(
            mode="process",
            obstacle=obstacle,
            remedy="allow user namespaces (sysctl user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0) or install Docker",
        )
    return Backend(mode="process")


def _as_tasks(docker: Backend) -> Backend:
    """Return mode fargate, whose tasks the emulator runs in Docker, in its own network."""
    if docker.obstacle:
        return Backend(mode="fargate", obstacle=docker.obstacle, remedy=docker.remedy)
    if platform.system() != "Linux" or not docker_variables().get("DOCKER_HOST", "").startswith(_SOCKET):
        return Backend(
            mode="fargate",
            obstacle="the emulator's tasks need a Docker daemon of this machine, and Linux",
            remedy="use mode docker",
        )
    return Backend(mode="fargate")


def _settings(
    mode: ExecMode = "none", *, image: str = "", python: str = "", tasks: bool = False
) -> dict[str, str]:
    return {
        "exec_mode": mode,
        "exec_image": image,
        "exec_python": python,
        "exec_home": str(EXECUTOR_HOME) if python else "",
        "exec_tasks": str(tasks).lower(),
    }


def _demand(backend: Backend) -> None:
    """Raise DependencyError if a mode is not possible."""
    if backend.obstacle:
        raise DependencyError(
            f"{MODE_VARIABLE}={backend.mode}: {backend.obstacle}; {backend.remedy}", code="local_exec"
        )


def _prepare_process(home: Path, progress: Progress) -> tuple[Backend, str]:
    """Return the mode and its interpreter, installed now if missing."""
    backend = process_backend()
    if backend.obstacle:
        return backend, ""
    try:
        return backend, str(install_exec_env(make_home(home), progress))
    except DependencyError as error:
        return Backend(mode="process", obstacle=str(error), remedy="make exec-env"), ""


def _prepare_docker(home: Path, progress: Progress, *, demanded: bool) -> tuple[Backend, str]:
    """Return the mode and its image, built now if missing, unless a build failed recently."""
    image = image_name()
    failed = home / "image.failed"
    try:
        if not find_image(image):
            return Backend(mode="docker"), image
        if not demanded and _is_fresh(failed, image):
            return _not_built(home), ""
        build_image(image, make_home(home), progress)
    except DependencyError as error:
        if error.reason == "local_image":
            failed.write_text(image)
            return replace(_not_built(home), obstacle=str(error), failed=True), ""
        return Backend(mode="docker", obstacle=f"no Docker ({error})", remedy="start a Docker daemon"), ""
    failed.unlink(missing_ok=True)
    return Backend(mode="docker"), image


def _find_docker(home: Path) -> Backend:
    try:
        missing = find_image(image_name())
    except DependencyError as error:
        return Backend(mode="docker", obstacle=str(error), remedy="start a Docker daemon")
    if missing and (home / "image.failed").exists():
        return _not_built(home)
    return Backend(mode="docker", obstacle=missing, remedy="make image" if missing else "")


def _not_built(home: Path) -> Backend:
    return Backend(
        mode="docker",
        obstacle="its image could not be built",
        remedy=f"see {home / 'image.log'}, then `make image`; STEPLINE_EXEC_BASE names another base image",
    )


def _is_fresh(failed: Path, image: str) -> bool:
    return failed.exists() and failed.read_text() == image and time.time() - failed.stat().st_mtime < RETRY_S


def requested_mode() -> ExecMode | None:
    """Return the mode that the environment requests, if any. Raises InputError `bad_setting`."""
    word = install_environment().get(MODE_VARIABLE, "")
    if not word:
        return None
    if word not in _MODES:
        raise InputError(f"{MODE_VARIABLE} must be one of {', '.join(_MODES)}", code="bad_setting")
    return _MODES[word]


def _try_namespaces() -> str:
    """Return why a process may not create its namespaces, tested in a child; "" if it may."""
    flags = _NAMESPACES if os.geteuid() == 0 else _NAMESPACES | _NEW_USER
    tried = subprocess.run(
        [sys.executable, "-I", "-c", _TRY.format(flags=flags)], capture_output=True, check=False
    )
    return f"the kernel refuses namespaces ({os.strerror(tried.returncode)})" if tried.returncode else ""


def main(arguments: list[str]) -> int:
    """Build all environments, or only the `image`; `clean` removes the images."""
    home = make_home()

    def progress(text: str) -> None:
        print(text, file=sys.stderr)

    try:
        match arguments:
            case []:
                prepare(home, progress)
            case ["image"]:
                build_image(image_name(), home, progress)
            case ["clean"]:
                remove_images()
            case _:
                progress("usage: python -m stepline.local.stage.program_environment [image | clean]")
                return 2
    except SteplineError as error:
        where = f" (see {home / 'image.log'})" if error.reason == "local_image" else ""
        progress(f"error: {error.reason}: {error}{where}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
