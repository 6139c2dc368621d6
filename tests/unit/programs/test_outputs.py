from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.program.execution import PREVIEW_CHARS, RefusedFile, WorkFile
from stepline.programs.outcome import PREVIEWS_CHARS, TITLE
from stepline.programs.outputs import OUTPUTS_KEPT_MAX, PROJECT_KEPT_MAX, inspect_workbook
from tests.unit.programs.program_run import OLD, TURN, ProgramRun, at, promised, workbook, zipped


@pytest.fixture
def program(tmp_path) -> ProgramRun:
    return ProgramRun(spool=tmp_path)


def codes(verdicts) -> list[str]:
    return [file.code for file in verdicts.files]


def test_a_promised_file_that_exists_is_taken_over(program) -> None:
    program.contract = promised("outputs/a.csv")
    program.left("outputs/a.csv", "month,total\n1,2\n")
    verdicts = program.judge()
    (file,) = verdicts.files
    assert (file.code, file.contracted, file.visibility) == ("", True, "external")
    assert (file.size_bytes, file.text_symbols, file.line_count) == (16, 16, 2)
    assert verdicts.taken == (file,)
    assert (verdicts.kept, verdicts.left, verdicts.failed) == ((), (), ())


def test_absent_and_empty_files_are_missing(program) -> None:
    program.contract = promised("a.csv", "b.csv")
    program.left("outputs/b.csv", b"")
    verdicts = program.judge()
    assert codes(verdicts) == ["missing_file", "empty_file"]
    assert verdicts.taken == ()


def test_an_unchanged_file_counts_by_its_stored_bytes(program) -> None:
    before = WorkFile(path=at("outputs/a.csv"), key="out/k", sha256="ab" * 32, size_bytes=9, mime="text/csv")
    program.contract, program.inputs = promised("a.csv"), (before,)
    (file,) = program.judge(unchanged=(before.path,)).files
    assert (file.code, file.key, file.sha256, file.preview) == ("", "out/k", before.sha256, None)
    assert codes(program.judge()) == ["missing_file"]


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ("outputs/a.csv", "artifact_symlink_blocked"),
        ("outputs/a.csv", "artifact_path_escape_blocked"),
        ("outputs/a.csv", "artifact_not_regular_file"),
        ("outputs", "artifact_symlink_blocked"),
    ],
)
def test_the_collectors_refusal_explains_a_broken_promise(program, refused, code) -> None:
    program.contract = promised("a.csv")
    program.refused.append(RefusedFile(path=at(refused), code=code, message="it leads elsewhere"))
    (file,) = program.judge().files
    assert (file.code, file.message) == (code, "it leads elsewhere")


def test_a_name_that_differs_in_its_unicode_form_is_the_promised_one(program) -> None:
    program.contract = promised("caf\u00e9.csv")
    program.refused.append(
        RefusedFile(path=at("outputs/cafe\u0301.csv"), code="path_not_canonical", message="not NFC")
    )
    verdicts = program.judge()
    assert codes(verdicts) == ["path_not_canonical"]
    assert verdicts.left == ()


