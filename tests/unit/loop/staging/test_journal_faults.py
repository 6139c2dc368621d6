"""Rounds in the layout `journal` whose process dies, or whose store does not answer, and the estimate of their budget."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.context.journal.staged_text import ARTIFACTS
from stepline.context.rules import ContextRules
from stepline.errors import DependencyError
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.attempt import Attempt
from stepline.loop.tenancy.budget import estimate_round
from stepline.model.entry import Decided
from stepline.model.source import Source
from stepline.tools.context import Shelved
from tests.support.conversation import LANE
from tests.support.generation import answered
from tests.support.journal_conversation import JournalConversation, digest_of, names_of
from tests.support.steered_conversation import InterruptedModel

WEB = Source(sid=1, title="Axes", url="https://a.example/axes", text="All about axes.")
CHART, CITIES = "fi:<turn>.outputs/chart.png", "fi:<turn>.outputs/cities.csv"


def staged() -> JournalConversation:
    conversation = JournalConversation()
    conversation.made(CHART, CITIES)
    return conversation


class ForgetfulArtifacts:
    """A store that does not answer its `at`-th call of a method."""

    def __init__(self, store: Any, method: str, at: int) -> None:
        self._store, self._method, self.left = store, method, at

    def __getattr__(self, name: str) -> Any:
        if name == self._method:
            self.left -= 1
            if self.left == 0:
                raise DependencyError("the store does not answer", code="store_unavailable")
        return getattr(self._store, name)


@pytest.mark.parametrize(("method", "at"), [("stream", 1), ("stream", 2), ("put", 1)])
def test_an_attempt_after_a_store_failure_stages_the_same(method: str, at: int):
    conversation = staged()
    store, step = conversation.ports.artifacts, conversation.now()
    ports = conversation.ports
    conversation.ports = dataclasses.replace(ports, artifacts=ForgetfulArtifacts(store, method, at))
    with pytest.raises(DependencyError):
        conversation.decide(step)
    conversation.ports, conversation.history = ports, History()
    conversation.model.add(answered("Here."))
    conversation.decide(replace(step, attempt=1))
    (request,) = conversation.model.requests[2:]
    assert ARTIFACTS in digest_of(request)
    assert names_of(request) == ["chart.png"]


def test_staged_contents_are_stored_before_the_log_names_them():
    conversation = staged()
    conversation.asked()
    named = [sent.staged for sent in conversation.sent()]
    assert named[:2] == ["", ""]
    (key,) = [key for key in conversation.ports.artifacts.objects if key.endswith(named[2])]
    assert conversation.state.turn in key


def test_the_budget_of_a_round_is_held_for_a_request_and_not_for_the_whole_log():
    conversation = JournalConversation(context=ContextRules(max_tokens=2_000))
    conversation.send("word " * 20_000)
    answer = conversation.agent.max_tokens
    assert estimated(conversation) == 2_000 + answer
    conversation.agent = conversation.timeline_agent
    assert estimated(conversation) > 3_000 + answer


def estimated(conversation: JournalConversation) -> int:
    attempt = Attempt(
        ports=conversation.ports,
        agent=conversation.agent,
        history=conversation.history,
        journal=Journal(conversation.ports, LANE, "test"),
        step=conversation.now(),
    )
    return estimate_round(attempt, conversation.timeline()).tokens


def test_a_request_cut_off_by_a_steer_uses_up_staged_contents():
    conversation = staged()
    conversation.model = InterruptedModel(answered("Here it is, at length."), answered("Short."))
    steer = {"id": "s1", "kind": "steer"}
    conversation.model.planned[0, 1].append(lambda: conversation.send("be short", **steer))
    conversation.decide()
    conversation.decide()
    cut, after = conversation.model.requests
    assert conversation.entries(Decided)[2].interrupted
    assert (ARTIFACTS in digest_of(cut), ARTIFACTS in digest_of(after)) == (True, False)
    assert "[FINALIZE]" in digest_of(after)


def test_a_text_of_a_shelf_that_is_staged_cites_nothing_that_is_not_in_the_pool():
    conversation = JournalConversation()
    guide = Shelved(text="Label axes [[S:1]].", path="sk:lab.guide", sources=(WEB,))
    conversation.agent = dataclasses.replace(conversation.agent, shelves={"sk": {"sk:lab.guide": guide}.get})
    conversation.made("sk:lab.guide")
    text = digest_of(conversation.asked())
    assert "  Label axes .\n" in text
    assert conversation.timeline().sources == {}
