"""The stage under proof: its entry points, and what this machine may do besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import urllib3

from stepline.errors import InputError
from stepline.local.caller import Caller, find_stage, open_api
from stepline.local.client import LOOPBACK_NAMES
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import dial_gateway
from stepline.local.proof.proof_client import ProofClient
from stepline.local.stage.deployed import HOME, LOCAL_STAGE, LocalStage
from stepline.local.stage.deployed import client as emulated_client

if TYPE_CHECKING:
    from stepline.local.client.http_api import HttpApi

PROBE_S: Final = 5.0
OTHER_ISSUER: Final = "the tokens of this stage are signed elsewhere"


class NotRunError(Exception):
    """A proof cannot be run on this stage, or by this machine; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ProvedStage:
    """A stage, as a user reaches it.

    `mint` makes a token of this user with a role and a lifetime in seconds; `aws` makes a client of a service with this
    machine's credentials. Both raise NotRunError if they cannot. `is_free`: its model costs nothing.
    """

    name: str
    region: str
    caller: Caller
    api: HttpApi
    mint: Callable[[str, int], str]
    aws: Callable[[str], Any]
    machine_arn: str
    table: str = ""
    bucket: str = ""
    is_free: bool = False

    @contextmanager
    def listen(self, conversation: str, *, after: ClientState | None = None) -> Iterator[ProofClient]:
        """Yield a client of a conversation, connected; `after` is the state of the client that it continues."""
        dial = dial_gateway(self.caller.url, self.caller.token)
        with ProofClient(dial, after or ClientState(conversation=conversation)) as listener:
            yield listener

    def admin(self) -> HttpApi:
        """Return the HTTP API for an admin of the tenant or the project. Raises NotRunError if the user is none."""
        from stepline.local.client.http_api import HttpApi

        if self.caller.local:
            token = self.mint("tenant_admin", 3600)
            return HttpApi(self.caller.api_url, lambda: token)
        if self.api.read_limits().role == "user":
            raise NotRunError("the token is not that of an admin, who alone sets limits")
        return self.api


def find_proved(caller: Caller, stage: str, *, profile: str, region: str) -> ProvedStage:
    """Return the stage of a caller; without a name that of this machine. Raises as `find_caller` does."""
    return _find_cloud(caller, stage, profile, region) if stage else _find_local(caller)


def _find_local(caller: Caller) -> ProvedStage:
    from stepline.local.stage.lifecycle import mint

    found = find_stage()

    def sign(role: Any, ttl_s: int) -> str:
        return mint(found, caller.user, role=role, ttl_s=ttl_s)

    return ProvedStage(
        name=LOCAL_STAGE,
        region=found.region,
        caller=caller,
        api=open_api(caller),
        mint=sign,
        aws=lambda service: emulated_client(service, found),
        machine_arn=found.machine_arn,
        table=found.table,
        bucket=found.bucket,
        is_free=has_scripted_model(found),
    )


def has_scripted_model(stage: LocalStage) -> bool:
    """Return True if the scripted model answers on the local stage: another server has no control endpoint."""
    host = urllib3.util.parse_url(stage.model_url).host if stage.model_url else ""
    if host not in LOOPBACK_NAMES:
        return False
    url = f"{stage.model_url.rstrip('/')}/control/faults"
    try:
        return urllib3.PoolManager().request("GET", url, timeout=PROBE_S, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _find_cloud(caller: Caller, stage: str, profile: str, region: str) -> ProvedStage:
    from stepline.local.cloud.account import open_account
    from stepline.local.cloud.deployment import load_deployment

    deployment = load_deployment(HOME, stage)
    if deployment is None:  # `find_caller` has found it
        raise InputError(f"stage {stage} is not deployed from here", code="not_deployed")
    place = region or deployment.region

    def refuse(_role: str, _ttl_s: int) -> str:
        raise NotRunError(OTHER_ISSUER)

    return ProvedStage(
        name=stage,
        region=place,
        caller=caller,
        api=open_api(caller),
        mint=refuse,
        aws=lambda service: open_account(profile or deployment.profile, place).client(service),
        machine_arn=deployment.outputs.get("MachineArn", ""),
        table=deployment.outputs.get("TableName", ""),
        bucket=deployment.outputs.get("BucketName", ""),
    )
