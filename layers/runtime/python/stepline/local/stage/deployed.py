"""The local stage's folder, its saved deployment, and the environments of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.local.install.project import find_app, find_home, find_project
from stepline.model.base import Value

HOME: Final = find_home()
REPOSITORY: Final = find_app(HOME)
PROJECT_FOLDER: Final = find_project()
REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"
LOCAL_STAGE: Final = "local"
_LINK: Final = Path(sys.prefix) / "bin/python"
PYTHON: Final = str(_LINK if _LINK.exists() else Path(sys.executable))
"""This interpreter under one name: `stepline` runs it as `python3`, `python -m stepline` as `python`."""

_FUNCTION_PATH: Final = os.pathsep.join(
    [
        str(Path(PYTHON).parent),
        *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
        *("/opt/homebrew/bin", "/snap/bin"),
    ]
)
_REGISTRY: Final = (
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "npm_config_",
    "node_extra_ca_certs",
    "ssl_cert_",
)
_KEY_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class LocalStage(Value):
    """The local stage as deployed by `stepline up`, with its addresses.

    `home` is the folder of its keys, `exec_mode` the mode in which programs run, and `requests` the suggestions of a
    new conversation with its default bundle. `app` is the folder of a CDK app of the caller's, "" with that of the runtime; the ids of
    outputs in the last stack, `stack`, begin with `prefix`.
    """

    endpoint: str
    issuer_url: str
    socket_url: str
    table: str
    bucket: str
    machine_arn: str
    model_url: str
    fingerprint: str
    region: str = REGION
    api_url: str = ""
    page_url: str = ""
    bundle: str = "bundles.default"
    bundles: Mapping[str, str] = {}
    exec_mode: str = ""
    requests: tuple[str, ...] = ()
    app: str = ""
    stack: str = "stepline-local-loop"
    prefix: str = ""
    home: str = str(HOME)


def save(stage: LocalStage, home: Path = HOME) -> None:
    """Save the stage for later commands."""
    write_private(home / "stage.json", msgspec.json.format(msgspec.json.encode(stage)))


def load(home: Path = HOME) -> LocalStage | None:
    """Return the stage as last deployed, None before the first deployment."""
    path = home / "stage.json"
    if not path.exists():
        return None
    return replace(msgspec.json.decode(path.read_bytes(), type=LocalStage), home=str(home))


def credentials(home: Path = HOME) -> dict[str, str]:
    """Return the access key of the stage's account as variables, created on first use.

    It is not valid anywhere else.
    """
    path = make_home(home) / "access_key.json"
    if not path.exists():
        made = {
            "AWS_ACCESS_KEY_ID": "AKIA" + "".join(secrets.choice(_KEY_LETTERS) for _ in range(16)),
            "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(30),
        }
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        write_private(fresh, json.dumps(made).encode())
        with contextlib.suppress(FileExistsError):  # another command was faster: its key is used
            os.link(fresh, path)
        fresh.unlink()
    return read_json(path)


def make_home(home: Path = HOME) -> Path:
    """Create the home folder of keys and emulator data, readable by its owner only."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    return home


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically, readable by its owner only."""
    fresh = path.with_name(f"{path.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    fresh.replace(path)


def tool_environment(**extra: str) -> dict[str, str]:
    """Return the environment of a child process: the path and the locale.

    API keys, cloud credentials and proxies are left out.
    """
    here = install_environment()
    kept: dict[str, str] = {
        name: here[name] for name in ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ") if name in here
    }
    return kept | extra


def build_environment() -> dict[str, str]:
    """Return the environment of a process that installs packages: that of tools, plus the access to their registry."""
    here = install_environment()
    kept = {name: value for name, value in here.items() if name.lower().startswith(_REGISTRY)}
    return kept | tool_environment()


def function_environment(home: Path, **extra: str) -> dict[str, str]:
    """Return the environment of functions, which is the same for every shell that starts the stage."""
    try:
        folder = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a user id without an account, as in a container
        folder = str(home)
    return {"HOME": folder, "LANG": "C.UTF-8", "PATH": _FUNCTION_PATH, "TZ": "UTC"} | extra


def path_to(command: str) -> dict[str, str]:
    """Return a PATH on which a function finds a command of this machine; "" if the function's own path has it."""
    found = shutil.which(command, path=install_environment()["PATH"])
    if found is None or (folder := str(Path(found).parent)) in _FUNCTION_PATH.split(os.pathsep):
        return {}
    return {"PATH": os.pathsep.join([_FUNCTION_PATH, folder])}


def install_environment() -> dict[str, str]:
    """Return this machine's whole environment, for a package client that may need its proxy or certificates.

    Programs of the project's Python environment, such as Node, come first on the path.
    """
    here = dict(os.environ)  # noqa: TID251 - not settings of Stepline, only the variables that a child process needs
    path = os.pathsep.join([str(Path(sys.executable).parent), here.get("PATH", os.defpath)])
    return {**here, "PATH": path}


def client(service: str, stage: LocalStage, *, answer_s: float | None = None) -> Any:
    """Return a boto3 client that reaches only the emulator.

    With `answer_s`, a request is sent once; connecting and the answer may each take this many seconds.
    """
    import boto3  # takes 0.3 s, which `stepline status` does not need
    from botocore.config import Config

    once = Config(connect_timeout=answer_s, read_timeout=answer_s, retries={"total_max_attempts": 1})
    make: Any = boto3.client  # its overloads expect a literal name
    key = credentials(Path(stage.home))
    return make(
        service,
        endpoint_url=stage.endpoint,
        region_name=stage.region,
        aws_access_key_id=key["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=key["AWS_SECRET_ACCESS_KEY"],
        config=None if answer_s is None else once,
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in one of our files, empty if it does not exist."""
    return json.loads(path.read_bytes()) if path.exists() else {}