def tarred(name: str, data: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def linked() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


BAD_ARCHIVES = [
    ("a.zip", zipped({"../evil.txt": "x"})),
    ("a.zip", zipped({"/abs.txt": "x"})),
    ("a.zip", zipped({"etc/passwd": "x"})),
    ("a.zip", zipped({"data/supervisor.log": "x"})),
    ("a.zip", zipped({})),
    ("a.zip", b"no archive at all"),
    ("a.zip", linked()),
    ("a.tgz", tarred("../evil.txt")),
    ("a.tar.gz", tarred("proc/self/environ")),
]


@pytest.mark.parametrize(("name", "data"), BAD_ARCHIVES)
def test_an_archive_that_leads_out_of_itself_is_not_passed_on(program, name, data) -> None:
    program.contract = promised(name)
    program.left(f"outputs/{name}", data)
    (file,) = program.judge().files
    assert file.code == "artifact_internal_path_blocked"
    assert file.message.startswith(file.detail)


def test_an_archive_of_plain_files_is_taken_over(program) -> None:
    program.contract = promised("a.zip", "b.tgz")
    program.left("outputs/a.zip", zipped({"data/a.csv": "1,2"}))
    program.left("outputs/b.tgz", tarred("data/a.csv"))
    assert codes(program.judge()) == ["", ""]


@pytest.mark.parametrize(
    ("name", "least"), [("a.pdf", 500), ("a.docx", 1000), ("a.pptx", 2000), ("a.xlsx", 1000)]
)
def test_a_document_too_small_to_hold_anything_is_refused(program, name, least) -> None:
    program.contract = promised(name, f"b{name}")
    head = b"%PDF-1.7" if name == "a.pdf" else b"PK\3\4"
    program.left(f"outputs/{name}", head.ljust(least - 1))
    program.left(f"outputs/b{name}", head.ljust(least))
    first, second = codes(program.judge())
    assert first == "file_unusually_small"
    assert second == ("artifact_invalid" if name == "a.xlsx" else "")


HTML = b"<!doctype html><script>alert(1)</script>"
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("chart.png", HTML),
        ("chart.PNG", ELF),
        ("photo.jpg", b"\x89PNG\r\n\x1a\n"),
        ("film.mp4", HTML),
        ("table.xls", b"a,b\n1,2\n"),
        ("report.pdf", HTML.ljust(600)),
        ("letter.docx", HTML.ljust(1200)),
        ("notes.txt", ELF),
        ("page.html", b"PK\3\4" + bytes(40)),
        ("script.sh", b"MZ\x90" + bytes(40)),
        ("data.csv", b"\xff\xd8\xff\xe0" + bytes(40)),
    ],
)
def test_a_file_that_contradicts_its_name_is_not_taken_over(program, name, data) -> None:
    program.contract = promised(name)
    program.left(f"outputs/{name}", data)
    program.left(f"files/{name}", data)
    verdicts = program.judge()
    assert codes(verdicts) == ["content_type_mismatch"]
    assert [(file.path, file.code) for file in verdicts.left] == [
        (at(f"files/{name}"), "content_type_mismatch")
    ]
    assert verdicts.kept == ()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("notes.txt", "Grüße".encode()),
        ("old.csv", "Grüße;1\n".encode("latin-1")),
        ("wide.csv", "a,b\n".encode("utf-16")),
        ("MZ.md", b"MZ is how a Windows program begins. GIF89a is how a picture does."),
        ("page.html", b"just a line"),
        ("drawing.svg", b"<?xml version='1.0'?><svg/>"),
        ("run.sh", b"#!/bin/sh\n"),
        ("x.rtf", b"{\\rtf1 hello}"),
        ("song.mp3", b"\xff\xfb\x90\x00"),
        ("sound.wav", b"RIFF\x24\x08\x00\x00WAVEfmt "),
        ("photo.jpeg", b"\xff\xd8\xff\xe0\x00\x10JFIF"),
        ("model.bin", ELF),
        ("program", ELF),
        ("cache.db", b"anything"),
        ("weights.unknown", HTML),
    ],
)
def test_a_file_that_may_be_what_its_name_says_is_taken_over(program, name, data) -> None:
    program.contract = promised(name)
    program.left(f"outputs/{name}", data)
    assert codes(program.judge()) == [""]


