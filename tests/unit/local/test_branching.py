"""`/edit` and `/again` of the terminal chat: the branch that they make, and the messages that are sent there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from msgspec.structs import replace

from stepline.errors import InputError
from stepline.local.branching import (
    MessageToSend,
    NewBranch,
    SentMessage,
    branch_before_message,
    branch_before_turn,
)
from stepline.local.client.http_api import HttpApi
from stepline.local.client.uploader import Uploader
from stepline.model.wire.event import PongFrame, SyncFrame
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called
from tests.support.upload_server import upload_server
from tests.unit.ingress.test_uploaded_attachment import Files
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


def texts(branch: NewBranch) -> tuple[str, ...]:
    return tuple(message.text for message in branch.messages)


def with_file() -> Files:
    """Return a conversation whose message has a file."""
    files = Files(answered("Seen."))
    files.take(files.upload())
    files.conversation.run()
    return files


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
    assert texts(branch) == ("three",)
    assert branch.begun == talked.timeline().history[0].closed + 1
    assert [one.conversation for one in api.list_branches("c-1").items] == ["c-1", branch.conversation]


def test_an_earlier_message_is_named_by_its_id(api: HttpApi) -> None:
    branch = branch_before_message(api, "c-1", "@m-one something else")
    assert (texts(branch), branch.begun) == (("something else",), 1)
    for text in ("@m-none hello", "@m-one"):
        assert texts(branch_before_message(api, "c-1", text)) == (text,)


def test_the_messages_of_the_last_turn_are_sent_again(api: HttpApi, talked: Conversation) -> None:
    lane = replace(LANE, conversation="c-2")
    talked.send("first", id="m-first", lane=lane)
    talked.send("second", id="m-second", lane=lane)
    talked.run()
    branch = branch_before_turn(api, "c-2")
    assert (texts(branch), branch.begun) == (("first", "second"), 1)
    assert texts(branch_before_turn(api, "c-1")) == ("two",)


@pytest.mark.parametrize(
    ("branch_off", "text"),
    [
        (branch_before_turn, "see this"),
        (lambda api, name: branch_before_message(api, name, "other"), "other"),
    ],
)
def test_the_files_of_a_message_are_named_by_their_paths(branch_off, text: str) -> None:
    conversation = with_file().conversation
    with served(ApiServer(Caller(conversation.ports))) as url, closing(HttpApi(url, lambda: TOKEN)) as api:
        (message,) = branch_off(api, "c-1").messages
    turn = conversation.timeline().turns[-1]
    assert message == MessageToSend(text=text, files={f"fi:{turn}.user.attachments/a.csv": "a.csv"})


def test_files_without_a_known_path_are_not_left_out_silently() -> None:
    with pytest.raises(InputError) as refused:
        SentMessage(id="m-1", n=1, text="see this", files={"": "a.csv"}).with_text("see this")
    assert refused.value.reason == "bad_attachment"


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


def test_a_message_with_a_file_is_sent_again_with_its_file_only(tmp_path) -> None:
    conversation = with_file().conversation
    turn = conversation.timeline().turns[-1]
    (tmp_path / "b.csv").write_text("a,b\n")
    there = Conversation().ports
    with (
        upload_server(there) as server,
        closing(HttpApi(server.url, lambda: TOKEN)) as uploads,
        served(ApiServer(Caller(conversation.ports))) as address,
    ):
        here = Talk(
            tmp_path,
            TypedInput(f"/attach {tmp_path}/b.csv", "/again", "and now?"),
            open_uploader=partial(Uploader, uploads, there.clock, report=lambda _: None),
            open_api=lambda: HttpApi(address, lambda: TOKEN),
        )
        here.far.script = here.agent = JoinedAgent(patience=0)
        assert here.chat.run("c-1") == 0
    assert here.agent.heard == [("prompt", "see this"), ("prompt", "and now?")]
    assert here.agent.uploads == [[f"fi:{turn}.user.attachments/a.csv"], []]
    assert f"not sent: /attach {tmp_path}/b.csv" in here.noted
