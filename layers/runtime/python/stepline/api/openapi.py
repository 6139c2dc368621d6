"""The OpenAPI 3.1 description of the HTTP API, made from the table of endpoints.

Source: https://spec.openapis.org/oas/v3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from inspect import cleandoc
from typing import Any, Final

import msgspec

from stepline.api.endpoint import Endpoint, Nothing
from stepline.api.problem import PROBLEM_MIME, Problem, phrase_of
from stepline.api.router import COMMON, JSON, KEY, OF_BODIES
from stepline.model.ids import SEGMENT, TURN

VERSION: Final = "1"
PATH_PARAMETER: Final = re.compile(r"\{([a-z_]+)\+?\}")
"""A name in the template of a path."""
_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {"$ref": _REFERENCE.format(name="Problem")}

PATTERNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "conversation": {"type": "string", "pattern": f"^{SEGMENT.pattern}$"},
    "tenant": {"type": "string", "pattern": f"^{SEGMENT.pattern}$"},
    "project": {"type": "string", "pattern": f"^{SEGMENT.pattern}$"},
    "turn": {"type": "string", "pattern": f"^{TURN.pattern}$"},
    "kind": {"type": "string", "enum": ["files", "outputs"]},
    "disposition": {"type": "string", "enum": ["preview", "download"]},
    "n": {"type": "integer", "minimum": 1, "maximum": 10**12 - 1},
}
"""The schemas of names in paths; others are any text of one segment."""
GATE: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.UNAUTHORIZED: "there is no token",
    HTTPStatus.FORBIDDEN: "the token was not accepted",
}
"""The gateway's own answers, before the function is asked."""


def render_openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the description of these endpoints as an object for JSON."""
    types = [
        Problem,
        *(kind for row in endpoints for kind in (row.query, row.body, row.answer) if kind is not None),
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    for schema in components.values():
        if said := schema.get("description"):
            schema["description"] = cleandoc(said)  # Python does this itself from 3.13 on
    known = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for row in endpoints:
        path = paths.setdefault(PATH_PARAMETER.sub(r"{\1}", row.path), {})
        path[row.method.lower()] = _operation(row, endpoints, known, components)
    queries = {row.query.__name__ for row in endpoints}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stepline", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in sorted(components.items()) if name not in queries},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "security": [{"bearer": []}],
    }


def codes_of(endpoint: Endpoint) -> dict[HTTPStatus, tuple[str, ...]]:
    """Return the codes of an endpoint's refusals by status, including those of every endpoint."""
    groups = [COMMON, endpoint.codes, *([OF_BODIES] if endpoint.body else [])]
    statuses = sorted({status for group in groups for status in group})
    return {
        status: tuple(dict.fromkeys(code for group in groups for code in group.get(status, ())))
        for status in statuses
    }


def takes_key(endpoint: Endpoint) -> bool:
    """Return True if a request of the endpoint may carry an idempotency key."""
    return endpoint.method == "POST"


def _operation(
    endpoint: Endpoint,
    endpoints: Sequence[Endpoint],
    known: Mapping[int, dict[str, Any]],
    components: Mapping[str, Any],
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.run.__name__,
        "tags": [endpoint.run.__module__.rpartition(".")[2]],
        "summary": _summary(endpoint),
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint, components)],
        "responses": _responses(endpoint, known),
    }
    if links := dict(_links(endpoint, endpoints)):
        operation["responses"][str(int(endpoint.status))]["links"] = links
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": known[id(endpoint.body)]}}}
    if takes_key(endpoint):
        key = {"type": "string", "pattern": f"^{KEY.pattern}$"}
        operation["parameters"].append({"name": "Idempotency-Key", "in": "header", "schema": key})
    return operation


def _summary(endpoint: Endpoint) -> str:
    return (endpoint.run.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": PATTERNS.get(name, {"type": "string"})}
        for name in PATH_PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if endpoint.query is Nothing:
        return []
    schema = components[endpoint.query.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": of}
        for name, of in schema["properties"].items()
    ]


def _links(endpoint: Endpoint, endpoints: Sequence[Endpoint]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the links of an answer: to its next page, and to the endpoints whose names it gives, after its own ones."""
    values = {name: f"$response.body#{pointer}" for name, pointer in endpoint.gives.items()}
    page = {f"query.{name}": values[name] for name in endpoint.query.__struct_fields__ if name in values}
    own = {name: f"$request.path.{name}" for name in PATH_PARAMETER.findall(endpoint.path)}
    if page:
        parameters = {f"path.{name}": value for name, value in own.items()} | page
        yield "next_page", {"operationId": endpoint.run.__name__, "parameters": parameters}
    for other in (one for one in endpoints if not one.founds):
        names = PATH_PARAMETER.findall(other.path)
        if own.keys() <= set(names) <= own.keys() | values.keys() and values.keys() & set(names):
            parameters = {f"path.{name}": own.get(name) or values[name] for name in names}
            called = other.run.__name__
            yield called, {"operationId": called, "parameters": parameters}


def _responses(endpoint: Endpoint, known: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    if endpoint.redirects:
        good: dict[str, Any] = {
            "302": {"description": "Found", "headers": {"Location": {"schema": {"type": "string"}}}}
        }
    elif endpoint.streams:
        good = _stream_responses(endpoint, known)
    elif endpoint.answer is None:
        good = {"204": {"description": "No Content"}}
    else:
        content = {JSON: {"schema": known[id(endpoint.answer)]}}
        good = {str(int(endpoint.status)): {"description": phrase_of(endpoint.status), "content": content}}
    refusals: dict[str, Any] = {
        str(int(status)): {
            "description": f"{phrase_of(status)}: {', '.join(f'`{code}`' for code in codes)}",
            "content": {PROBLEM_MIME: {"schema": _PROBLEM}},
        }
        for status, codes in codes_of(endpoint).items()
    }
    for status, why in GATE.items():
        said = {"description": f"{phrase_of(status)}: {why}", "content": {}}
        refusals.setdefault(str(int(status)), said)["content"][JSON] = {"schema": {"type": "object"}}
    return {**good, **refusals}


def _stream_responses(endpoint: Endpoint, known: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the good responses of a part of a stream. Source: PROTOCOL.md of Durable Streams, 5.5 to 5.7."""
    offsets = {name: {"schema": {"type": "string"}} for name in ("Stream-Next-Offset", "Stream-Up-To-Date")}
    part: dict[str, Any] = {"description": "OK", "headers": offsets}
    if endpoint.answer is None:
        return {"200": part}
    read = {**offsets, **{name: {"schema": {"type": "string"}} for name in ("ETag", "Stream-Cursor")}}
    return {
        "200": {**part, "headers": read, "content": {JSON: {"schema": known[id(endpoint.answer)]}}},
        "204": {"description": "No Content: nothing came while the reader waited", "headers": read},
        "304": {"description": "Not Modified: the client has this part", "headers": read},
    }
