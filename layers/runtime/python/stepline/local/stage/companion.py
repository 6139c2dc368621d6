"""The processes beside the emulator: the issuer of tokens, the chat page, and the scripted model."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stepline.local.own_name import name_user
from stepline.local.stage.deployed import build_environment, read_json, tool_environment
from stepline.local.stage.emulator import Progress
from stepline.local.stage.fingerprint import Fingerprint
from stepline.local.stage.issuer.signing import KEYS
from stepline.local.stage.service import LOOPBACK, Service, claim_port

COMPANIONS: Final = ("issuer", "page", "model")
ISSUER_PORT: Final = 4567
SCRIPTED_PORT: Final = 4568
PAGE_PORT: Final = 4569
PAGE_HEALTH: Final = "/_stepline/health"
START_S: Final = 20
_LOCAL: Final = Path(__file__).parents[1]
_SCRIPTED_MODULE: Final = "stepline.local.scripted"
_MODEL_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


def start_page(home: Path, progress: Progress) -> str:
    """Start the server of the chat page unless it runs; return the page's origin. It builds the page when somebody opens it."""
    with _port("page", PAGE_PORT, home) as port:
        url = f"http://{LOOPBACK}:{port}"
        command = ["stepline.local.page", "--port", str(port), "--home", str(home)]
        said = f"starting the chat page on {LOOPBACK}:{port}"
        _keep(
            *("page", home, command, f"{url}{PAGE_HEALTH}"),
            code=_LOCAL / "page",
            environment=build_environment(),
            said=said,
            progress=progress,
        )
    return url


def start_issuer(home: Path, page_url: str, progress: Progress) -> str:
    """Start the issuer unless it runs; return its address."""
    with _port("issuer", ISSUER_PORT, home) as port:
        url = f"http://{LOOPBACK}:{port}"
        command = [
            *("stepline.local.stage.issuer", "--port", str(port), "--home", str(home)),
            *("--page", page_url, "--name", name_user("")),
        ]
        said = f"starting the token issuer on {LOOPBACK}:{port}"
        _keep(
            *("issuer", home, command, f"{url}{KEYS}"),
            code=_LOCAL / "stage/issuer",
            environment=tool_environment(),
            said=said,
            progress=progress,
        )
    return url


def model_variables(home: Path, progress: Progress) -> dict[str, str]:
    """Return the model's variables for functions: the caller's own, or those of the scripted model.

    The scripted model is started here. The variables are passed through the emulator's environment, so that a
    key is never written to a file.
    """
    if own := given(_MODEL_VARIABLES):
        return own
    if importlib.util.find_spec(f"{_SCRIPTED_MODULE}.__main__") is None:
        return {}
    with _port("model", SCRIPTED_PORT, home) as port:
        url = f"http://{LOOPBACK}:{port}"
        service = Service("model", home)
        if not service.running:
            key = "empty" if "ANTHROPIC_API_KEY" in os.environ else "not set"  # noqa: TID251 - no setting is read
            progress(
                f"starting the scripted model on {LOOPBACK}:{port} (ANTHROPIC_API_KEY is {key}; it is not an AI)"
            )
            service.start(
                [sys.executable, "-m", _SCRIPTED_MODULE, "--port", str(port)],
                tool_environment(),
                health_url=f"{url}/health",
                timeout_s=START_S,
            )
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "scripted"}


def given(names: Sequence[str]) -> dict[str, str]:
    """Return the variables that are set, for a child in which `Settings` reads them."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}  # noqa: TID251 - handed on, as above


def _keep(
    name: str,
    home: Path,
    module: Sequence[str],
    health_url: str,
    *,
    code: Path,
    environment: Mapping[str, str],
    said: str,
    progress: Progress,
) -> None:
    """Start a service of ours unless it runs; start it anew if it runs older code, or with other words."""
    service, taken = Service(name, home), Fingerprint(home / f"{name}.json")
    inputs = {"command": " ".join([sys.executable, *module]), "code": _digest(code)}
    if service.running:
        if not taken.changed(inputs):
            return
        service.stop(timeout_s=3)
    progress(said)
    service.start([sys.executable, "-m", *module], environment, health_url=health_url, timeout_s=START_S)
    taken.take(inputs)


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()


@contextmanager
def _port(name: str, preferred: int, home: Path) -> Iterator[int]:
    """Yield the port of a running service, or claim one for its start."""
    if Service(name, home).running:
        yield int(read_json(home / "ports.json")[name])
        return
    with claim_port(name, preferred, home) as port:
        yield port
