"""`stepline fork` and `stepline delete --cascade`, on an API on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepline.local import caller
from stepline.local.command.cli import main
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

Run = Callable[..., Result]


@pytest.fixture
def talk() -> Conversation:
    conversation = Conversation(answered("One."), answered("Two."))
    for text in ("one", "two"):
        conversation.send(text, id=f"m-{text}")
        conversation.run()
    return conversation


@pytest.fixture
def run(talk: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with served(ApiServer(Caller(talk.ports))) as url:
        here = caller.Caller(url="", user=USER, home=tmp_path, token=lambda: TOKEN, api_url=url)
        monkeypatch.setattr(caller, "find_caller", lambda *_, **__: here)
        yield lambda *words: CliRunner().invoke(main, words)


def test_a_conversation_is_forked_at_a_batch(run: Run, talk: Conversation) -> None:
    made = run("fork", LANE.conversation, "--at", "3", "--name", "f-1", "--title", "Another way")
    assert (made.exit_code, made.stdout) == (0, "f-1\n")
    assert "the batches of c-1 up to 3; continue with: " in made.stderr
    again = run("fork", LANE.conversation, "--at", "3", "--name", "f-1", "--json")
    assert json.loads(again.stdout) == {
        "conversation": "f-1",
        "origin": "c-1",
        "n": 3,
        "branch_of": "",
        "title": "Another way",
    }


def test_a_fork_begins_before_a_message_or_after_a_turn(run: Run, talk: Conversation) -> None:
    first = talk.timeline().history[0]
    for point in (("--message", "m-two", "--before"), ("--turn", first.id)):
        made = json.loads(run("fork", LANE.conversation, *point, "--json").stdout)
        assert made["n"] == first.closed
        assert made["conversation"].startswith("chat-")


@pytest.mark.parametrize("words", [(), ("--at", "1", "--turn", "turn_1"), ("--before",)])
def test_one_point_is_named(run: Run, words: tuple[str, ...]) -> None:
    refused = run("fork", LANE.conversation, *words)
    assert refused.exit_code == 2
    assert "name one point" in refused.stderr


def test_a_point_that_is_absent_is_refused_with_its_code(run: Run, talk: Conversation) -> None:
    refused = run("fork", LANE.conversation, "--at", "99")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "fork_beyond_end" in refused.stderr
    missing = run("fork", "none", "--at", "1")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert talk.ports.log.forks(LANE) == []


def test_forks_are_deleted_with_their_conversation_on_request(run: Run) -> None:
    run("fork", LANE.conversation, "--at", "3")
    refused = run("delete", LANE.conversation, "--yes")
    assert refused.exit_code == 1
    assert "has_forks" in refused.stderr
    deleted = run("delete", LANE.conversation, "--yes", "--cascade")
    assert deleted.exit_code == 0, deleted.output
