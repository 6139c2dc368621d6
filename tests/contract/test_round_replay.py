import pytest
from msgspec.structs import replace

from stepline.adapters.aws.table import replay_pk
from stepline.ports.round_replay import REPLAY_TTL_S, ReplayWish, RoundReplay, RoundReplays

USER = 'Ada "the" Count#ess'


@pytest.fixture
def replays(backend) -> RoundReplays:
    return backend.replays


def row(backend, name: str, **fields) -> RoundReplay:
    now_s = int(backend.clock.now().timestamp())
    made = RoundReplay(
        id=name,
        wish=ReplayWish(decided_n=int(name.partition("-")[0])),
        asked_at="2026-11-28T12:00:00.000Z",
        until="2026-11-28T12:02:00.000Z",
        expires_at=now_s + REPLAY_TTL_S,
    )
    return replace(made, **fields)


def test_a_row_is_added_once_and_read_back(backend, replays, lane):
    made = row(backend, "2-a", wish=ReplayWish(decided_n=2, model="m", effort="low", system="é"))
    assert replays.get(lane, USER, "2-a") is None
    assert replays.add(lane, USER, made)
    assert not replays.add(lane, USER, replace(made, text="other"))
    assert replays.get(lane, USER, "2-a") == made


def test_a_row_changes_only_from_the_state_that_it_has(backend, replays, lane):
    made = row(backend, "2-a")
    assert not replays.change(lane, USER, made, was="queued")
    replays.add(lane, USER, made)
    running = replace(made, state="running", text="so far")
    assert not replays.change(lane, USER, running, was="running")
    assert replays.change(lane, USER, running, was="queued")
    assert not replays.change(lane, USER, made, was="queued")
    assert replays.get(lane, USER, "2-a") == running


def test_rows_of_a_round_are_listed_oldest_first(backend, replays, lane):
    for name, at in (("2-b", "1"), ("2-a", "2"), ("21-a", "3"), ("1-a", "4")):
        replays.add(lane, USER, row(backend, name, asked_at=at))
    replays.add(lane, "bob", row(backend, "2-c"))
    assert [found.id for found in replays.of_round(lane, USER, 2)] == ["2-b", "2-a"]
    replays.drop(lane, USER, "2-b")
    replays.drop(lane, USER, "2-b")
    assert [found.id for found in replays.of_round(lane, USER, 2)] == ["2-a"]


def test_rows_are_of_one_conversation_and_one_user(backend, replays, lane):
    replays.add(lane, USER, row(backend, "2-a"))
    for tenant in (lane.tenant, "other"):
        for conversation in (lane.conversation, "another"):
            other = replace(lane, tenant=tenant, conversation=conversation)
            if other != lane:
                assert replays.get(other, USER, "2-a") is None
    assert replays.get(lane, "bob", "2-a") is None


def test_a_row_is_gone_after_an_hour(backend, replays, lane):
    replays.add(lane, USER, row(backend, "2-a"))
    backend.clock.pause(REPLAY_TTL_S)
    assert replays.get(lane, USER, "2-a") is None
    assert replays.of_round(lane, USER, 2) == []


def test_rows_are_erased_with_their_conversation(backend, replays, lane):
    replays.add(lane, USER, row(backend, "2-a"))
    assert sum(backend.erasure.erase_rows(lane, husks_from="")) == 1
    assert replays.of_round(lane, USER, 2) == []
    assert not replays.change(lane, USER, row(backend, "2-a"), was="queued")


def test_a_stored_row_has_its_end_and_no_name(aws, lane):
    made = row(aws, "2-a")
    aws.replays.add(lane, USER, made)
    (found,) = aws.table.query("pk = :pk", {":pk": {"S": replay_pk(lane)}})
    assert found["expires_at"] == {"N": str(made.expires_at)}
    assert "Ada" not in str(found)