BROKEN_BOOKS = [
    (b"PK" + b"x" * 2000, "xlsx_open_failed"),
    (zipped({"filler": "x" * 3000}, compression=zipfile.ZIP_STORED), "xlsx_open_failed"),
    (workbook("visible", **{"_rels/.rels": "<broken"}), "xlsx_open_failed"),
    (
        workbook("visible", **{"xl/workbook.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}),
        "xlsx_open_failed",
    ),
    (workbook("visible", **{"xl/workbook.xml": " " * (8 * 1024 * 1024 + 1)}), "xlsx_open_failed"),
    (workbook("visible", **{"xl/workbook.xml": "<a>" + "<sheet/>" * 10_001 + "</a>"}), "xlsx_open_failed"),
    (workbook("visible")[:-30], "xlsx_open_failed"),
    (workbook(), "xlsx_no_visible_sheets"),
    (workbook("hidden", "veryHidden"), "xlsx_no_visible_sheets"),
]


@pytest.mark.parametrize(("data", "detail"), BROKEN_BOOKS)
def test_a_workbook_that_shows_nothing_is_refused(program, data, detail) -> None:
    program.contract = promised("a.xlsx")
    program.left("outputs/a.xlsx", data)
    (file,) = program.judge().files
    assert (file.code, file.detail) == ("artifact_invalid", detail)


def test_a_workbook_with_one_visible_sheet_is_taken_over(program) -> None:
    program.contract = promised("a.xlsx")
    program.left("outputs/a.xlsx", workbook("hidden", "visible"))
    assert codes(program.judge()) == [""]


def listing(count: int, *, zip64: bool) -> bytes:
    """A zip file of `count` parts that do not exist; with `zip64` its plain end states ten of them."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, *(0,) * 6)
    parts = (entry + b"a") * count
    data = b"PK\3\4" + bytes(26)
    end = (10, 10, 100) if zip64 else (min(count, 0xFFFF), min(count, 0xFFFF), len(parts))
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(parts), len(data))
    large += struct.pack("<4sLQL", b"PK\6\7", 0, len(data) + len(parts), 1)
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *end, len(data), 0)
    return data + parts + (large if zip64 else b"") + tail


@pytest.mark.parametrize("zip64", [False, True])
def test_a_list_of_parts_that_would_fill_the_memory_is_not_read(tmp_path, zip64) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(listing(30_000, zip64=zip64))
    flaw = inspect_workbook(path)
    assert flaw is not None
    assert "too large" in flaw.message


def test_a_stored_part_may_be_larger_than_the_list_of_parts(program) -> None:
    padding = " " * (4 * 1024 * 1024)
    book = '<workbook><sheets><sheet name="a"/></sheets></workbook>' + padding
    program.contract = promised("a.xlsx")
    program.left(
        "outputs/a.xlsx",
        zipped({"_rels/.rels": "<Relationships/>", "xl/workbook.xml": book}, compression=zipfile.ZIP_STORED),
    )
    assert codes(program.judge()) == [""]


@given(at_=st.integers(0, 3000), value=st.integers(0, 255), cut=st.integers(0, 200))
def test_a_damaged_workbook_is_judged_and_nothing_else_happens(tmp_path_factory, at_, value, cut) -> None:
    data = bytearray(workbook("visible"))
    data[at_ % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.xlsx"
    path.write_bytes(data[: len(data) - cut])
    flaw = inspect_workbook(path)
    assert flaw is None or flaw.code in ("xlsx_open_failed", "xlsx_no_visible_sheets")


def preview(program: ProgramRun, data: bytes | str, name: str = "a.txt"):
    program.contract = promised(name)
    program.left(f"outputs/{name}", data)
    (file,) = program.judge().files
    assert file.code == ""
    return file


def test_a_short_text_is_previewed_whole_under_its_header(program) -> None:
    shown = preview(program, "Grüße\nzwei").preview
    assert shown.whole
    assert shown.text.splitlines() == [
        TITLE,
        f"path: fi:{TURN}.outputs/a.txt",
        "lines: [1-2]/2",
        "line_count: 2",
        "text_symbols: 10",
        f"cap: {PREVIEW_CHARS}",
        "line_numbers: disabled",
        "text_truncated: false",
        "",
        "Grüße",
        "zwei",
    ]


def test_a_long_text_is_previewed_by_its_beginning(program) -> None:
    line = "0123456789\n"
    file = preview(program, line * 5000)
    shown = file.preview
    assert not shown.whole
    assert (file.text_symbols, file.line_count) == (55_000, 5000)
    assert "lines: [1-727]/5000\npartial_line: 728\n" in shown.text
    assert "text_truncated: true" in shown.text
    assert shown.text.split("\n\n", 1)[1] == (line * 5000)[:PREVIEW_CHARS]


@pytest.mark.parametrize("size", [PREVIEW_CHARS - 1, PREVIEW_CHARS, PREVIEW_CHARS + 1])
@pytest.mark.parametrize("char", ["x", "語", "\n"])
def test_the_cap_counts_characters(program, size, char) -> None:
    file = preview(program, char * size)
    assert file.text_symbols == size
    assert file.preview.whole is (size <= PREVIEW_CHARS)
    assert file.preview.text.split("\n\n", 1)[1] == char * min(size, PREVIEW_CHARS)


def test_a_character_across_the_pieces_of_a_large_file_is_one(program) -> None:
    text = "x" + "ü" * 1_000_000 + "\n" + "ü"
    file = preview(program, text)
    assert (file.text_symbols, file.line_count) == (len(text), 2)


@pytest.mark.parametrize(
    ("data", "name"), [(b"\xff\xfe\x00", "a.txt"), ("ü".encode()[:1], "a.md"), (b"x", "a.bin")]
)
def test_a_binary_file_has_no_preview(program, data, name) -> None:
    file = preview(program, data, name)
    assert (file.preview, file.text_symbols) == (None, None)


def test_all_previews_together_have_a_limit(program) -> None:
    names = [f"{i}.txt" for i in range(6)]
    program.contract = promised(*names)
    for i, name in enumerate(names):
        program.left(f"outputs/{name}", f"{i}" * 7000)
    files = program.judge().files
    shown = [file.preview for file in files]
    assert [one is not None and one.whole for one in shown] == [True, True, True, False, False, False]
    assert "cap: 3000" in shown[3].text
    assert shown[4:] == [None, None]
    assert all(file.text_symbols == 7000 for file in files)
    assert sum(len(one.text.split("\n\n", 1)[1]) for one in shown[:4]) == PREVIEWS_CHARS


def test_an_unpromised_file_is_kept_for_the_agent_only(program) -> None:
    program.contract = promised("a.csv")
    program.left("outputs/a.csv", "1")
    program.left("outputs/b.csv", "2")
    program.left("files/src/__init__.py", b"")
    kept = program.judge().kept
    assert [(file.logical, file.visibility, file.contracted) for file in kept] == [
        (f"fi:{TURN}.files/src/__init__.py", "internal", False),
        (f"fi:{TURN}.outputs/b.csv", "internal", False),
    ]
    assert all(file.preview is None for file in kept)


def test_an_unpromised_archive_that_leads_out_is_not_kept(program) -> None:
    program.left("outputs/a.zip", zipped({"../evil": "x"}))
    verdicts = program.judge()
    assert verdicts.kept == ()
    assert [one.code for one in verdicts.left] == ["artifact_internal_path_blocked"]


def test_only_the_first_of_many_unpromised_files_are_kept(program) -> None:
    for i in range(OUTPUTS_KEPT_MAX + 2):
        program.left(f"outputs/{i:03}.txt", "x")
    for i in range(PROJECT_KEPT_MAX + 1):
        program.left(f"files/{i:03}.txt", "x")
    verdicts = program.judge()
    assert len(verdicts.kept) == OUTPUTS_KEPT_MAX + PROJECT_KEPT_MAX
    assert [one.path for one in verdicts.left] == [
        at(f"files/{PROJECT_KEPT_MAX}.txt"),
        at(f"outputs/{OUTPUTS_KEPT_MAX:03}.txt"),
        at(f"outputs/{OUTPUTS_KEPT_MAX + 1:03}.txt"),
    ]


def test_other_refusals_are_passed_on(program) -> None:
    one = RefusedFile(path=f"{OLD}/outputs/a", code="artifact_not_current_turn", message="never changes")
    program.refused.append(one)
    assert program.judge().left == (one,)
