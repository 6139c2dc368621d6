"""Requests in the layout `journal`, rendered again from the log and what is stored beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced

from stepline.adapters.memory.model import Fail
from stepline.context.journal.current_turn import OPTIONAL, SECTIONS
from stepline.errors import ContextLimit, DependencyError, ModelRefused
from stepline.inspection.request_diff import diff_requests
from stepline.inspection.request_view import conceal_system, read_request
from stepline.inspection.sent_request import read_upto, render_sent
from stepline.log.journal import Journal
from stepline.model.path import out_key
from stepline.timeline.fold import Timeline
from stepline.tools.context import Shelved
from tests.support.conversation import LANE, files_of
from tests.support.generation import answered, called
from tests.support.journal_conversation import LIST, SKILLS, JournalConversation, digest_of, system_of
from tests.unit.inspection.test_sent_request import decided, rendered_again

CHART, CITIES = "fi:<turn>.outputs/chart.png", "fi:<turn>.outputs/cities.csv"


def staged_turn() -> JournalConversation:
    """Return a turn that stages a picture, a table and a skill, and its request with them."""
    conversation = JournalConversation()
    conversation.made(CHART, CITIES)
    conversation.asked(script=called(LIST, show_skills=["lab.charts"]))
    conversation.asked(script=answered("Here."))
    conversation.run()
    return conversation


def test_the_log_renders_each_round_of_a_turn_with_staged_contents():
    conversation = staged_turn()
    requests = rendered_again(conversation, conversation.model.requests)
    assert [len(files_of(request)) for request in requests] == [0, 0, 1, 0]
    assert ["Label both axes" in system_of(request)[1] for request in requests] == [False, False, False, True]


def test_later_changes_do_not_change_a_sent_request():
    conversation = staged_turn()
    changed = {**SKILLS, "sk:lab.charts": Shelved(text="Other words.", path="sk:lab.charts")}
    conversation.agent = replace(conversation.agent, shelves={"sk": changed.get})
    conversation.talk("more")
    conversation.agent = conversation.timeline_agent
    conversation.talk("and in the other layout")
    conversation.agent = conversation.journal
    conversation.talk("and back")
    assert len(rendered_again(conversation, conversation.model.requests)) == 7


def test_the_log_renders_requests_without_files_and_reduced_requests():
    conversation = JournalConversation()
    conversation.send("look", attachments=conversation.attach(b"no picture"))
    conversation.model.add(Fail(error=ModelRefused("no")))
    conversation.asked()
    conversation.model.add(*[Fail(error=ContextLimit("long"))] * 2)
    conversation.asked()
    assert len(rendered_again(conversation, conversation.model.requests)) == 2


def test_the_announcements_of_a_bundle_are_kept_with_the_round():
    conversation = JournalConversation()
    lines = iter(["one left", "none left"])
    conversation.agent = replace(conversation.agent, announced=lambda: (next(lines),))
    conversation.send()
    conversation.asked()
    conversation.clock.pause(77)
    conversation.asked()
    first, second = rendered_again(conversation, conversation.model.requests)
    assert "one left" in first.content[1].text
    assert "none left" in second.content[1].text


def test_the_view_of_a_request_says_what_its_parts_are():
    conversation = staged_turn()
    view = read_request(Journal(conversation.ports, LANE, "test"), decided(conversation)[2])
    assert view.equal
    assert [part.role for part in view.parts] == ["system"] * 3 + ["journal", "file", "file"]
    assert [part.mark for part in view.parts] == [True, True, False, True, False, False]
    pieces = view.parts[3].pieces
    assert "".join(piece.text for piece in pieces) == digest_of(conversation.model.requests[2])
    assert len(pieces) == 1 + 1 + len(SECTIONS) - len(OPTIONAL) + 3
    concealed = conceal_system(view)
    assert [piece.text for part in concealed.parts[:3] for piece in part.pieces] == ["", "", ""]


def test_two_requests_of_a_journal_are_compared_section_by_section():
    conversation = staged_turn()
    journal = Journal(conversation.ports, LANE, "test")
    first, second = (read_request(journal, n) for n in decided(conversation)[:2])
    diff = diff_requests(first, second)
    same = [piece.text for run in diff.runs if run.op == "same" for piece in run.pieces]
    assert sum(run.op == "same" for run in diff.runs) > 1
    changed = [
        piece.text.partition("\n")[0] for run in diff.runs if run.op == "changed" for piece in run.pieces
    ]
    assert "[SOLVER.REACT.EVENTS (oldest -> newest)]" in changed
    assert "[GATE]" not in changed
    assert set(same) <= {""}


def test_two_requests_are_compared_though_their_layouts_differ():
    conversation = staged_turn()
    conversation.agent = conversation.timeline_agent
    conversation.talk("again")
    journal = Journal(conversation.ports, LANE, "test")
    first, *_, last = decided(conversation)
    diff = diff_requests(read_request(journal, first), read_request(journal, last))
    assert diff.first_difference is not None


def test_changed_staged_contents_are_an_error():
    conversation = staged_turn()
    batches = read_upto(Journal(conversation.ports, LANE, "test"), decided(conversation)[2])
    key = out_key(LANE, batches[-1].state.turn, conversation.sent()[2].staged)
    conversation.ports.artifacts.replace(key, b"{}", mime="application/json")
    with pytest.raises(DependencyError) as refused:
        read_request(Journal(conversation.ports, LANE, "test"), decided(conversation)[2])
    assert refused.value.reason == "body_mismatch"


def test_a_request_of_an_older_release_is_not_called_equal():
    conversation = staged_turn()
    batches = read_upto(Journal(conversation.ports, LANE, "test"), decided(conversation)[0])
    timeline = Timeline.empty(LANE).extended(batches[: batches[-1].state.rendered])
    newest = batches[-1]
    entries = tuple(
        replaced(entry, sent=replaced(entry.sent, digest="0" * 64)) if getattr(entry, "sent", None) else entry
        for entry in newest.entries
    )
    assert not render_sent(timeline, replaced(newest, entries=entries), system="no blocks").equal
