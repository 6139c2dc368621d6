"""The text of an attachment: in the encoding that its type records, and in no other."""

from __future__ import annotations

import hashlib

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Block, Body
from stepline.tools.content import PathContent


def content(data: bytes, mime: str, *, kind: str = "user.attachment") -> PathContent:
    body = Body(key="k", sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), mime=mime)
    artifacts = MemoryArtifacts()
    artifacts.put(body.key, data, mime=mime)
    block = Block(type=kind, author="user", ts="", mime=mime, body=body)
    return PathContent(path="fi:a", block=block, body=body, artifacts=artifacts)


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("windows-1251", "cp1251", "Тип"),
        ("koi8-r", "koi8-r", "Тип"),
        ("shift_jis", "shift_jis", "色は匂へど"),
        ("utf-16le", "utf-16-le", "色は匂へど"),
        ("", "utf-8", "色は匂へど"),
        ("", "utf-8-sig", "色は匂へど"),
        ("", "utf-16", "色は匂へど"),
        ("", "utf-32", "色は匂へど"),
    ],
)
def test_an_attachment_is_read_in_the_encoding_of_its_type(charset: str, codec: str, text: str) -> None:
    mime = f"text/csv; charset={charset}" if charset else "text/csv"
    assert content(text.encode(codec), mime).text == text


def test_an_attachment_of_a_release_that_recorded_nothing_is_read_as_windows_wrote_it() -> None:
    assert content("„gut“… 5 €".encode("cp1252"), "text/csv").text == "„gut“… 5 €"


@pytest.mark.parametrize("name", ["punycode", "idna", "unicode_escape", "utf-7", "rot13"])
def test_no_other_codec_reads_an_attachment(name: str) -> None:
    assert content(b"+AGE-\\x61", f"text/plain; charset={name}").text == "+AGE-\\x61"


def test_a_file_of_a_program_is_text_in_utf_8_alone() -> None:
    assert content("für".encode("cp1252"), "text/plain", kind="react.tool.result").text is None
