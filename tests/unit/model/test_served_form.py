"""The headers of a file: the types that a browser may show, and safely quoted names."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.model.file.mime import DOCX, OCTET_STREAM, PDF, PPTX, XLSX
from stepline.model.file.served_form import PLAIN, SHOWN, serve_as

ACTIVE = (
    "text/html",
    "TEXT/HTML; charset=utf-8",
    "application/xhtml+xml",
    "image/svg+xml",
    "text/xml",
    "application/xml",
    "application/rss+xml",
    "application/javascript",
    "text/javascript",
    "text/css",
    "application/x-shockwave-flash",
    "multipart/related",
    "message/rfc822",
    "application/octet-stream",
    "",
    "text/plain\r\nSet-Cookie: a=b",
)


def show(mime: str, name: str = "a") -> tuple[str, str]:
    form = serve_as(mime, name, "preview")
    return form.mime, form.disposition.partition(";")[0]


@pytest.mark.parametrize("mime", ["image/png", "image/jpeg", "image/gif", "image/webp"])
def test_an_image_is_served_inline_with_its_type(mime: str) -> None:
    assert show(mime) == (mime, "inline")
    assert serve_as(mime, "a", "download").disposition.startswith("attachment;")


def test_a_text_is_served_in_its_detected_encoding() -> None:
    assert show("text/csv; charset=windows-1251") == ("text/plain; charset=windows-1251", "inline")
    assert show("text/csv; charset=utf-7") == (PLAIN, "inline")
    assert show("text/html; charset=windows-1251") == (OCTET_STREAM, "attachment")


@pytest.mark.parametrize(
    "mime", ["text/plain", "text/markdown", "text/csv", "application/json", "text/plain; x=y"]
)
def test_a_text_is_served_as_plain_text_without_sniffing(mime: str) -> None:
    assert show(mime) == (PLAIN, "inline")
    assert "charset=utf-8" in PLAIN  # in capitals it would be looked into


@pytest.mark.parametrize("mime", ACTIVE)
@pytest.mark.parametrize("wanted", ["preview", "download"])
def test_active_content_is_served_as_an_attachment_without_type(mime: str, wanted: str) -> None:
    form = serve_as(mime, "a.html", wanted)  # type: ignore[arg-type]  # one of the two
    assert form.disposition.startswith("attachment;")
    assert form.mime == OCTET_STREAM


def test_a_pdf_is_shown_by_the_browsers_own_viewer() -> None:
    assert show(PDF) == (PDF, "inline")
    assert serve_as(PDF, "a", "download").disposition.startswith("attachment;")


@pytest.mark.parametrize("mime", [DOCX, PPTX, XLSX])
def test_a_document_is_served_as_an_attachment_with_its_type(mime: str) -> None:
    assert show(mime) == (mime, "attachment")


@given(st.text(), st.sampled_from(["preview", "download"]))
def test_no_type_but_those_of_the_list_is_ever_shown(mime: str, wanted: str) -> None:
    form = serve_as(mime, "a", wanted)  # type: ignore[arg-type]  # one of the two
    assert form.mime in {*SHOWN.values(), OCTET_STREAM}
    assert not form.disposition.startswith("inline") or mime.partition(";")[0].strip().lower() in SHOWN


@given(st.text(max_size=400))
@example('a"; filename="b.exe')
@example("a\r\nSet-Cookie: a=b")
@example("../../etc/passwd")
@example("annual\u202etxt.exe")
@example("ä" * 200)
@example("%41\\\x00\x7f")
@example("\ud800")
def test_a_name_cannot_break_out_of_its_header(name: str) -> None:
    said = serve_as(PDF, name, "download").disposition
    found = re.fullmatch(
        r'attachment; filename="([A-Za-z0-9 ()\[\]+,._=@-]*)"; filename\*=UTF-8\'\'([A-Za-z0-9_.~%-]+)', said
    )
    assert found
    real = unquote(found[2], errors="strict")
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in real)
    assert not set(real) & set('/\\"')
    assert len(real.encode()) <= 255


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a b.pdf", "filename=\"a b.pdf\"; filename*=UTF-8''a%20b.pdf"),
        (
            "Übersicht (1).pdf",
            "filename=\"_bersicht (1).pdf\"; filename*=UTF-8''%C3%9Cbersicht%20%281%29.pdf",
        ),
        ("", "filename=\"file\"; filename*=UTF-8''file"),
    ],
)
def test_a_file_name_is_sent_for_old_and_new_clients(name: str, said: str) -> None:
    assert serve_as(PDF, name, "download").disposition == f"attachment; {said}"
