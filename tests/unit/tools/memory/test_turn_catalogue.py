from __future__ import annotations

import pytest

from stepline.log.owned_conversations import OwnedConversations
from stepline.protocol.decision.read import read_decision
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import read_channels
from stepline.tools.memory import memsearch
from tests.support.generation import answered, called

from .remembered_conversation import RememberedConversation, codes_of, elsewhere, turns_of

DAY = 86_400.0


@pytest.fixture
def conversation() -> RememberedConversation:
    made = RememberedConversation()
    made.memory = None  # what is listed needs no index
    return made


def three(conversation: RememberedConversation) -> list[str]:
    turns = []
    for animal in ("otters", "herons", "voles"):
        turns.append(conversation.turn(f"tell me of {animal}", f"{animal} live by the river"))
        conversation.clock.pause(DAY)
    return turns


def test_a_timeline_lists_closed_turns_in_order_with_number_and_subject(conversation):
    turns = three(conversation)
    result = conversation.search(mode="timeline")
    assert (result["mode"], result["total_turns"], turns_of(result)) == ("timeline", 3, turns)
    first = result["hits"][0]
    assert (first["ordinal"], first["matched_via_role"], first["outcome"]) == (1, "turn_catalog", "completed")
    assert "tell me of otters" in first["about"]
    assert first["started_at"] <= first["ended_at"]
    assert [(snippet["role"], snippet.get("text")) for snippet in first["snippets"]] == [
        ("summary", None),
        ("user", "tell me of otters"),
        ("assistant", "otters live by the river"),
    ]


def test_the_newest_turns_are_listed_first_on_request_up_to_the_limit(conversation):
    turns = three(conversation)
    result = conversation.search(mode="catalog", order="desc", top_k=2, targets=["user"])
    assert (result["mode"], turns_of(result)) == ("catalog", [turns[2], turns[1]])
    assert [hit["ordinal"] for hit in result["hits"]] == [3, 2]


# The calls of the design, as it writes them.
@pytest.mark.parametrize(
    "params",
    [
        {"query": "otters", "targets": ["assistant", "user"], "top_k": 5, "days": 30},
        {"query": "otters", "targets": ["summary", "user", "assistant", "attachment"]},
        {"mode": "timeline", "targets": ["summary"], "order": "asc", "top_k": 3},
        {"mode": "ordinal", "ordinal": 2, "targets": ["summary", "user", "assistant"]},
        {
            "mode": "temporal",
            "from": "2026-03-01T00:00:00Z",
            "to": "2026-04-01T00:00:00Z",
            "targets": ["summary", "user", "assistant"],
        },
    ],
)
def test_a_call_writes_its_parameters_in_any_order_without_a_notice(params):
    rules = RoundRules(
        tools={memsearch.MEMSEARCH.tool_id: memsearch.MEMSEARCH},
        allowed={memsearch.MEMSEARCH.tool_id},
        call_id="tc_{}".format,
        turn="turn_1",
    )
    for written in (params, dict(reversed(params.items()))):
        verdict = read_decision(read_channels(called("react.memsearch", written)), rules)
        assert (verdict.accepted, verdict.notices) == (True, ())


def test_a_turn_is_found_by_its_number(conversation):
    turns = three(conversation)
    result = conversation.search(ordinal=2)
    assert (result["mode"], turns_of(result)) == ("ordinal", [turns[1]])
    result = conversation.search(ordinal=4)
    assert (result["hits"], result["message"]) == ([], "nothing was found")


def test_bounds_without_a_query_list_and_number_the_turns_between_them(conversation):
    turns = three(conversation)
    begun = [turn.started_at for turn in conversation.folded().history]
    result = conversation.search(**{"from": begun[1], "to": begun[2]})
    assert (result["mode"], turns_of(result)) == ("temporal", [turns[1]])
    assert (result["hits"][0]["ordinal"], result["total_turns"]) == (1, 1)
    day = begun[1][:10]
    assert turns_of(conversation.search(mode="temporal", start_at=day)) == turns[1:]


