"""`/edit` and `/again` of the terminal chat: the branch that they make, and the messages that are sent there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from stepline.errors import InputError
from stepline.local.branching import branch_before_message, branch_before_turn
from stepline.local.client.http_api import HttpApi
from stepline.model.wire.event import PongFrame, SyncFrame
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called
from tests.unit.local.client.answering_gateway import Agent
from tests.unit.local.terminal.test_terminal_chat import Talk, TypedInput

NEWEST = 5
"""The newest event of each conversation on the remote end."""


class JoinedAgent(Agent):
    """Answers in conversations that exist already."""

    def __call__(self, request):
        if request["action"] not in ("ping", "resume"):
            return super().__call__(request)
        if request["action"] == "ping":
            self.conversation, self.n = request["conversation"], NEWEST
            return [PongFrame(conversation=self.conversation, n=self.n)]
        return [SyncFrame(conversation=self.conversation, n=self.n, claim=0, open=False)]


@pytest.fixture
def talked() -> Conversation:
    conversation = Conversation(*[answered(f"answer {n}") for n in range(6)])
    for text in ("one", "two"):
        conversation.send(text, id=f"m-{text}")
        conversation.run()
    return conversation


@pytest.fixture
def address(talked: Conversation) -> Iterator[str]:
    with served(ApiServer(Caller(talked.ports))) as url:
        yield url


@pytest.fixture
def api(address: str) -> Iterator[HttpApi]:
    api = HttpApi(address, lambda: TOKEN)
    yield api
    api.close()


def test_the_last_message_is_replaced_in_a_branch(api: HttpApi, talked: Conversation) -> None:
    branch = branch_before_message(api, "c-1", "three")
    assert branch.texts == ("three",)
    assert branch.begun == talked.timeline().history[0].closed + 1
    assert [one.conversation for one in api.list_branches("c-1").items] == ["c-1", branch.conversation]


def test_an_earlier_message_is_named_by_its_id(api: HttpApi) -> None:
    branch = branch_before_message(api, "c-1", "@m-one something else")
    assert (branch.texts, branch.begun) == (("something else",), 1)
    for text in ("@m-none hello", "@m-one"):
        assert branch_before_message(api, "c-1", text).texts == (text,)


def test_the_messages_of_the_last_turn_are_sent_again(api: HttpApi, talked: Conversation) -> None:
    lane = replace(LANE, conversation="c-2")
    talked.send("first", id="m-first", lane=lane)
    talked.send("second", id="m-second", lane=lane)
    talked.run()
    branch = branch_before_turn(api, "c-2")
    assert (branch.texts, branch.begun) == (("first", "second"), 1)
    assert branch_before_turn(api, "c-1").texts == ("two",)


def test_the_calls_whose_effects_stay_are_named() -> None:
    conversation = Conversation(
        called("react.write", {"path": "outputs/a.md", "channel": "canvas", "content": "# A"}),
        answered("Done."),
    )
    conversation.send("write", id="m-write")
    conversation.run()
    with served(ApiServer(Caller(conversation.ports))) as url, closing(HttpApi(url, lambda: TOKEN)) as api:
        branch = branch_before_turn(api, "c-1")
    assert [line.split()[0] for line in branch.kept] == ["react.write"]


def test_without_a_message_there_is_nothing_to_send_again(api: HttpApi, talked: Conversation) -> None:
    branch = branch_before_turn(api, "c-1")
    first = branch_before_message(api, branch.conversation, "three")
    for again in (branch_before_turn, lambda api, name: branch_before_message(api, name, "four")):
        with pytest.raises(InputError) as refused:
            again(api, first.conversation)
        assert refused.value.reason == "fork_point_not_found"


@pytest.mark.parametrize(("line", "text"), [("/edit three", "three"), ("/again", "two")])
def test_the_chat_enters_the_branch_and_sends_the_message(
    line: str, text: str, address: str, talked: Conversation, tmp_path
) -> None:
    here = Talk(tmp_path, TypedInput(line), open_api=lambda: HttpApi(address, lambda: TOKEN))
    here.far.script = here.agent = JoinedAgent()
    assert here.chat.run("c-1") == 0
    assert here.agent.heard == [("prompt", text)]
    (row,) = talked.ports.log.forks(LANE)
    assert f"conversation {row.conversation}, event {NEWEST}" in here.noted


def test_a_branch_is_made_between_two_turns_only(address: str, talked: Conversation, tmp_path) -> None:
    here = Talk(tmp_path, TypedInput("go", meanwhile=["/again", "more"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert any("/again works between two turns" in line for line in here.noted)
    assert talked.ports.log.forks(LANE) == []
