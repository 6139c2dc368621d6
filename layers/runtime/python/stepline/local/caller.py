"""Find the stage to talk to, local or deployed, and the identity to connect with."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from stepline.errors import AuthError, DependencyError, InputError
from stepline.local.own_name import name_user, own_command
from stepline.local.stage.deployed import HOME, LocalStage, load
from stepline.model.ids import local_time
from stepline.ports.channel import Role

if TYPE_CHECKING:
    from stepline.local.client.http_api import HttpApi
    from stepline.local.client.session import Session
    from stepline.local.client.state import ClientState
    from stepline.local.client.uploader import Uploader
    from stepline.local.cloud.deployment import Deployment

TENANT = "local"
PROJECT = "default"
CONNECT_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A stage's websocket and the user to connect as.

    `home` stores the last conversation. `token` makes a token for each connection. `api_url` is the HTTP API's address;
    if `renews` is set, the API exchanges tokens for tickets that keep a connection open. `local` is true for this
    machine's stage. `bundle` is the bundle that every message names, or "". `page_address` opens the chat page, or is
    "" if unknown; it is secret. `agents` maps the names of this stage's bundles to their modules, with "" for the
    default bundle; it is empty if they are unknown. `requests` are the suggestions of a new conversation. `options`
    identify this caller on a command line.
    """

    url: str
    user: str
    home: Path
    token: Callable[[], str]
    api_url: str = ""
    renews: bool = True
    local: bool = False
    bundle: str = ""
    page_address: str = field(default="", repr=False)
    agents: Mapping[str, str] = field(default_factory=dict)
    requests: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def find_stage() -> LocalStage:
    """Return the stage of this machine. Raises InputError `not_deployed`, DependencyError `not_running`."""
    stage = load()
    if stage is None:
        raise InputError(
            f"nothing is deployed on this machine: `{_command('up')}` deploys the local stage",
            code="not_deployed",
        )
    check_running(stage)
    return stage


def check_running(stage: LocalStage) -> None:
    """Raise DependencyError `not_running` unless something listens where the emulator should."""
    place = urlsplit(stage.endpoint)
    try:
        socket.create_connection((place.hostname, place.port), CONNECT_S).close()
    except OSError as error:
        raise DependencyError(
            f"the local stage is not running: `{_command('up')}` starts it", code="not_running"
        ) from error


def find_caller(
    stage: str, user: str, *, token: str, token_command: str, bundle: str = "", role: Role = "user"
) -> Caller:
    """Return the caller for a stage; without a stage name, for this machine's stage, whose tokens are minted here.

    `user` and `role` apply to a token that is minted here.

    Raises:
        InputError: `not_deployed`, or `bad_stage`.
        DependencyError: `not_running`.
        AuthError: `no_token`, neither a token nor a command that prints one.
    """
    if stage:
        found = _find_deployed(stage, user, token=token, token_command=token_command)
        options = ("--stage", stage, *(("--token-command", token_command) if token_command else ()))
        return replace(found, bundle=bundle, options=(*options, *(("--user", user) if user else ())))
    from stepline.local.stage.issuer.owner_key import page_address
    from stepline.local.stage.lifecycle import mint

    local, name = find_stage(), name_user(user)
    return Caller(
        url=local.socket_url,
        user=name,
        home=HOME,
        token=lambda: mint(local, name, tenant=TENANT, project=PROJECT, role=role),
        api_url=local.api_url,
        local=True,
        bundle=bundle,
        page_address=page_address(local.issuer_url) if local.page_url else "",
        agents={"": local.bundle, **local.bundles},
        requests=() if bundle else local.requests,
        options=("--user", user) if user else (),
    )


def find_api(stage: str) -> str:
    """Return the address of a stage's HTTP API; without a stage name, of this machine's.

    Raises:
        InputError: `not_deployed`, or `bad_stage`.
        DependencyError: `not_running`.
    """
    return _load_deployed(stage).outputs["HttpUrl"] if stage else find_stage().api_url


def find_issuer(stage: str) -> str:
    """Return the issuer of a stage's tokens; without a stage name, of this machine's. Raises as `find_api` does."""
    if not stage:
        return find_stage().issuer_url
    config: dict[str, str] = json.loads(_load_deployed(stage).outputs.get("PageConfig", "{}"))
    return config.get("issuer", "")