@pytest.mark.parametrize("written", ["yesterday", "2026-13-01", "20261"])
def test_an_invalid_time_bound_is_refused(conversation, written):
    three(conversation)
    assert conversation.refused(**{"from": written}) == "bad_time"


def test_an_unused_query_of_a_list_is_reported(conversation):
    turns = three(conversation)
    result = conversation.search(query="voles", ordinal=1)
    assert (turns_of(result), codes_of(result)) == ([turns[0]], ["query_ignored"])


def test_an_invalid_mode_is_reported_and_the_other_parameters_decide(conversation):
    turns = three(conversation)
    result = conversation.search(mode="latest", ordinal=3)
    assert (result["mode"], turns_of(result), codes_of(result)) == ("ordinal", [turns[2]], ["mode_unknown"])


def test_a_turn_without_the_requested_targets_is_left_out(conversation):
    three(conversation)
    assert conversation.search(mode="timeline", targets=["attachment"])["hits"] == []


def test_a_listed_turn_has_the_same_notes_as_a_search(conversation):
    note = {"path": "outputs/note.md", "channel": "internal", "content": "[P] tea", "scratchpad": True}
    conversation.model.add(called("react.write", note, notes="I write it down"), answered("noted"))
    conversation.send("I drink tea", id="m1")
    conversation.run()
    (hit,) = conversation.search(mode="timeline", targets=["notes"])["hits"]
    (snippet,) = hit["snippets"]
    assert (snippet["role"], snippet["text"]) == ("notes", "[P] tea")
    assert snippet["path"].endswith("/note.md")
    conversation.memory = conversation.ports.memory
    (found,) = conversation.search(query="tea", targets=["notes"])["hits"]
    assert found["snippets"][0]["path"] == snippet["path"]


def test_a_turn_that_runs_is_not_listed(conversation):
    turns = three(conversation)
    conversation.send("and now?", id="m99")
    assert turns_of(conversation.search(mode="timeline")) == turns


def test_only_the_users_conversations_are_listed_together(conversation):
    first = conversation.turn("one", "yes")
    conversation.clock.pause(60)
    second = conversation.turn("two", "yes", lane=elsewhere("c-2"))
    conversation.clock.pause(60)
    conversation.turn("theirs", "yes", lane=elsewhere("c-3"), user="eve")
    conversation.turn("another project", "yes", lane=elsewhere("c-2", project="sales"))
    third = conversation.turn("three", "yes")
    result = conversation.search(mode="timeline", scope="user")
    assert turns_of(result) == [first, second, third]
    assert [hit.get("conversation_id") for hit in result["hits"]] == [None, "c-2", None]
    assert turns_of(conversation.search(mode="timeline")) == [first, third]
    hit = result["hits"][1]
    assert hit["turn_index_path"] == f"ar:conv_c-2.{second}.react.turn.index"
    read = conversation.call("react.read", {"paths": [s["path"] for s in hit["snippets"]]})
    assert '"missing"' not in read.blocks[0].text


def test_older_conversations_are_skipped_and_that_is_reported(conversation, monkeypatch):
    monkeypatch.setattr(memsearch, "OTHERS_MAX", 2)
    mine = conversation.turn("here", "yes")
    others = []
    for name in ("c-2", "c-3", "c-4"):
        conversation.clock.pause(60)
        others.append(conversation.turn(name, "yes", lane=elsewhere(name)))
    result = conversation.search(mode="timeline", scope="user", top_k=9)
    assert turns_of(result) == [mine, *others[1:]]
    assert codes_of(result) == ["older_conversations_not_listed"]


def test_without_an_owner_there_is_no_other_conversation(conversation):
    conversation.turn("here", "yes", lane=elsewhere("c-2"))
    unowned = OwnedConversations(conversation.ports, conversation.history, elsewhere("c-9"), "")
    assert unowned.find("c-2") is None
    assert unowned.newest(5) == ((), False)
