"""Files from outside, each with the verdict that it gets and the code of the first rule that refuses it."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.file.file_verdict import FileLimits, FileVerdict
from stepline.model.file.mime import DOCX, PPTX, XLSX
from stepline.preflight.judge_file import agreed_mime, judge_claim, judge_file
from tests.support.files import GIF, JPEG, PDF, PNG, WEBP, bomb, film, pdf, picture
from tests.support.office import archive, document, relations, types
from tests.support.pdf_forms import catalog, plain, stream

MIB = 1024 * 1024
LIMITS = FileLimits()
NAMES = {
    PNG: "a.png",
    JPEG: "a.jpg",
    GIF: "a.gif",
    WEBP: "a.webp",
    PDF: "a.pdf",
    DOCX: "a.docx",
    PPTX: "a.pptx",
    XLSX: "a.xlsx",
    "text/plain": "a.txt",
    "application/json": "a.json",
}
EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


@pytest.fixture
def judge(tmp_path: Path):
    def run(data: bytes, mime: str, filename: str = "") -> FileVerdict:
        path = tmp_path / "file"
        path.write_bytes(data)
        return judge_file(path, filename=filename or NAMES.get(mime, "a"), mime=mime, limits=LIMITS)

    return run


DEFLATED = "/Filter /FlateDecode"


def with_objects(text: str, count: int) -> bytes:
    """Return a PDF with more objects."""
    return plain({**catalog(), **dict.fromkeys(range(30, 30 + count), text)})


TAKEN = {
    "PNG": (picture(), PNG),
    "JPEG": (picture(JPEG), JPEG),
    "GIF": (picture(GIF), GIF),
    "GIF of several frames": (film(GIF), GIF),
    "WebP": (picture(WEBP), WEBP),
    "JPEG with a camera's preview after it": (picture(JPEG) + picture(JPEG, (8, 8)), JPEG),
    "PDF": (pdf(), PDF),
    "PDF of packed objects": (pdf(3, is_packed=True), PDF),
    "PDF of 500 pages": (pdf(500), PDF),
    "PDF of 500 packed pages": (pdf(500, is_packed=True), PDF),
    "DOCX": (document(DOCX), DOCX),
    "PPTX": (document(PPTX), PPTX),
    "XLSX": (document(XLSX), XLSX),
    "DOCX with a link to follow": (
        document(
            parts={"word/_rels/document.xml.rels": relations(("hyperlink", "https://example.org/", True))}
        ),
        DOCX,
    ),
    "DOCX of 25 MiB": (
        document(parts={"word/media/a.bin": b"\1" + os.urandom(25 * MIB - 1024)}, stored=True),
        DOCX,
    ),
    "text": (b"hello", "text/plain"),
    "text with a mark of its order": ("hällo".encode("utf-16"), "text/plain"),
    "text of one byte a character": ("Größe;Stück\n".encode("latin-1") * 20, "text/csv"),
    "JSON": (b'{"a": 1}', "application/json"),
    "JSON that is not whole": (b'{"a": ', "application/json"),
    "YAML": (b"a: 1\n", "application/yaml"),
    "TOML": (b"a = 1\n", "application/toml"),
    "XML": (b"<a/>", "application/xml"),
    "rows of JSON": (b"{}\n{}\n", "application/x-ndjson"),
    "script": (b"alert(1)", "text/javascript"),
    "page": (b"<!doctype html><p>hi", "text/html"),
    "text of 10 MiB": (b"a" * 10 * MIB, "text/plain"),
    "text that begins with a scanner's test": (EICAR, "text/plain"),
}


@pytest.mark.parametrize(("data", "mime"), TAKEN.values(), ids=TAKEN)
def test_an_allowed_file_is_accepted(judge, data: bytes, mime: str) -> None:
    assert judge(data, mime).accepted


def macro(part: str = "word/vbaProject.bin") -> bytes:
    return document(parts={part: b"\1\2"})


REFUSED = {
    # stated, named and found
    "a program that says it is a text": (b"\x7fELF" + bytes(60), "text/plain", "content_type_mismatch"),
    "a program that says it is a picture": (b"\x7fELF" + bytes(60), PNG, "content_type_mismatch"),
    "a PNG that says it is a JPEG": (picture(), JPEG, "content_type_mismatch"),
    "a PNG that says it is a PDF": (picture(), PDF, "content_type_mismatch"),
    "a DOCX that says it is an XLSX": (document(DOCX), XLSX, "content_type_mismatch"),
    "a picture of curves": (b"<svg/>", "image/svg+xml", "type_not_allowed"),
    "a program": (b"MZ", "application/x-msdownload", "type_not_allowed"),
    "an old document": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/msword", "type_not_allowed"),
    "a document made for macros": (
        document(),
        "application/vnd.ms-word.document.macroenabled.12",
        "type_not_allowed",
    ),
    # archives
    "an archive": (archive({"a": "b"}), "application/zip", "type_not_allowed"),
    "an archive that says it is a DOCX": (archive({"a": "b"}), DOCX, "archive_not_allowed"),
    "a tar archive": (b"a", "application/x-tar", "type_not_allowed"),
    "an archive of no members": (archive({}), DOCX, "content_type_mismatch"),
    "a DOCX of 2,001 members": (
        document(parts={f"a{n}": "" for n in range(1998)}),
        DOCX,
        "archive_too_many_entries",
    ),
    "a DOCX that grows": (document(parts={"a": bytes(5 * MIB)}), DOCX, "archive_ratio_too_high"),
    "a DOCX with one part that grows": (
        document(parts={"a": bytes(MIB + 1), "b": b"\1" + os.urandom(MIB)}),
        DOCX,
        "archive_ratio_too_high",
    ),
    "a DOCX that inflates to 121 MiB": (
        document(parts={f"a{n}": (b"\1" + os.urandom(16 * 1024 - 1)) * 704 for n in range(11)}),
        DOCX,
        "archive_too_large",
    ),
    "a DOCX with an archive": (document(parts={"word/a.zip": "x"}), DOCX, "archive_nested"),
    "a DOCX with an archive under another name": (
        document(parts={"word/a.dat": archive({"a": "b"})}),
        DOCX,
        "archive_nested",
    ),
    "a DOCX that breaks off": (document()[:-40], DOCX, "archive_unreadable"),
    "a DOCX whose parts lie": (document(stored=True).replace(b"<w/>", b"<x/>"), DOCX, "archive_unreadable"),
    "a DOCX with a way out": (document(parts={"../a": "x"}), DOCX, "archive_path_escape"),
    # documents of Office
    "macros of Word": (macro(), DOCX, "ooxml_macros"),
    "macros of Excel with clean types": (
        document(XLSX, {"xl/vbaProject.bin": b"\1"}),
        XLSX,
        "ooxml_macros",
    ),
    "macros by their type": (
        document(
            parts={
                "[Content_Types].xml": types(
                    DOCX, '<Override PartName="/a" ContentType="application/vnd.ms-office.vbaProject"/>'
                )
            }
        ),
        DOCX,
        "ooxml_macros",
    ),
    "sheets of macros": (document(XLSX, {"xl/macrosheets/sheet1.xml": "<a/>"}), XLSX, "ooxml_macros"),
    "macros by their relation": (
        document(parts={"word/_rels/document.xml.rels": relations(("vbaProject", "a.bin", False))}),
        DOCX,
        "ooxml_macros",
    ),
    "a template from outside": (
        document(
            parts={
                "word/_rels/settings.xml.rels": relations(("attachedTemplate", "https://e.org/a.dotm", True))
            }
        ),
        DOCX,
        "ooxml_external",
    ),
    "a picture from outside": (
        document(parts={"word/_rels/document.xml.rels": relations(("image", "https://e.org/a.png", True))}),
        DOCX,
        "ooxml_external",
    ),
    "a link to another workbook": (
        document(XLSX, {"xl/externalLinks/externalLink1.xml": "<a/>"}),
        XLSX,
        "ooxml_external",
    ),
    "an object": (document(parts={"word/embeddings/oleObject1.bin": b"\1"}), DOCX, "ooxml_embedded_object"),
    "an object under another name": (
        document(parts={"word/media/a.png": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"}),
        DOCX,
        "ooxml_embedded_object",
    ),
    "a control": (document(parts={"word/activeX/activeX1.xml": "<a/>"}), DOCX, "ooxml_embedded_object"),
    "an entity": (
        document(parts={"word/document.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}),
        DOCX,
        "ooxml_document_type",
    ),
    "an entity in UTF-16": (
        document(parts={"word/document.xml": "<!DOCTYPE a><a/>".encode("utf-16")}),
        DOCX,
        "ooxml_document_type",
    ),
    "no main part": (document(parts={"[Content_Types].xml": "<Types/>"}), DOCX, "ooxml_unreadable"),
    "types that are no XML": (document(parts={"[Content_Types].xml": "<Types"}), DOCX, "ooxml_unreadable"),
    "something after a DOCX": (document(comment=b"%PDF-1.7"), DOCX, "trailing_data"),
    "something before a DOCX": (b"#!/bin/sh\n" + document(), DOCX, "content_type_mismatch"),
    # PDFs
    "an encrypted PDF": (pdf(encrypted=True), PDF, "pdf_encrypted"),
    "a PDF of 501 pages": (pdf(501), PDF, "pdf_too_many_pages"),
    "a PDF of 501 packed pages": (pdf(501, is_packed=True), PDF, "pdf_too_many_pages"),
    "a PDF of no pages": (pdf(0), PDF, "pdf_unreadable"),
    "a PDF that breaks off": (pdf()[:-40], PDF, "pdf_unreadable"),
    "a PDF of 100,001 objects": (with_objects("(a)", 100_001), PDF, "pdf_too_many_objects"),
    "a PDF of 2,001 packed streams": (
        with_objects("<< /Type /ObjStm /N 0 /First 0 /Length 0 >>\nstream\n\nendstream", 2_001),
        PDF,
        "pdf_too_many_object_streams",
    ),
    "a PDF whose packed objects grow": (
        with_objects(stream(f"/Type /ObjStm /N 0 /First 0 {DEFLATED}", zlib.compress(bytes(33 * MIB))), 1),
        PDF,
        "pdf_too_large",
    ),
    "a PDF with a script": (
        with_objects("<< /S /JavaScript /JS (app.alert) >>", 1),
        PDF,
        "pdf_active_content",
    ),
    "a PDF with a file": (
        with_objects("<< /Type /EmbeddedFile /Length 0 >>\nstream\n\nendstream", 1),
        PDF,
        "pdf_embedded_file",
    ),
    "a page after a PDF": (pdf() + b"<script>" + b" " * 2000, PDF, "trailing_data"),
    # pictures
    "a picture of too many pixels": (bomb(), PNG, "image_too_large"),
    "a picture that breaks off": (picture()[:-20], PNG, "image_unreadable"),
    "a picture with something after it": (picture() + b"more", PNG, "trailing_data"),
    "a film with something after it": (film(GIF) + b"more", GIF, "trailing_data"),
    "a WebP with something after it": (picture(WEBP) + b"more", WEBP, "trailing_data"),
    # two files in one
    "a JPEG that is an archive": (picture(JPEG) + archive({"a": "b"}), JPEG, "polyglot"),
    "a PDF that is an archive": (pdf() + archive({"a": "b"}), PDF, "polyglot"),
    "a JPEG that is a PDF": (
        picture(JPEG, comment=pdf()),
        JPEG,
        "polyglot",
    ),
    "a text that is a PDF": (b"\n" + pdf(), "text/plain", "polyglot"),
    "a page after a JPEG": (picture(JPEG) + b"<html><script>alert(1)</script>", JPEG, "polyglot"),
    "a page in a JPEG's comment": (picture(JPEG, comment=b"<SCRIPT src=//e.org>"), JPEG, "polyglot"),
    "a script of a server in a GIF": (picture(GIF, comment=b"<?php system($_GET[1]); ?>"), GIF, "polyglot"),
    "a picture of curves in a JPEG": (picture(JPEG, comment=b"<svg onload=alert(1)>"), JPEG, "polyglot"),
    "an application of HTML in a JPEG": (picture(JPEG) + b"<hta:application id=a>", JPEG, "polyglot"),
    # texts
    "a text of more than 10 MiB": (b"a" * (10 * MIB + 1), "text/plain", "text_too_large"),
    "a text with zeros": (b"a\0b", "text/plain", "text_binary"),
    "bytes that say they are a text": (bytes(range(128, 256)) * 4, "text/plain", "text_undecodable"),
}


@pytest.mark.parametrize(("data", "mime", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_forbidden_file_is_refused(judge, data: bytes, mime: str, reason: str) -> None:
    verdict = judge(data, mime)
    assert (verdict.code, verdict.reasons[0]) == ("preflight_rejected", reason)
    assert verdict.message


SIZES = {
    "picture": (PNG, 5 * MIB),
    "PDF": (PDF, 10 * MIB),
    "document": (DOCX, 25 * MIB),
}


@pytest.mark.parametrize(("mime", "most"), SIZES.values(), ids=SIZES)
def test_a_file_of_the_maximum_size_is_accepted_and_one_byte_more_is_not(mime: str, most: int) -> None:
    assert judge_claim(NAMES[mime], mime, most, LIMITS).accepted
    assert judge_claim(NAMES[mime], mime, most + 1, LIMITS).code == "size_limit"


def test_an_empty_file_is_reported_as_empty(judge) -> None:
    assert judge(b"", "text/plain").code == "empty"


def test_a_name_of_another_type_is_refused(judge) -> None:
    assert judge(picture(), PNG, "a.pdf").reasons == ("content_type_mismatch",)
    assert judge(b"a,b", "text/csv", "a.txt").accepted


@pytest.mark.parametrize(
    ("filename", "mime", "agreed"),
    [
        ("a.md", "", "text/markdown"),
        ("a.md", "application/octet-stream", "text/markdown"),
        ("a.md", "Text/Plain; charset=utf-8", "text/plain"),
        ("a", "", "text/plain"),
        ("Dockerfile", "application/x-docker", "text/plain"),
        ("a.zig", "video/x-unknown", "text/x-source"),
        ("index.ts", "video/mp2t", "text/x-typescript"),
        ("index.mts", "model/vnd.mts", "text/x-typescript"),
        ("a.csv", "application/vnd.ms-excel", "text/csv"),
        ("a.php", "application/x-httpd-php", "text/x-php"),
        ("a.rs", "application/rls-services+xml", "application/rls-services+xml"),
        ("a.jpg", "image/pjpeg", JPEG),
        ("a.docx", "application/zip", DOCX),
        ("a.mp4", "", "video/mp4"),
        ("a", "application/zip", "application/zip"),
    ],
)
def test_an_unknown_stated_type_is_replaced_by_the_names_or_text(
    filename: str, mime: str, agreed: str
) -> None:
    assert agreed_mime(filename, mime) == agreed


SOURCES = [
    "py",
    "rs",
    "php",
    "rb",
    "kt",
    "swift",
    "lua",
    "cs",
    "pl",
    "ts",
    "mts",
    "tsx",
    "go",
    "java",
    "c",
    "hpp",
    "sh",
    "ps1",
    "yaml",
    "ipynb",
    "eml",
    "srt",
    "vtt",
    "zig",
    "mod",
    "unknown",
]
STATED = [
    "",
    "text/plain",
    "application/octet-stream",
    "video/mp2t",
    "application/x-anything",
    "message/rfc822",
]


@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("ending", SOURCES)
def test_source_code_is_text_with_any_stated_type(judge, ending: str, stated: str) -> None:
    name = f"main.{ending}"
    assert judge("print('größer')\n".encode(), agreed_mime(name, stated), name).accepted
    assert not judge(b"\x7fELF\x02\x01" + bytes(60), agreed_mime(name, stated), name).accepted


ACTING = [
    "a.exe", "a.EXE", "a.hta", "a.bat", "a.cmd", "a.scf", "a.lnk", "a.url", "a.desktop", "a.vbs", "a.reg", "a.webloc",
    "a.library-ms", "a.txt.lnk", "a.bat.", "a.hta . ", "a.txt:b.hta", "a.hta::$DATA",
]  # fmt: skip


@pytest.mark.parametrize("stated", ["", "text/plain", PNG, "application/octet-stream"])
@pytest.mark.parametrize("name", ACTING)
def test_a_file_that_a_desktop_would_run_is_refused_by_its_name(judge, name: str, stated: str) -> None:
    data = picture() if stated == PNG else b"[InternetShortcut]\n"
    assert judge(data, agreed_mime(name, stated), name).reasons == ("type_not_allowed",)


SAMPLES = [data for data, *_ in [*TAKEN.values(), *REFUSED.values()] if len(data) < 100_000]
SPOILT = st.builds(
    lambda data, at, put: data[: at % len(data)] + put + data[at % len(data) + len(put) :],
    st.sampled_from([data for data in SAMPLES if data]),
    st.integers(0, 100_000),
    st.binary(max_size=8),
)


@given(data=st.one_of(st.binary(max_size=300), SPOILT), mime=st.sampled_from([*NAMES]))
def test_any_bytes_get_a_verdict(tmp_path_factory, data: bytes, mime: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    verdict = judge_file(path, filename=NAMES[mime], mime=mime, limits=LIMITS)
    assert verdict.accepted or (verdict.code and verdict.message)