def _load_deployed(stage: str) -> Deployment:
    from stepline.local.cloud.deployment import check_stage, list_stages, load_deployment

    deployment = load_deployment(HOME, check_stage(stage))
    if deployment is None or "WebSocketUrl" not in deployment.outputs:
        known = f"; deployed stages: {', '.join(others)}" if (others := list_stages(HOME)) else ""
        raise InputError(
            f"stage {stage} is not deployed from here: `{_command('deploy', '--stage', stage)}` deploys it{known}",
            code="not_deployed",
        )
    return deployment


def _find_deployed(stage: str, user: str, *, token: str, token_command: str) -> Caller:
    from stepline.local.cloud.deployment import stage_folder

    deployment = _load_deployed(stage)
    if not token and not token_command:
        raise AuthError(
            "a deployed stage needs a token: set STEPLINE_TOKEN, or add --token-command", code="no_token"
        )
    return Caller(
        url=deployment.outputs["WebSocketUrl"],
        user=name_user(user),
        home=stage_folder(HOME, stage),
        token=(lambda: run_token_command(token_command)) if token_command else lambda: token,
        api_url=deployment.outputs.get("HttpUrl", ""),
        renews=bool(token_command),  # a fixed token from the environment cannot renew itself
    )


def _command(*words: str) -> str:
    """Return the `stepline` command as the user can type it in their shell."""
    return shlex.join([*own_command(), *words])


def run_token_command(command: str) -> str:
    """Run the command and return the token that it prints. Raises AuthError `no_token`.

    Its stderr goes to our stderr. It gets no standard input, which belongs to the agent.
    """
    try:
        done = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
        )
    except (OSError, ValueError, IndexError) as error:  # the program does not exist, or a quote is not closed
        raise AuthError(f"the token command cannot be run: {error}", code="no_token") from error
    token = done.stdout.strip()
    if done.returncode != 0 or not token:
        printed = "" if token else " and printed no token"
        raise AuthError(f"the token command ended with exit code {done.returncode}{printed}", code="no_token")
    return token


def sessions(caller: Caller) -> Callable[[ClientState], Session]:
    """Return a function that opens a session; each connection gets a fresh token."""
    from stepline.adapters.system import SystemClock
    from stepline.local.client.credential import Credential
    from stepline.local.client.session import Session
    from stepline.local.client.websocket import dial_gateway

    credential = Credential(caller.token, caller.api_url if caller.renews else "")
    dial = dial_gateway(caller.url, credential.token)
    zone = find_timezone()
    return lambda state: Session(
        dial, state, SystemClock(), credential=credential, timezone=zone, bundle=caller.bundle
    )


def open_api(caller: Caller) -> HttpApi:
    """Return the HTTP API of the caller's stage. Raises InputError `not_deployed`."""
    from stepline.local.client.http_api import HttpApi

    if not caller.api_url:
        raise InputError("the stage was deployed without an HTTP API: deploy it again", code="not_deployed")
    return HttpApi(caller.api_url, caller.token)


def upload_to(caller: Caller, report: Callable[[str], None], conversation: str) -> Uploader:
    """Return the uploader of a conversation; `report` gets lines of progress. Raises InputError `not_deployed`."""
    from stepline.adapters.system import SystemClock
    from stepline.local.client.uploader import Uploader

    return Uploader(open_api(caller), SystemClock(), conversation, report=report)


def find_timezone(*, named: str | None = None, folder: Path = Path("/etc")) -> str:
    """Return the name of this machine's time zone in the IANA database, or "" if it cannot be found.

    `named` is the value of TZ, by default from our environment; without it, the files in `folder` are read. Source: man
    pages tzset(3), localtime(5); timezone(5) of Debian.
    """
    if named is None:
        named = os.environ.get("TZ", "")  # noqa: TID251 - the user's variable, not a setting of Stepline
    if named:
        names = [named.removeprefix(":")]
    else:
        link, text = folder / "localtime", folder / "timezone"
        names = [str(link.readlink())] if link.is_symlink() else []
        names += [text.read_text(errors="replace").strip()] if text.is_file() else []
    zones = (name.rpartition("zoneinfo/")[2] for name in names)
    return next((zone for zone in zones if zone and local_time(datetime.now(UTC), zone)), "")
