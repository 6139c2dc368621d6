"""Storage of uploads: held when a slot is given, settled by the verdict, by the slot's end or with the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine, MemoryScanner
from stepline.errors import LimitError
from stepline.ingress.delete import apply_deletion
from stepline.ingress.upload import SLOT_S, UploadPorts, UploadRequest, judge_upload, start_upload
from stepline.model.entry import Closed
from stepline.model.file.upload_slot import LATE_S, quarantine_key
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Limits, Scope, Used, scopes_of
from stepline.ports.channel import Principal
from tests.support.conversation import FAR, LANE, USER, Conversation
from tests.support.generation import answered
from tests.unit.ingress.test_upload import asked

SCOPES = scopes_of(LANE.tenant, LANE.project, USER)
ME = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)
FILE = b"a,b\n" * 25
ROOM = 3 * len(FILE)


class Desk:
    """Uploads of a user whose storage has room for three files."""

    def __init__(self, scope: Scope = SCOPES[0], **limits: Any) -> None:
        self.conversation = Conversation(answered("Hi."))
        self.ports = self.conversation.ports
        self.limit(scope, **(limits or {"storage_bytes": ROOM}))
        self.quarantine = MemoryQuarantine(self.ports.clock)
        self.desk = UploadPorts(
            ports=self.ports,
            quarantine=self.quarantine,
            preflight=MemoryPreflight(),
            scanner=MemoryScanner(),
        )

    def limit(self, scope: Scope, **limits: Any) -> None:
        version = self.ports.accounts.limits([scope])[0].version
        self.ports.accounts.set_limits(scope, Limits(**limits), version=version, by="boss", at="")

    def start(self, lane: Lane = LANE, request: UploadRequest | None = None, key: str = "") -> str:
        return start_upload(
            self.desk, ME, lane.conversation, request or asked(FILE, f"{id(lane)}.csv"), key=key
        ).upload

    def judge(self, upload: str, data: bytes = FILE, lane: Lane = LANE) -> str:
        self.quarantine.objects[quarantine_key(lane, upload)] = data
        judged = judge_upload(self.desk, lane, upload)
        return judged.state if judged else ""

    def refusal(self, lane: Lane = LANE) -> LimitError:
        with pytest.raises(LimitError) as caught:
            self.start(lane)
        return caught.value

    @property
    def used(self) -> tuple[int, int]:
        """The stored and the held bytes: the same in all three accounts."""
        found: set[Used] = set(self.ports.accounts.used(SCOPES, self.ports.clock.now()))
        assert len(found) == 1
        one = found.pop()
        return one.storage_bytes, one.held_bytes


def lanes(count: int) -> list[Lane]:
    return [Lane(tenant=LANE.tenant, project=LANE.project, conversation=f"c-{n}") for n in range(count)]


@pytest.mark.parametrize("scope", SCOPES)
def test_twelve_concurrent_slots_share_the_storage_that_is_left(scope) -> None:
    desk = Desk(scope)
    begun = []
    for number, lane in enumerate(lanes(12)):
        if number < 3:
            begun.append((lane, desk.start(lane)))
        else:
            assert desk.refusal(lane).reason == "limit_storage"
    assert {desk.judge(upload, lane=lane) for lane, upload in begun} == {"ready"}
    assert desk.used == (ROOM, 0)


def test_a_refusal_for_what_uploads_hold_says_when_to_try_again_and_for_what_is_stored_does_not() -> None:
    desk = Desk()
    uploads = [desk.start() for _ in range(3)]
    assert desk.refusal().context["retry_after_s"]
    for upload in uploads:
        desk.judge(upload)
    assert not desk.refusal().context["retry_after_s"]


def test_a_refused_file_releases_its_storage() -> None:
    desk = Desk()
    uploads = [desk.start() for _ in range(3)]
    assert desk.judge(uploads[0], b"x" * len(FILE)) == "refused"
    assert desk.used == (0, 2 * len(FILE))
    desk.start()


def test_an_unused_slot_holds_storage_until_it_expires() -> None:
    desk = Desk()
    for lane in lanes(3):
        desk.start(lane)
    desk.ports.clock.pause(SLOT_S + LATE_S - 1)
    desk.refusal()
    desk.ports.clock.pause(11)
    assert desk.used == (0, 0)
    for lane in lanes(3):
        desk.start(lane)
    assert desk.used == (0, ROOM)


def test_a_file_with_an_expired_hold_needs_free_storage() -> None:
    desk = Desk()
    late = desk.start(lanes(1)[0])
    early = desk.start(lanes(2)[1])
    desk.ports.clock.pause(SLOT_S + 2 * LATE_S)
    for _ in range(2):
        desk.judge(desk.start())
    assert desk.judge(early, lane=lanes(2)[1]) == "ready"
    assert desk.judge(late, lane=lanes(1)[0]) == "refused"
    assert desk.used == (ROOM, 0)


def test_a_verdict_that_is_given_again_counts_once() -> None:
    desk = Desk()
    upload = desk.start()
    for _ in range(3):
        assert desk.judge(upload) == "ready"
    assert desk.used == (len(FILE), 0)


def test_the_same_file_under_the_same_key_is_held_once() -> None:
    desk = Desk()
    request = asked(FILE)
    assert len({desk.start(request=request, key="k") for _ in range(5)}) == 1
    assert desk.used == (0, len(FILE))


def test_a_deletion_releases_held_and_stored_bytes_of_uploads() -> None:
    desk = Desk()
    desk.conversation.send()
    desk.conversation.run()
    desk.judge(desk.start())
    open_one = desk.start()
    assert desk.used == (len(FILE), len(FILE))
    apply_deletion(desk.ports, LANE, USER)
    assert desk.used == (0, 0)
    desk.judge(open_one)
    assert desk.used == (0, 0)


def test_a_slot_that_was_refused_for_an_account_holds_nothing_in_the_others() -> None:
    desk = Desk(SCOPES[2], storage_bytes=1)
    desk.refusal()
    assert desk.used == (0, 0)


def test_storage_that_uploads_hold_ends_no_turn() -> None:
    desk = Desk()
    desk.conversation.send()
    for _ in range(3):
        desk.start()
    desk.conversation.run()
    assert desk.conversation.entries(Closed)[-1].outcome == "completed"


def test_without_a_limit_of_storage_nothing_is_held() -> None:
    desk = Desk(tokens_day=10**6)
    upload = desk.start()
    assert desk.used == (0, 0)
    assert desk.judge(upload) == "ready"
    assert desk.used == (len(FILE), 0)
