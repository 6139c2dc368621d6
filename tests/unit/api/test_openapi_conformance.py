"""Every endpoint against its own description: valid data, invalid data, and no undescribed answers."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer
from tests.support.budget import budget
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

BUDGET = settings(
    max_examples=budget(4, 300), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def talked() -> Conversation:
    written = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}
    conversation = Conversation(called("react.write", written), answered("One."), answered("Two."))
    for i in range(2):
        conversation.send(f"question {i}", id=f"m{i}")
        conversation.run()
    return conversation


CONVERSATION = talked()
THERE = {
    "tenant": LANE.tenant,
    "project": LANE.project,
    "conversation": LANE.conversation,
    "turn": CONVERSATION.timeline().turns[0],
    "owner": USER,
    "kind": "outputs",
    "path": "a.md",
}
"""The existing objects for the names in a path."""
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SERVER = ApiServer(Caller(CONVERSATION.ports))
SCHEMA = schemathesis.openapi.from_wsgi("/v1/openapi.json", SERVER, headers=HEADERS)


VALID = positive_data_acceptance
"""Left out: JSON Schema calls `1.0` an integer, and the reader of bodies does not."""


@SCHEMA.parametrize()
@BUDGET
def test_every_answer_conforms_to_the_description(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=HEADERS, excluded_checks=[VALID])
    assert SERVER.failures == []


@SCHEMA.include(path_regex=r"\{").parametrize()
@BUDGET
def test_every_answer_about_existing_objects_conforms_to_the_description(
    case: schemathesis.Case,
) -> None:
    case.path_parameters.update({name: text for name, text in THERE.items() if name in case.path_parameters})
    # A request that was invalid only in its path is valid now.
    case.call_and_validate(headers=HEADERS, excluded_checks=[VALID, negative_data_rejection])
    assert SERVER.failures == []
