"""Rounds in the layout `journal`: staged contents are in the next request of the turn, and in no other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.model import TRIES, Fail
from stepline.context.journal.render_journal import LOG_HEADER
from stepline.context.journal.staged_text import ARTIFACTS, SKILLS
from stepline.errors import ContextLimit, ModelRefused, ModelTimeout
from stepline.log.timeline_cache import History
from stepline.loop.staging.materialise import NO_ROOM
from stepline.model.entry import Compacted, Compacting, Decided, Pruned, Resulted
from stepline.tools.context import ReadCaps
from tests.support.conversation import LANE, closings, files_of, text_of
from tests.support.files import PDF, pdf, picture
from tests.support.generation import BROKEN, answered, called
from tests.support.journal_conversation import (
    LIST,
    NOTHING,
    TABLE,
    JournalConversation,
    digest_of,
    names_of,
    system_of,
)

CHART, MAP, SKY = (f"fi:<turn>.outputs/{name}.png" for name in ("chart", "map", "sky"))
CITIES = "fi:<turn>.outputs/cities.csv"
RED, GREEN, BLUE = (picture(color=color) for color in ((255, 0, 0), (0, 255, 0), (0, 0, 255)))


def test_the_system_part_has_three_blocks_and_the_last_is_not_cached():
    conversation = JournalConversation()
    conversation.send()
    request = conversation.asked()
    assert [part.cache for part in request.system] == [True, True, False]
    first, second, third = system_of(request)
    assert "What you read" in first
    assert second.index("[AVAILABLE COMMON TOOLS]") < second.index("[AVAILABLE INFRASTRUCTURE TOOLS]")
    assert "## react.read" in second[second.index("[AVAILABLE INFRASTRUCTURE TOOLS]") :]
    assert "TIME EVIDENCE" in third


def test_staged_contents_are_in_the_next_request_only():
    conversation = JournalConversation()
    turn = conversation.made(CHART, CITIES)
    shown, after = conversation.asked(), conversation.asked()
    text = digest_of(shown)
    assert text.index(ARTIFACTS) > text.index(LOG_HEADER)
    assert f"### fi:{turn}.outputs/chart.png [artifact]" in text
    assert "  city 399,399\n" in text
    assert "format=csv, mime=text/csv" in text
    assert names_of(shown) == ["chart.png"]
    assert ARTIFACTS not in digest_of(after)
    assert "city 399" not in digest_of(after)
    assert files_of(after) == []


def test_a_staged_skill_is_in_the_system_part_once_after_its_imports():
    conversation = JournalConversation(called(LIST, show_skills=["lab.charts", "sk:lab.colours"]))
    conversation.send()
    conversation.rounds()
    shown, after = conversation.asked(), conversation.asked()
    _, tools, _ = system_of(shown)
    at = tools.index(SKILLS)
    assert tools.index("[AVAILABLE COMMON TOOLS]") < at < tools.index("[AVAILABLE INFRASTRUCTURE TOOLS]")
    assert tools.index("No more than five.") < tools.index("Label both axes")
    assert tools.count("No more than five.") == 1
    assert "[[S:1]]" not in tools
    assert SKILLS not in system_of(after)[1]
    assert system_of(shown)[0] == system_of(after)[0]


@pytest.mark.parametrize(
    ("skill", "why"),
    [("lab.none", "there is no such skill"), ("lab.charts/axes.png", "name it in show_artifacts")],
)
def test_a_skill_that_cannot_be_shown_says_why(skill: str, why: str):
    conversation = JournalConversation(called(LIST, show_skills=[skill]))
    conversation.send()
    conversation.rounds()
    _, tools, _ = system_of(conversation.asked())
    assert f"### sk:{skill} [skill]" in tools
    assert why in tools


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("fi:<turn>.outputs/none.csv", "not_found: nothing stands at this path"),
        ("fi:turn_20200101T000000_000000.outputs/a.csv", "turn_not_found"),
        ("so:sources_pool[4]", "the source pool has no row 4"),
        ("ks:guide.md", "family_not_available"),
        ("tc:<turn>.tc_000000000000.view.3", "nothing stands at this path"),
    ],
)
def test_a_missing_content_is_replaced_by_the_reason(path: str, why: str):
    conversation = JournalConversation()
    turn = conversation.made(path)
    text = digest_of(conversation.asked())
    assert f"### {path.replace('<turn>', turn)} [artifact]" in text
    assert why in text[text.index(ARTIFACTS) :]


def test_a_request_has_at_most_two_pictures_and_the_third_says_why():
    conversation = JournalConversation()
    conversation.made(CHART, MAP, SKY, CHART)
    request = conversation.asked()
    assert names_of(request) == ["chart.png", "map.png"]
    assert f"content: not shown: {NO_ROOM}" in digest_of(request)


def test_a_part_of_a_read_can_be_staged_by_its_path():
    conversation = JournalConversation()
    turn = conversation.made()
    items = [{"path": f"fi:{turn}.outputs/cities.csv", "line_start": 390, "line_count": 3}]
    conversation.asked(script=called("react.read", {"items": items}))
    view = conversation.entries(Resulted)[-1].blocks[-1].path
    conversation.asked(script=called(LIST, show_artifacts=[view]))
    request = conversation.asked()
    assert f"### {view} [artifact]" in digest_of(request)
    assert "city 389,389" in digest_of(request)
    assert "city 395" not in digest_of(request)


def test_a_read_shows_again_what_no_request_of_this_layout_shows_whole():
    conversation = JournalConversation()
    turn = conversation.made()
    for _ in range(2):
        conversation.asked(script=called("react.read", {"paths": [f"fi:{turn}.outputs/cities.csv"]}))
    first, second = conversation.entries(Resulted)[-2:]
    assert first.blocks[-1].text == second.blocks[-1].text == TABLE
    assert "exists_in_visible_context" not in second.blocks[0].text


def test_a_long_content_is_cut_like_a_read_and_says_how_to_continue():
    conversation = JournalConversation(caps=ReadCaps(max_chars=300))
    conversation.made(CITIES)
    text = digest_of(conversation.asked())
    assert "[READ PREVIEW TRUNCATED]" in text
    assert "city 399" not in text


def test_attachments_are_in_every_round_of_their_turn():
    conversation = JournalConversation()
    files = (*conversation.attach(RED, GREEN), *conversation.attach(pdf(), mime=PDF))
    conversation.send("look", attachments=files)
    for _ in range(2):
        request = conversation.asked()
        assert names_of(request) == ["0.png", "1.png", "0.pdf"]
    conversation.asked(script=answered("Seen."))
    conversation.run()
    conversation.send("and now", id="m9")
    assert files_of(conversation.asked()) == []


def test_the_newest_attachments_are_shown_and_the_others_say_how_to_see_them():
    conversation = JournalConversation()
    conversation.send("look", attachments=conversation.attach(RED, GREEN, BLUE))
    request = conversation.asked()
    assert names_of(request) == ["1.png", "2.png"]
    assert f"0.png | {NO_ROOM}" in text_of(request)


def test_staged_pictures_precede_attachments_and_appear_once():
    conversation = JournalConversation()
    conversation.send("look", attachments=conversation.attach(RED, GREEN))
    turn = conversation.state.turn
    staged = [f"fi:{turn}.user.attachments/0.png"]
    conversation.asked(script=called(LIST, show_artifacts=staged))
    assert names_of(conversation.asked()) == ["1.png", "0.png"]


def test_a_refused_request_is_sent_once_more_without_its_files():
    conversation = JournalConversation()
    conversation.made(CHART)
    conversation.model.add(Fail(error=ModelRefused("no")))
    request = conversation.asked()
    assert files_of(request) == []
    assert "the model's provider refused the request with it" in text_of(request)
    assert names_of(conversation.model.requests[-2]) == ["chart.png"]


def test_a_refused_request_without_files_closes_the_turn():
    conversation = JournalConversation(Fail(error=ModelRefused("no")))
    conversation.send()
    conversation.run()
    assert [closing.code for closing in closings(conversation)] == ["model_refused"]


def test_a_request_that_is_too_large_is_asked_again_with_less_of_the_turns_before():
    conversation = JournalConversation()
    for n in range(12):
        conversation.talk(f"topic {n} " + "word " * 600)
    conversation.send("now", id="last")
    conversation.model.add(*[Fail(error=ContextLimit("too long"))] * 2)
    conversation.asked()
    sizes = [len(text_of(request)) for request in conversation.model.requests[-3:]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < sizes[0]
    assert [*conversation.entries(Pruned), *conversation.entries(Compacted)] == []


def test_a_request_that_never_gets_small_enough_closes_the_turn():
    conversation = JournalConversation(*[Fail(error=ContextLimit("too long"))] * 4)
    conversation.send()
    conversation.run()
    assert [closing.code for closing in closings(conversation)] == ["context_limit"]


def test_the_attempt_after_a_killed_one_stages_the_same():
    conversation = JournalConversation()
    conversation.made(CITIES)
    step = conversation.now()
    conversation.model.add(*[Fail(error=ModelTimeout("busy"))] * TRIES)
    with pytest.raises(ModelTimeout):
        conversation.decide(step)
    conversation.history = History()
    conversation.model.add(NOTHING)
    conversation.decide(replace(step, attempt=1))
    first, second = conversation.model.requests[-2:]
    assert digest_of(first) == digest_of(second)
    assert ARTIFACTS in digest_of(second)


def test_a_request_with_a_refused_answer_uses_up_staged_contents():
    conversation = JournalConversation()
    conversation.made(CITIES)
    assert ARTIFACTS in digest_of(conversation.asked(script=BROKEN))
    assert ARTIFACTS not in digest_of(conversation.asked())


def test_staged_contents_do_not_cross_turns():
    conversation = JournalConversation()
    conversation.made(CITIES)
    conversation.asked(script=answered("Here."))
    conversation.run()
    conversation.send("and now", id="m9")
    assert ARTIFACTS not in digest_of(conversation.asked())


def test_the_last_round_has_the_wrap_up_block_at_the_end_of_block_b():
    conversation = JournalConversation(max_iterations=2)
    conversation.send()
    first, last = conversation.asked(), conversation.asked(script=answered("Done."))
    assert "# Wrap-up" not in system_of(first)[1]
    assert system_of(last)[1].rstrip().endswith("sources that the journal shows.")
    assert "LAST ROUND" in digest_of(last)


def test_a_conversation_may_change_its_layout_between_turns():
    conversation = JournalConversation()
    conversation.made(CITIES)
    conversation.asked(script=answered("Here."))
    conversation.run()
    conversation.agent = conversation.timeline_agent
    conversation.talk("timeline")
    conversation.agent = conversation.journal
    conversation.talk("journal")
    kinds = [sent.layout for sent in conversation.sent()]
    assert kinds == ["journal"] * 3 + ["timeline", "journal"]
    assert "TURN turn_" in text_of(conversation.model.requests[3])
    assert "About timeline." in digest_of(conversation.model.requests[4])


def test_in_the_layout_timeline_a_decision_stages_nothing():
    conversation = JournalConversation(
        called(LIST, show_artifacts=["so:sources_pool[1]"], show_skills=["a.b"])
    )
    conversation.agent = conversation.timeline_agent
    conversation.send()
    conversation.rounds()
    (decided,) = conversation.entries(Decided)
    assert (decided.show_artifacts, decided.show_skills, decided.notices) == ((), (), ())


def test_a_reference_may_name_content_of_the_log():
    conversation = JournalConversation()
    turn = conversation.made()
    params = {"path": "outputs/copy.csv", "content": f"ref:fi:{turn}.outputs/cities.csv", "kind": "file"}
    conversation.asked(script=called("react.write", params))
    (copy,) = [
        block for block in conversation.entries(Resulted)[-1].blocks if block.path.endswith("copy.csv")
    ]
    assert (copy.text or conversation.ports.artifacts.get(copy.body.key).decode()) == TABLE


def test_a_compaction_that_began_in_the_other_layout_is_ended():
    conversation = JournalConversation()
    conversation.send()
    turn = conversation.state.turn
    begun = Compacting(
        id="c1",
        turn=turn,
        at="2026-11-21T10:00:00.000Z",
        scope="history",
        trigger="forced",
        before_tokens=90_000,
        max_tokens=80_000,
    )
    conversation.log.put(LANE, replace(conversation.tail, n=conversation.tail.n + 1, entries=(begun,)))
    conversation.asked()
    (ended,) = conversation.entries(Compacted)
    assert (ended.status, ended.reason) == ("skipped", "not_needed")


def test_an_agent_of_the_other_layout_has_one_system_block():
    conversation = JournalConversation()
    conversation.agent = conversation.timeline_agent
    conversation.send()
    assert len(conversation.asked().system) == 1
