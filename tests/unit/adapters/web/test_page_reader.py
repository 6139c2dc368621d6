"""Decoding of a page's bytes: only by the web's encodings, and any page is read or refused."""

# ruff: noqa: RUF001 - letters of many scripts are data here

from __future__ import annotations

import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.web.page_reader import PageRefused, read

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю."
JAPANESE = "色は匂へど散りぬるを、我が世誰ぞ常ならむ。"
NO_LABELS = [
    "idna", "undefined", "punycode", "unicode_escape", "raw_unicode_escape", "base64", "base64_codec", "rot13", "utf-7",
    "hex", "bz2", "zlib", "mbcs", "utf-32", "none-such", "\0", "\ud800", "x" * 80, "../../etc", "utf_8_sig; x",
]  # fmt: skip
TYPES = ["text/plain", "application/json", "text/xml", "application/x-ndjson", "text/html", "text/css"]


def text_of(data: bytes, mime: str = "text/plain", charset: str = "") -> str:
    return read(data, html=mime == "text/html", mime=mime, charset=charset)["text"]


def refusal(data: bytes, mime: str = "text/plain", charset: str = "") -> str:
    with pytest.raises(PageRefused) as refused:
        text_of(data, mime, charset)
    return str(refused.value)


@pytest.mark.parametrize("mime", TYPES)
@pytest.mark.parametrize("charset", NO_LABELS)
def test_an_encoding_name_unknown_to_the_web_is_ignored(charset: str, mime: str) -> None:
    body = json.dumps([RUSSIAN], ensure_ascii=False) if "json" in mime else f"<a>{RUSSIAN}</a>"
    assert RUSSIAN in text_of(body.encode(), mime, charset)


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("windows-1251", "cp1251", RUSSIAN),
        ("CP1251", "cp1251", "Тип"),
        ("koi8-r", "koi8-r", RUSSIAN),
        ("x-sjis", "shift_jis", JAPANESE),
        ("euc-jp", "euc_jp", JAPANESE),
        ("iso-8859-1", "cp1252", "„gut“ – 5 €"),
        ("latin-1", "cp1252", "café"),
        ("gb2312", "gb18030", "今天的天气"),
        ("big5", "big5", "今天的天氣"),
        ("ks_c_5601-1987", "cp949", "오늘은 날씨가"),
        ("utf-16", "utf-16-le", RUSSIAN),
        ("utf-16", "utf-16-le", "今天的天气"),
        ("utf-16", "utf-8", RUSSIAN),
        ("utf-16", "utf-8", "hello world!"),
        ("iso-8859-1", "utf-8", RUSSIAN),
        ("", "utf-8", "café"),
    ],
)
@pytest.mark.parametrize("mime", ["text/plain", "text/xml", "text/html"])
def test_a_page_is_read_by_the_encoding_that_it_states(
    charset: str, codec: str, text: str, mime: str
) -> None:
    assert text_of(text.encode(codec), mime, charset) == text


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("mime", ["text/plain", "application/json", "text/xml"])
def test_a_byte_order_mark_overrides_the_header(codec: str, mime: str) -> None:
    text = f'["{RUSSIAN}"]'
    assert text_of(text.encode(codec), mime, "iso-8859-1") == text


@pytest.mark.parametrize("name", ["koi8-r", "windows-1251", "iso-8859-5"])
def test_xml_and_html_are_read_as_they_declare(name: str) -> None:
    xml = f'<?xml version="1.0" encoding="{name}"?><a>Тип</a>'
    assert text_of(xml.encode(name), "application/xml") == xml
    assert text_of(f"<meta charset={name}><p>Тип</p>".encode(name), "text/html") == "Тип"


def test_an_invalid_character_only_loses_itself() -> None:
    assert text_of(RUSSIAN.encode()[:-1] + b"\xff", charset="utf-8") == RUSSIAN[:-1] + "\ufffd"
    cut = (RUSSIAN + "я").encode()[:-1]
    assert text_of(cut) == RUSSIAN + "\ufffd"


def test_an_unknown_encoding_is_refused_with_its_code() -> None:
    assert refusal(bytes(range(128, 256)) * 4) == "encoding_unknown"


@pytest.mark.parametrize("data", [b"one\0two", b"\1\2\3", codecs.BOM_UTF16_LE + b"a\0\0\0"])
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    assert refusal(data) == "type_refused"


@pytest.mark.parametrize("charset", ["", "idna", "utf-8"])
@pytest.mark.parametrize("open_", ["[", '{"a":', '[{"a":'])
def test_json_of_any_depth_is_refused_within_its_limits(open_: str, charset: str) -> None:
    assert refusal(open_.encode() * 100_000, "application/json", charset) == "page_unreadable"


@pytest.mark.parametrize(
    "mime", ["application/json", "application/x-ndjson", "application/jsonl", "application/ld+json"]
)
def test_rows_of_json_are_read(mime: str) -> None:
    rows = '{"a": 1}\n\n{"a": "я"}\r\n[]\n'
    assert text_of(rows.encode(), mime) == rows


def test_a_body_that_is_json_by_its_type_alone_is_refused() -> None:
    assert refusal(b"<html></html>", "application/json") == "type_refused"


def test_two_mebibytes_under_a_name_of_a_slow_codec_are_read() -> None:
    data = b"a" * (2 * 1024 * 1024)
    assert len(text_of(data, charset="punycode")) == 200_000


ANY_LABEL = st.one_of(
    st.text(max_size=20), st.sampled_from([*NO_LABELS, "utf-8", "utf-16", "shift_jis", "big5", "gbk"])
)


@given(
    data=st.one_of(
        st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))
    ),
    mime=st.sampled_from(TYPES),
    charset=ANY_LABEL,
)
def test_any_page_is_read_or_refused(data: bytes, mime: str, charset: str) -> None:
    try:
        text_of(data, mime, charset)
    except PageRefused as refused:
        code = str(refused)
    else:
        code = ""
    assert code in ("", "type_refused", "encoding_unknown", "page_unreadable")
