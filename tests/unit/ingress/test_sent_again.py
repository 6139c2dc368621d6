"""A message with files is sent again in a fork: its attachments are named by path, and the bytes stay with the origin."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepline.errors import SteplineError
from stepline.ingress.admit import Arrival
from stepline.ingress.event_validation import take_event
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from tests.support.conversation import LANE, USER
from tests.support.generation import answered
from tests.unit.ingress.test_uploaded_attachment import TEXT, Files

FORK = replace(LANE, conversation="c-2")
THIRD = replace(LANE, conversation="c-3")


class Forked(Files):
    """A conversation whose second message has a file, and a fork from before that message."""

    def __init__(self) -> None:
        super().__init__(*[answered("ok")] * 9)
        self.conversation.send("hello", id="m0")
        self.conversation.run()
        self.take(self.upload(), text="see this")
        self.conversation.run()
        turn = self.conversation.timeline().turns[-1]
        self.path = f"fi:{turn}.user.attachments/a.csv"
        self.fork(LANE, "m1", "c-2")

    def fork(self, lane: Lane, message: str, name: str, *, before: bool = True, branch: bool = False) -> None:
        ports, point = self.conversation.ports, ForkPoint(kind="message", at=message, before=before)
        fork_conversation(ports, lane, point, user=USER, conversation=name, branch=branch)

    def again(self, path: str, *, lane: Lane = FORK, user: str = USER, id: str = "f1") -> None:  # noqa: A002 - reads best
        arrival = Arrival(message_id=id, user=user, text="see this", uploads=(path,))
        take_event(self.conversation.ports, lane, arrival)

    def files(self, lane: Lane) -> list[tuple[str, str]]:
        found = Journal(self.conversation.ports, lane, "test").since(0)
        inbound = [entry for batch in found for entry in batch.entries if isinstance(entry, Inbound)]
        return [(file.filename, file.home) for entry in inbound for file in entry.attachments]


@pytest.fixture
def forked() -> Forked:
    return Forked()


def test_a_message_sent_again_has_the_bytes_of_the_origin_and_stores_none(forked: Forked) -> None:
    forked.again(forked.path)
    forked.conversation.run()
    assert forked.files(FORK) == [("a.csv", "c-1")]
    ports = forked.conversation.ports
    tail = ports.log.tail(FORK)
    assert tail is not None
    assert tail.state.stored_bytes == 0
    timeline = History().load(Journal(ports, FORK, "test"), consistent=True)
    (body,) = [block.body for block in timeline.blocks() if block.body and block.path.endswith("/a.csv")]
    assert ports.artifacts.get(body.key) == TEXT


def test_a_fork_of_a_fork_finds_a_file_of_either_origin(forked: Forked) -> None:
    forked.again(forked.path)
    forked.conversation.run()
    forked.fork(FORK, "f1", "c-3")
    forked.again(forked.path, lane=THIRD)
    forked.conversation.run()
    sent = History().load(Journal(forked.conversation.ports, FORK, "test"), consistent=True).turns[-1]
    forked.again(f"fi:{sent}.user.attachments/a.csv", lane=THIRD, id="f2")
    assert forked.files(THIRD) == [("a.csv", "c-1"), ("a.csv", "c-1")]


def test_a_branch_finds_a_file_of_the_branch_in_which_it_was_made(forked: Forked) -> None:
    edited = replace(LANE, conversation="b-1")
    forked.fork(LANE, "m1", edited.conversation, branch=True)
    forked.again(forked.upload(lane=edited), lane=edited)
    forked.conversation.run()
    turn = History().load(Journal(forked.conversation.ports, edited, "test"), consistent=True).turns[-1]
    forked.fork(edited, "f1", THIRD.conversation, branch=True)
    forked.again(f"fi:{turn}.user.attachments/a.csv", lane=THIRD)
    assert forked.files(THIRD) == [("a.csv", "b-1")]


def test_a_path_of_the_conversation_itself_is_the_same_file(forked: Forked) -> None:
    forked.again(forked.path, lane=LANE)
    assert forked.files(LANE) == [("a.csv", ""), ("a.csv", "")]


@pytest.mark.parametrize(
    "path", ["fi:turn_x.user.attachments/a.csv", "fi:turn_x.files/a.md", "fi:", "ar:turn_x.user.prompt"]
)
def test_any_other_path_is_no_attachment(forked: Forked, path: str) -> None:
    with pytest.raises(SteplineError) as refused:
        forked.again(path)
    assert refused.value.reason == "attachment_missing"


def test_another_user_cannot_name_a_path_of_the_conversation(forked: Forked) -> None:
    with pytest.raises(SteplineError) as refused:
        forked.again(forked.path, lane=LANE, user="eve")
    assert refused.value.reason == "not_found"
