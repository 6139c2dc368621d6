"""A conversation in the protocol of Durable Streams: its headers, its refusals and its caches."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.adapters.memory.model import Say
from stepline.api.router import ApiResponse, Request
from stepline.metering.ledger import Ledger
from tests.support.api_caller import ROUTER, Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered
from tests.support.steered_conversation import SteeredConversation

URL = f"/v1/conversations/{LANE.conversation}/stream"
NEXT, UP_TO_DATE, CURSOR = "Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Cursor"


def talked() -> Caller:
    conversation = Conversation(answered("One."))
    conversation.send()
    conversation.run()
    return waiting(conversation)


def waiting(conversation: Conversation) -> Caller:
    """Return a caller on a stage whose readers may wait."""
    caller = Caller(conversation.ports)
    caller.services = dataclasses.replace(caller.services, wait_s=20)
    return caller


def read(caller: Caller, **query: str) -> tuple[ApiResponse, list[dict[str, Any]]]:
    answer = caller.ask("GET", URL, **query)
    return answer, json.loads(answer.body) if answer.body else []


def code(answer: ApiResponse) -> tuple[int, str]:
    return int(answer.status), answer.code


def test_a_read_gives_all_frames_and_the_offset_after_them() -> None:
    caller = talked()
    answer, frames = read(caller)
    assert answer.status == 200
    assert [frame["n"] for frame in frames] == [1, 2, 3]
    assert answer.headers == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        NEXT: "000000000003",
        UP_TO_DATE: "true",
        "ETag": '"-1:000000000003"',
    }
    assert read(caller, offset="-1")[1] == frames
    assert read(caller, offset="000000000002")[1] == frames[2:]
    assert (read(caller, offset="000000000003")[1], read(caller, offset="now")[1]) == ([], [])


def test_the_end_is_found_without_a_body_and_without_a_tag() -> None:
    caller = talked()
    head = caller.ask("HEAD", URL)
    assert (head.status, head.body, head.headers[NEXT]) == (200, b"", "000000000003")
    now = caller.ask("GET", URL, offset="now")
    assert (now.status, now.body, now.headers[NEXT], now.headers[UP_TO_DATE]) == (
        200,
        b"[]",
        "000000000003",
        "true",
    )
    assert "ETag" not in now.headers


def test_an_answer_that_the_client_has_is_not_sent_again() -> None:
    caller = talked()
    tag = caller.ask("GET", URL).headers["ETag"]
    asked = Request(method="GET", path=URL, headers={"if-none-match": f'"other", {tag}'})
    again = ROUTER.answer(caller.services, caller.principal, asked)
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    caller.ask("PATCH", f"/v1/conversations/{LANE.conversation}", {"title": "New"})
    assert ROUTER.answer(caller.services, caller.principal, asked).status == 200


def test_a_wait_without_news_has_no_content() -> None:
    caller = talked()
    answer = caller.ask("GET", URL, offset="000000000003", live="long-poll")
    assert (answer.status, answer.body) == (204, b"")
    assert (answer.headers[NEXT], answer.headers[UP_TO_DATE]) == ("000000000003", "true")
    later = caller.ask("GET", URL, offset="now", live="long-poll", cursor=answer.headers[CURSOR])
    assert int(later.headers[CURSOR]) > int(answer.headers[CURSOR])


def test_a_wait_with_news_answers_at_once() -> None:
    caller = talked()
    began_s = caller.services.ports.clock.monotonic_s()
    answer = caller.ask("GET", URL, offset="-1", live="long-poll")
    assert (answer.status, len(json.loads(answer.body))) == (200, 3)
    assert CURSOR in answer.headers
    assert caller.services.ports.clock.monotonic_s() == began_s


def test_a_cursor_is_always_ahead_of_the_clients() -> None:
    caller = talked()
    first = caller.ask("GET", URL, offset="-1", live="long-poll").headers[CURSOR]
    for own in (first, "9999999", "-1", "x", "0"):
        found = caller.ask("GET", URL, offset="-1", live="long-poll", cursor=own).headers[CURSOR]
        assert int(found) > (int(own) if own.isdecimal() else 0)


def test_running_text_moves_the_offset_of_the_end() -> None:
    conversation = SteeredConversation(Say(text=answered("Here it is. " * 8), piece_chars=7))
    caller, ends = waiting(conversation), list[str]()
    for piece in range(0, 20, 2):
        conversation.at(piece, lambda: ends.append(caller.ask("HEAD", URL).headers[NEXT]))
    conversation.run()
    ends.append(caller.ask("HEAD", URL).headers[NEXT])
    assert ends == sorted(ends)
    assert len(set(ends)) > 5
    assert all(len(end) < 100 for end in ends)


class Bad(NamedTuple):
    """A request that is refused; `path` and `user` are another conversation's and another user's."""

    status: int
    code: str
    query: Mapping[str, str] = {}
    path: str = URL
    user: str = USER
    method: str = "GET"


REFUSED = {
    "an unknown conversation": Bad(404, "not_found", path="/v1/conversations/none/stream"),
    "a foreign conversation": Bad(404, "not_found", user="eve"),
    "the end of a foreign conversation": Bad(404, "not_found", user="eve", method="HEAD"),
    "a name that no conversation has": Bad(400, "bad_conversation", path="/v1/conversations/a%20b/stream"),
    "an empty offset": Bad(400, "bad_message", {"offset": ""}),
    "an offset of more than 512 characters": Bad(400, "bad_message", {"offset": "0" * 513}),
    "two offsets": Bad(400, "bad_offset", {"offset": "0,1"}),
    "a text as an offset": Bad(400, "bad_offset", {"offset": "no offset"}),
    "a number before the beginning": Bad(400, "bad_offset", {"offset": "-2"}),
    "a number without its zeros": Bad(400, "bad_offset", {"offset": "3"}),
    "an offset with a character after it": Bad(400, "bad_offset", {"offset": "000000000003\n"}),
    "digits that are not ASCII": Bad(400, "bad_offset", {"offset": "00000000000\N{ARABIC-INDIC DIGIT ONE}"}),
    "a place without its lanes": Bad(400, "bad_offset", {"offset": "000000000003_000000000003_0000000001"}),
    "an event after the end": Bad(400, "resume_beyond_end", {"offset": "000000000009"}),
    "a stream after the end": Bad(
        400, "resume_beyond_end", {"offset": "000000000001_000000000009_0000000001-1-0"}
    ),
    "a wait without an offset": Bad(400, "bad_message", {"live": "long-poll"}),
    "events of a server": Bad(400, "bad_message", {"offset": "-1", "live": "sse"}),
    "an unknown way of waiting": Bad(400, "bad_message", {"offset": "-1", "live": "yes"}),
    "a cursor of more than 20 characters": Bad(400, "bad_message", {"offset": "-1", "cursor": "1" * 21}),
    **{
        f"{method}, which would write": Bad(405, "method_not_allowed", method=method)
        for method in ("PUT", "POST", "DELETE")
    },
}
"""What the protocol allows and we do not, and what it does not allow."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_request_is_a_problem_with_a_code(name: str) -> None:
    bad, caller = REFUSED[name], talked()
    caller.principal = replace(caller.principal, user=bad.user)
    answer = caller.ask(bad.method, bad.path, **bad.query)
    assert code(answer) == (bad.status, bad.code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert (NEXT in answer.headers, answer.headers.get("Allow", "GET, HEAD")) == (False, "GET, HEAD")
    assert {"status": bad.status, "code": bad.code}.items() <= json.loads(answer.body).items()


@given(
    n=st.integers(0, 3),
    claim=st.integers(1, 3),
    chars=st.integers(0, 200),
    place=st.lists(st.integers(0, 200) | st.just(10**9 - 1), min_size=2, max_size=6),
)
def test_any_place_in_running_text_is_answered_or_refused_with_a_code(
    n: int, claim: int, chars: int, place: list[int]
) -> None:
    offset = f"{n:012d}_{claim:012d}_{chars:010d}{''.join(f'-{one}' for one in place)}"
    conversation = SteeredConversation(Say(text=answered("Here it is. " * 8), piece_chars=7))
    caller, seen = waiting(conversation), list[ApiResponse]()
    conversation.at(12, lambda: seen.append(caller.ask("GET", URL, offset=offset)))
    conversation.run()
    (answer,) = seen
    assert code(answer) in ((200, ""), (400, "bad_offset"), (400, "resume_beyond_end"))
    if answer.status == 200:  # the text that it skips is in the event that settles it
        rest = read(caller, offset=answer.headers[NEXT])[1]
        assert [event["type"] for frame in rest for event in frame["events"]][-1] == "conv.status"


def test_parameters_of_later_versions_are_ignored() -> None:
    assert talked().ask("GET", URL, foo="bar").status == 200


def test_a_stage_where_readers_cannot_wait_says_so() -> None:
    caller = talked()
    caller.services = dataclasses.replace(caller.services, wait_s=0)
    assert code(caller.ask("GET", URL, offset="-1", live="long-poll")) == (400, "no_waiting")
    assert caller.ask("GET", URL, offset="-1").status == 200


def test_a_deleted_conversation_is_refused_while_a_reader_waits() -> None:
    caller = talked()
    clock: Any = caller.services.ports.clock
    paused = clock.pause

    def pause(seconds: float) -> None:
        paused(seconds)
        if clock.pause is pause:
            clock.pause = paused
            caller.ask("DELETE", f"/v1/conversations/{LANE.conversation}")

    clock.pause = pause
    assert code(caller.ask("GET", URL, offset="now", live="long-poll")) == (404, "conversation_deleted")


def test_reads_leave_no_rows_in_the_receipt_of_the_conversation() -> None:
    caller = talked()
    ports = dataclasses.replace(caller.services.ports, ledger=Ledger())
    caller.services = dataclasses.replace(caller.services, ports=ports)
    caller.ask("GET", URL)
    assert caller.services.ports.ledger.lane is None
