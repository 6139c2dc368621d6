"""A caller of the HTTP API over the ports of a conversation."""

from __future__ import annotations

import json
from typing import Any

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine
from stepline.api.endpoint import Services
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import ApiResponse, Request, Router
from stepline.bootstrap.memory_wiring import erasure_in_memory
from stepline.ingress.upload import UploadPorts
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.ports.channel import Principal, Role
from tests.support.conversation import FAR, LANE, USER
from tests.support.replays import replay_ports

ROUTER = Router(ENDPOINTS)
JSON = {"content-type": "application/json"}


class Caller:
    """Calls every route of the API as one user."""

    def __init__(
        self,
        ports: Ports,
        *,
        user: str = USER,
        tenant: str = LANE.tenant,
        project: str = LANE.project,
        role: Role = "user",
    ) -> None:
        self.uploads = UploadPorts(
            ports=ports,
            quarantine=MemoryQuarantine(ports.clock),
            preflight=MemoryPreflight(),
        )
        self.erasing = erasure_in_memory(ports)
        self.services = Services(
            ports=ports,
            history=History(),
            inspect="owner",
            uploads=self.uploads,
            erasing=self.erasing,
            replaying=replay_ports(ports),
        )
        self.principal = Principal(tenant=tenant, project=project, user=user, expires_at=FAR, role=role)

    def ask(self, method: str, path: str, body: Any = None, /, **query: str) -> ApiResponse:
        given = {} if body is None else {"headers": JSON, "body": json.dumps(body).encode()}
        request = Request(method=method, path=path, query=query, **given)
        return ROUTER.answer(self.services, self.principal, request)

    def get(self, path: str, /, **query: str) -> Any:
        """Return the body of a successful answer."""
        return read(self.ask("GET", path, **query))

    def post(self, path: str, body: Any) -> Any:
        """Return the body of a successful answer."""
        return read(self.ask("POST", path, body))


def read(answer: ApiResponse) -> Any:
    assert answer.status < 300, answer.body
    return json.loads(answer.body)
