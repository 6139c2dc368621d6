"""The processes beside the emulator: the issuer of tokens, the chat page, and the scripted model."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stepline.adapters.anthropic.call import DEFAULT_ROLE
from stepline.local.own_name import name_user
from stepline.local.stage.deployed import PYTHON, build_environment, tool_environment
from stepline.local.stage.emulator import Progress
from stepline.local.stage.fingerprint import Fingerprint
from stepline.local.stage.service import LOOPBACK, Service, claim_port, claimed_port
from stepline.local.tour import ANY_MODEL, TOUR
from stepline.model.tenancy.price import SCRIPTED

COMPANIONS: Final = ("issuer", "page", "model")
ISSUER_PORT: Final = 4567
SCRIPTED_PORT: Final = 4568
PAGE_PORT: Final = 4569
START_S: Final = 20
_LOCAL: Final = Path(__file__).parents[1]
_SCRIPTED_MODULE: Final = "stepline.local.scripted"
_MODEL_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


def start_page(home: Path, progress: Progress) -> str:
    """Start the server of the chat page unless it runs; return the page's origin. It builds the page when somebody opens it."""
    return _keep(
        *("page", "chat page", PAGE_PORT, home, ["stepline.local.page", "--home", str(home)]),
        code=_LOCAL / "page",
        environment=build_environment(),
        progress=progress,
    )


def start_issuer(home: Path, page_url: str, progress: Progress) -> str:
    """Start the issuer unless it runs; return its address."""
    command = [
        *("stepline.local.stage.issuer", "--home", str(home)),
        *("--page", page_url, "--name", name_user("")),
    ]
    return _keep(
        *("issuer", "token issuer", ISSUER_PORT, home, command),
        code=_LOCAL / "stage/issuer",
        environment=tool_environment(),
        progress=progress,
    )


def model_variables(home: Path, progress: Progress) -> dict[str, str]:
    """Return the model's variables for functions: the caller's own, or those of the scripted model.

    The scripted model is started here. The variables are passed through the emulator's environment, so that a
    key is never written to a file.
    """
    if own := given(_MODEL_VARIABLES):
        return own
    if importlib.util.find_spec(f"{_SCRIPTED_MODULE}.__main__") is None:
        return {}
    key = "empty" if "ANTHROPIC_API_KEY" in os.environ else "not set"  # noqa: TID251 - no setting is read
    url = _keep(
        *("model", "scripted model", SCRIPTED_PORT, home, [_SCRIPTED_MODULE]),
        code=_LOCAL / "scripted",
        environment=tool_environment(),
        progress=progress,
        why=f" (ANTHROPIC_API_KEY is {key}; it is not an AI)",
    )
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": SCRIPTED}


def choose_model(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the app's context for these variables: the scripted model has a name of its own, at which it costs nothing."""
    return {"model_roles": json.dumps({DEFAULT_ROLE: SCRIPTED})} if _is_scripted(variables) else {}


def first_requests(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the requests of the tour that the model with these variables can follow."""
    return tuple(TOUR.values())[: None if _is_scripted(variables) else ANY_MODEL]


def _is_scripted(variables: Mapping[str, str]) -> bool:
    return variables.get("ANTHROPIC_API_KEY") == SCRIPTED


def given(names: Sequence[str]) -> dict[str, str]:
    """Return the variables that are set, for a child in which `Settings` reads them."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}  # noqa: TID251 - handed on, as above


def _keep(
    name: str,
    title: str,
    preferred: int,
    home: Path,
    module: Sequence[str],
    *,
    code: Path,
    environment: Mapping[str, str],
    progress: Progress,
    why: str = "",
) -> str:
    """Start a service of ours unless it runs; start it anew if it runs older code, or with other words; return its address.

    `title` and `why` are for `progress`.
    """
    service, taken = Service(name, home), Fingerprint(home / f"{name}.json")
    digest = _digest(code)

    def command(port: int) -> list[str]:
        return [PYTHON, "-m", *module, "--port", str(port)]

    def inputs(port: int) -> dict[str, str]:
        return {"command": " ".join(command(port)), "code": digest}

    port = claimed_port(name, home)
    if service.running and taken.changed(inputs(port)):
        service.stop(timeout_s=3)
    is_new = not service.running
    if is_new:
        port = claim_port(name, preferred, home)
        progress(f"starting the {title} on {LOOPBACK}:{port}{why}")
    service.start(command(port), environment, port=port, timeout_s=START_S)
    if is_new:
        taken.take(inputs(port))
    return f"http://{LOOPBACK}:{port}"


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()
