"""The memory index on the stage: what one conversation said is found by another one of the same user, and read."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from stepline.api.memory_search import SearchRequest
from stepline.local.client.api_transport import ApiError
from stepline.local.client.http_api import HttpApi
from stepline.local.stage.lifecycle import mint
from tests.e2e.stage import a_word, answer_of

pytestmark = pytest.mark.emulator


def test_another_conversation_is_found_by_other_words_and_read(scripted, conversation):
    word = a_word()
    scripted.send(f"The physician told us to drink more water, {word}.", conversation)
    other = f"{conversation}-2"
    lines = scripted.send("What did we say about advice of the doctor in any conversation?", other)
    (turn,) = set(re.findall(rf"ar:conv_{conversation}\.turn_\w+", answer_of(lines)))
    assert word in answer_of(scripted.send(f"Read {turn}.user.prompt", other))


def test_an_index_that_is_made_anew_finds_the_same(scripted, conversation):
    asked = "What did we say about nests of herons in any conversation?"
    scripted.send("Grey herons breed in spring.", conversation)
    before = answer_of(scripted.send(asked, f"{conversation}-2"))
    assert f"conv_{conversation}." in before
    rebuilt = scripted.command("memory", "rebuild", "--user", scripted.user)
    assert "2 conversations" in rebuilt.stderr
    assert f"conv_{conversation}." in answer_of(scripted.send(asked, f"{conversation}-3"))


def test_a_conversation_is_found_over_http_by_its_user_alone(scripted, conversation):
    word = a_word()
    scripted.send(f"The physician told us to drink more water, {word}.", conversation)
    deployed = scripted.deployed
    with closing(HttpApi(deployed.api_url, lambda: mint(deployed, scripted.user))) as api:
        first = api.search(q=f"{word} water", kind="user").items[0]
        assert (first.conversation, first.kind) == (conversation, "user")
        assert [piece.text for piece in first.excerpt if piece.hit] == ["water", word]
        found = api.search_project("local", "default", SearchRequest(query=word))
        assert conversation in found.conversations
    with closing(HttpApi(deployed.api_url, lambda: mint(deployed, f"{scripted.user}-2"))) as stranger:
        assert stranger.search(q=word).items == ()
        with pytest.raises(ApiError) as error:
            stranger.search(q=word, conversation=conversation)
    assert (error.value.status, error.value.reason) == (404, "not_found")
