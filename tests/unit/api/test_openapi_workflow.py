"""Requests in the order of the description's links: each request uses values of an earlier answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection

from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.openapi import render_openapi
from tests.security.every_endpoint import ROWS, Names
from tests.support.api_caller import Caller
from tests.support.api_server import ApiServer
from tests.support.budget import budget
from tests.support.conversation import LANE
from tests.unit.api.test_openapi_conformance import HEADERS, VALID, talked

FILE = {"filename": "a.txt", "size_bytes": 3, "sha256": "0" * 64, "mime": "text/plain"}
FIRST = {
    "search": {"limit": "1"},
    "list_all": {"limit": "1"},
    "read_events": {"turns": "1"},
    "get_log": {"limit": "1"},
}
"""Queries of pages that have a next page."""
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, operations in render_openapi(ENDPOINTS)["paths"].items()
    for method, operation in operations.items()
}


def links() -> Iterator[tuple[str, str]]:
    for source, (_, _, operation) in OPERATIONS.items():
        for answer in operation["responses"].values():
            for name in answer.get("links", {}):
                if name not in ROWS or not ROWS[name].after:
                    yield source, name


def ask(caller: Caller, called: str, names: dict[str, str], query: dict[str, str]) -> Any:
    method, path, operation = OPERATIONS[called]
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    it = Names(conversation=LANE.conversation)
    body = ROWS[called].body(it) if "requestBody" in operation else None
    if called == "create_link":
        (file,) = caller.get(path.replace("file-links", "files"))["items"]
        body = {"path": file["logical_path"]}
    if called == "replay_a_round":
        (turn, *_) = caller.get(path.replace("replays", "timeline"))["turns"]
        body = {"decided_n": turn["rounds"][0]["decided_n"]}
    if called in ("fetch_turns", "read_rated"):
        body = {}
    answer = caller.ask(method, path, body, **query)
    assert answer.status < 300, answer.body
    return json.loads(answer.body) if answer.body else None


def resolve(expression: str, names: dict[str, str], answer: Any) -> str:
    """Return the value of an OpenAPI expression: a name of the request's path, or a value in the answer's body."""
    if found := re.fullmatch(r"\$request\.path\.(\w+)", expression):
        return names[found[1]]
    found = re.fullmatch(r"\$response\.body#(/.+)", expression)
    assert found
    for part in found[1][1:].split("/"):
        answer = answer[int(part)] if isinstance(answer, list) else answer[part]
    return str(answer)


@pytest.mark.parametrize(("source", "name"), list(links()))
def test_a_link_leads_from_one_successful_answer_to_another(source: str, name: str) -> None:
    caller = Caller(talked().ports, role="project_admin")
    names = {"tenant": LANE.tenant, "project": LANE.project, "conversation": LANE.conversation}
    query = {"search": {"q": "question"}, "list_files": {}}.get(source, ROWS[source].query(Names()))
    answer = ask(caller, source, names, {**query, **FIRST.get(source, {})})
    (link,) = [
        one["links"][name]
        for one in OPERATIONS[source][2]["responses"].values()
        if name in one.get("links", {})
    ]
    given = {key: resolve(text, names, answer) for key, text in link["parameters"].items()}
    target = link["operationId"]
    query = {key.partition(".")[2]: text for key, text in given.items() if key.startswith("query.")}
    path = {key.partition(".")[2]: text for key, text in given.items() if key.startswith("path.")}
    needed = {
        "compare_requests": {"to": path.get("n", "")},
        "list_files": {},
        "search": {"q": "question"},
    }.get(target, ROWS[target].query(Names()))
    ask(caller, target, path, {**needed, **query})


def test_every_sequence_of_linked_requests_conforms_to_the_description() -> None:
    server, reached = ApiServer(Caller(talked().ports)), Counter[tuple[str, int]]()
    schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", server, headers=HEADERS)

    class Workflow(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            """Begin each sequence with the same conversation, so that a sequence can be repeated."""
            server.caller = Caller(talked().ports)

        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
            return {"headers": HEADERS}

        def before_call(self, case: schemathesis.Case) -> None:
            """Name a real file: random values never have a hash, a size and a type that match."""
            if case.operation.label.endswith("/uploads") and len(self.recorder.cases) % 2:
                case.body = FILE

        def after_call(self, response: Any, case: schemathesis.Case) -> None:
            super().after_call(response, case)
            reached[case.operation.label, response.status_code] += 1

        def validate_response(self, response: Any, case: schemathesis.Case, *given: Any, **more: Any) -> None:
            # Other tests try tokens that are refused; here the check would send each request three times. A body that
            # was made invalid may become valid when a link's values replace it: the conformance tests try invalid data.
            case.validate_response(
                response,
                excluded_checks=[VALID, ignored_auth, negative_data_rejection],
                transport_kwargs=more,
                recorder=self.recorder,
            )

    Workflow.run(
        settings=settings(
            max_examples=budget(15, 1_000),
            stateful_step_count=budget(10, 25),
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
    )
    assert server.failures == []
    assert reached["GET /v1/conversations/{conversation}/uploads/{upload}", 200], sorted(reached)
