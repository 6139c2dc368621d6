"""The scripted server's refusals, equal to those of the real one."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from stepline.local.scripted.messages_request import BadRequestError, count_tokens, parse_prompt, summed_up
from tests.support.files import PDF, PNG, pdf, picture

MARK = {"cache_control": {"type": "ephemeral"}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def request(**changes: Any) -> dict[str, Any]:
    body = {
        "model": "claude-sonnet-5",
        "max_tokens": 10,
        "system": [text("Be brief.")],
        "messages": [{"role": "user", "content": [text("one"), text("two")]}],
    }
    return {key: value for key, value in {**body, **changes}.items() if value is not None}


def file(mime: str, data: bytes, kind: str = "") -> dict[str, Any]:
    source = {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode()}
    return {"type": kind or ("document" if mime == PDF else "image"), "source": source}


def user(*content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(content)}]


def test_a_good_request_is_read_in_the_order_a_cache_sees() -> None:
    prompt = parse_prompt(request(tools=[{"name": "t"}]))
    assert [block.text for block in prompt.blocks] == ["", "Be brief.", "one", "two"]
    assert (prompt.system, prompt.newest_message) == ("Be brief.", "one\ntwo")


def test_plain_strings_are_blocks_too() -> None:
    prompt = parse_prompt(request(system="S", messages=[{"role": "user", "content": "U"}]))
    assert [block.text for block in prompt.blocks] == ["S", "U"]


@pytest.mark.parametrize(
    "body",
    [
        [],
        request(model=None),
        request(max_tokens=None),
        request(max_tokens=0),
        request(max_tokens="ten"),
        request(max_tokens=True),
        request(messages=None),
        request(messages=[]),
        request(messages=[{"role": "system", "content": "x"}]),
        request(messages=[{"role": "user"}]),
        request(messages=["hello"]),
        request(messages=user(text(""))),
        request(messages=user({"type": "text"})),
        request(messages=user({"type": "video"})),
        request(messages=user("bare")),
        request(messages=user({"type": "image"})),
        request(messages=user(file(PNG, b"GIF89a"))),
        request(messages=user(file("image/tiff", b"II*\0"))),
        request(messages=user(file(PDF, pdf(), kind="image"))),
        request(messages=user(file(PNG, picture(), kind="document"))),
        request(messages=user(file(PNG, b""))),
        request(messages=user({"type": "image", "source": {**file(PNG, picture())["source"], "data": "*"}})),
        request(messages=user(file(PNG, picture() + bytes(4 * 1024 * 1024)))),
        request(messages=user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        request(system=7),
        request(messages=user(text("x", cache_control={"type": "eternal"}))),
        request(messages=user(text("x", cache_control={"type": "ephemeral", "ttl": "2h"}))),
        request(messages=user(*[text(str(n), **MARK) for n in range(5)])),
        request(
            messages=user(text("a", **MARK), text("b", cache_control={"type": "ephemeral", "ttl": "1h"})),
        ),
    ],
)
def test_a_bad_request_is_an_invalid_request_error(body: Any) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_prompt(body)
    assert (caught.value.status, caught.value.kind) == (400, "invalid_request_error")


def test_four_marks_are_allowed_at_any_position() -> None:
    body = request(system=[text("s", **MARK)], messages=user(*[text(str(n), **MARK) for n in range(3)]))
    assert sum(block.ttl_s == 300 for block in parse_prompt(body).blocks) == 4


def test_pictures_and_documents_are_read_and_a_record_has_their_hash() -> None:
    body = request(messages=user(text("look"), file(PNG, picture()), file(PDF, pdf())))
    assert [block.tokens for block in parse_prompt(body).blocks[1:]] == [1, 1500, 1500]
    image = summed_up(body)["messages"][0]["content"][1]
    digest = hashlib.sha256(picture()).hexdigest()
    source = {"type": "base64", "media_type": PNG, "sha256": digest, "size_bytes": len(picture())}
    assert image == {"type": "image", "source": source}


def test_tokens_are_a_quarter_of_the_bytes_rounded_up() -> None:
    assert [count_tokens(words) for words in ("", "a", "abcd", "abcde", "äöü", "😀")] == [0, 1, 1, 2, 2, 1]
