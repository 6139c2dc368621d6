"""The table of all endpoints."""

from __future__ import annotations

from typing import Any, Final

from stepline.api import (
    conversations,
    feedback_endpoints,
    files,
    imports,
    inspector,
    memory_search,
    project_conversations,
    resources,
    tickets,
    uploads,
)
from stepline.api.doors import durable_stream
from stepline.api.endpoint import Call, Endpoint, Nothing
from stepline.api.tenancy import erasure_endpoints, limit_endpoints, user_export
from stepline.api.time_travel import fork_endpoints


def read_description(call: Call[Nothing, None]) -> dict[str, Any]:  # noqa: ARG001 - the same for every caller
    """Read this OpenAPI description."""
    from stepline.api.openapi import render_openapi  # noqa: PLC0415 - developers ask for it, the page never does

    return render_openapi(ENDPOINTS)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/v1/openapi.json", read_description),
    *tickets.ENDPOINTS,
    *conversations.ENDPOINTS,
    *fork_endpoints.ENDPOINTS,
    *project_conversations.ENDPOINTS,
    *memory_search.ENDPOINTS,
    *inspector.ENDPOINTS,
    *feedback_endpoints.ENDPOINTS,
    *uploads.ENDPOINTS,
    *imports.ENDPOINTS,
    *files.ENDPOINTS,
    *resources.ENDPOINTS,
    *limit_endpoints.ENDPOINTS,
    *erasure_endpoints.ENDPOINTS,
    *user_export.ENDPOINTS,
    *durable_stream.ENDPOINTS,
)
