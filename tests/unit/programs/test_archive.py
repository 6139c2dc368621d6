import gzip
import io
import re
import struct
import tarfile
import warnings
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.programs.archive.contents import PROBLEMS_MAX, inspect_archive
from stepline.programs.archive.member import ARCHIVE_CHUNK_BYTES, ArchiveLimits, Budget, drained
from stepline.programs.archive.tar import gzip_chunks

ZIP, TAR, GZIP = "application/zip", "application/x-tar", "application/gzip"
ORDINARY = ArchiveLimits()
SMALL = ArchiveLimits(max_entries=3, max_inflated_bytes=1000, max_ratio=5, ratio_from_bytes=500)


def zipped(**members):
    return zipped_list(list(members.items()))


def zipped_list(members, method=zipfile.ZIP_DEFLATED):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two members of one name
        for member, body in members:
            archive.writestr(member, body)
    return target.getvalue()


def info(name, *, mode=0):
    member = zipfile.ZipInfo(name)
    member.filename, member.external_attr = name, mode << 16
    return member


def tarred(*members, form=tarfile.PAX_FORMAT):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        for name, kind, body in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(body), "target"
            archive.addfile(member, io.BytesIO(body))
    return target.getvalue()


def plain(name, body=b"body"):
    return (name, tarfile.REGTYPE, body)


PACKED = {
    ZIP: lambda names: zipped_list([(name, b"body") for name in names]),
    TAR: lambda names: tarred(*(plain(name) for name in names)),
    GZIP: lambda names: gzip.compress(tarred(*(plain(name) for name in names))),
}


@pytest.fixture
def codes(tmp_path):
    def inspect(body, mime, limits=ORDINARY):
        path = tmp_path / "spooled"
        path.write_bytes(body)
        return [problem.code for problem in inspect_archive(path, mime=mime, limits=limits)]

    return inspect


@pytest.mark.parametrize("mime", PACKED)
def test_an_archive_of_plain_files_has_no_problems(codes, mime):
    names = ["report/summary.txt", "./a.csv", "ä/" + "long/" * 30 + "name.txt", "lib/x.py", "a..b/...x"]
    assert codes(PACKED[mime](names), mime) == []


def test_a_file_that_is_not_an_archive_is_not_inspected(codes):
    assert codes(b"no archive", "text/plain") == []


@pytest.mark.parametrize("mime", PACKED)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("../x", "archive_path_escape"),
        ("a/../../x", "archive_path_escape"),
        ("a\\..\\..\\x", "archive_path_escape"),
        ("/x", "archive_path_escape"),
        ("\\\\host\\x", "archive_path_escape"),
        ("C:x", "archive_path_escape"),
        ("etc/passwd", "archive_internal_path"),
        ("./PROC/1/environ", "archive_internal_path"),
        ("workspace/work/user_code.py", "archive_internal_path"),
        ("logs/x", "archive_internal_path"),
        ("a/Infra.log", "archive_runtime_log"),
        ("supervisor.log", "archive_runtime_log"),
        ("a/NUL.txt", "archive_name_ambiguous"),
        ("trail./x", "archive_name_ambiguous"),
        ("trail ", "archive_name_ambiguous"),
        ("report.md:hidden", "archive_name_ambiguous"),
        ("a\\b", "archive_name_ambiguous"),
        ("fine", "archive_name_clash"),
        ("./Fine", "archive_name_clash"),
    ],
)
def test_a_member_that_is_not_the_programs_own_is_named(codes, mime, name, code):
    assert codes(PACKED[mime](["fine", name]), mime) == [code]


@pytest.mark.parametrize("mime", PACKED)
def test_two_members_whose_names_differ_in_the_writing_of_an_accent_clash(codes, mime):
    assert codes(PACKED[mime](["\u00dcber", "u\u0308BER", "Uber"]), mime) == ["archive_name_clash"]


@pytest.mark.parametrize("mime", PACKED)
def test_only_the_first_problems_are_listed(codes, mime):
    assert codes(PACKED[mime]([f"/{i}" for i in range(PROBLEMS_MAX + 1)]), mime) == (
        ["archive_path_escape"] * PROBLEMS_MAX
    )


@pytest.mark.parametrize("mime", PACKED)
def test_too_many_members_end_the_inspection(codes, mime):
    three = ArchiveLimits(max_entries=3)
    assert codes(PACKED[mime](["a", "b", "c"]), mime, three) == []
    assert codes(PACKED[mime](["a", "b", "c", "d"]), mime, three) == ["archive_too_many_entries"]


@pytest.mark.parametrize("mime", PACKED)
def test_an_archive_without_members_is_empty(codes, mime):
    assert codes(PACKED[mime]([]), mime) == ["archive_empty"]


@pytest.mark.parametrize("mime", PACKED)
@pytest.mark.parametrize("body", [b"", b"no archive", b"PK\3\4 no archive", b"\x1f\x8b\x08 no archive"])
def test_a_fake_archive_is_unreadable(codes, mime, body):
    found = codes(body, mime)
    assert found in (["archive_unreadable"], ["archive_empty"])
    assert found == ["archive_unreadable"] or (mime, body) == (TAR, b"")


@pytest.mark.parametrize("mime", PACKED)
@given(data=st.data())
def test_a_damaged_archive_never_breaks_the_inspection(tmp_path_factory, mime, data):
    body = bytearray(PACKED[mime](["a.txt", "long/" * 40 + "name"]))
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=8)):
        body[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "spooled"
    path.write_bytes(body[: data.draw(st.integers(0, len(body)))])
    assert all(problem.code for problem in inspect_archive(path, mime=mime, limits=SMALL))


@pytest.mark.parametrize("mode", [0o120777, 0o060600, 0o010644])
def test_links_and_devices_in_a_zip_are_named(codes, mode):
    assert codes(zipped_list([(info("x", mode=mode), b"/etc/passwd")]), ZIP) == ["archive_not_regular_file"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"Z"], ids=str
)
def test_links_and_devices_in_a_tar_are_named(codes, kind):
    assert codes(tarred(("x", kind, b"")), TAR) == ["archive_not_regular_file"]


def test_folders_in_archives_are_fine(codes):
    assert codes(zipped_list([(info("a/", mode=0o040755), b""), ("a/b", b"x")]), ZIP) == []
    assert codes(tarred(("./", tarfile.DIRTYPE, b""), plain("a")), TAR) == []


@pytest.mark.parametrize("mime", [ZIP, GZIP])
def test_inflated_bytes_are_counted(codes, mime):
    noise = bytes(range(256)) * 3
    packed = {ZIP: zipped(a=noise, b=noise), GZIP: gzip.compress(noise) + gzip.compress(noise)}[mime]
    assert codes(packed, mime, ArchiveLimits(max_inflated_bytes=1000)) == ["archive_too_large"]
    assert codes(packed, mime, ArchiveLimits(max_inflated_bytes=1536)) == []


@pytest.mark.parametrize("mime", [ZIP, GZIP])
def test_a_bomb_is_stopped_by_its_ratio(codes, mime):
    bomb = {ZIP: zipped(a=bytes(10**8)), GZIP: gzip.compress(bytes(10**8))}[mime]
    assert codes(bomb, mime) == ["archive_ratio_too_high"]


def test_a_zip_that_states_less_than_it_holds_is_unreadable_and_still_counted(codes):
    body = bytearray(zipped(a=b"x" * 2000))
    at = body.index(b"PK\1\2")
    for size, checksum in ((22, 14), (at + 24, at + 16)):
        struct.pack_into("<I", body, size, 1)
        struct.pack_into("<I", body, checksum, zlib.crc32(b"x"))
    assert codes(bytes(body), ZIP) == ["archive_unreadable"]
    assert codes(bytes(body), ZIP, ArchiveLimits(max_inflated_bytes=1000)) == ["archive_too_large"]


@pytest.mark.parametrize(
    ("at", "to"),
    [(8, b"\x0c"), (26, b"\x02"), (30, b"z"), (6, b"\x01"), (45, b"\xff")],
    ids=["method", "length of name", "name", "encrypted", "data"],
)
def test_a_zip_whose_parts_disagree_is_unreadable(codes, at, to):
    body = bytearray(zipped(abc=b"x" * 200))
    body[at : at + len(to)] = to
    assert codes(bytes(body), ZIP) == ["archive_unreadable"]


def test_output_pending_after_the_last_input_is_inflated():
    for size in range(ARCHIVE_CHUNK_BYTES - 300, ARCHIVE_CHUNK_BYTES + 300):
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        packed = packer.compress(bytes(size)) + packer.flush()
        pieces = list(drained(zlib.decompressobj(-zlib.MAX_WBITS), packed))
        assert (sum(map(len, pieces)), max(map(len, pieces)) <= ARCHIVE_CHUNK_BYTES) == (size, True)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_that_cannot_be_inflated_piece_by_piece_is_unreadable(codes, method):
    assert codes(zipped_list([("a", b"x")], method), ZIP) == ["archive_unreadable"]


def covered(before=b"", between=b"", after=b"", last=b""):
    """Return a zip of one member with additional bytes in the file, and correct offsets."""
    body = bytearray(zipped(a=b"x"))
    at, end = body.index(b"PK\1\2"), body.rindex(b"PK\5\6")
    struct.pack_into("<I", body, at + 42, len(before))
    struct.pack_into("<I", body, end + 16, len(before) + at + len(between))
    return before + bytes(body[:at]) + between + bytes(body[at:end]) + after + bytes(body[end:]) + last


class Pipe(io.BytesIO):
    """A target to which a zip is written sequentially."""

    def tell(self):
        raise io.UnsupportedOperation


@pytest.mark.parametrize("part", ["before", "between", "after", "last"])
@pytest.mark.parametrize(
    "more", [b"x", b"#!/bin/sh\n", zipped(b=b"y"), b"PK\3\4"], ids=["x", "sh", "zip", "magic"]
)
def test_a_zip_with_anything_beside_members_and_directory_is_unreadable(codes, part, more):
    assert codes(covered(), ZIP) == []
    assert codes(covered(**{part: more}), ZIP) == ["archive_unreadable"]


def test_a_script_before_a_zip_that_does_not_know_of_it_makes_it_unreadable(codes):
    assert codes(b"#!/bin/sh\n" + zipped(a=b"x"), ZIP) == ["archive_unreadable"]


def test_members_that_share_their_bytes_make_a_zip_unreadable(codes):
    body = zipped(a=b"x" * 100)
    at, end = body.index(b"PK\1\2"), body.rindex(b"PK\5\6")
    twice = body[:at] + body[at:end] * 2 + body[end : end + 8]
    twice += struct.pack("<2H2IH", 2, 2, 2 * (end - at), at, 0)
    assert codes(twice, ZIP) == ["archive_unreadable"]


def test_a_zip_whose_directory_leaves_a_member_out_is_unreadable(codes):
    body = zipped(a=b"x", b=b"y")
    first, second = (found.start() for found in re.finditer(b"PK\1\2", body))
    end = body.rindex(b"PK\5\6")
    for kept in (body[first:second], body[second:end]):
        forged = body[:first] + kept + b"PK\5\6" + struct.pack("<4H2IH", 0, 0, 1, 1, len(kept), first, 0)
        assert codes(forged, ZIP) == ["archive_unreadable"]


def test_a_member_that_states_other_sizes_than_the_directory_makes_a_zip_unreadable(codes):
    body = bytearray(zipped_list([("a", b"x" * 100)], zipfile.ZIP_STORED))
    body[18:22] = struct.pack("<I", 50)
    assert codes(bytes(body), ZIP) == ["archive_unreadable"]


def test_a_member_with_a_second_name_is_ambiguous(codes):
    other = b"\x01" + struct.pack("<I", zlib.crc32(b"a")) + b"../../evil"
    member = info("a")
    member.extra = struct.pack("<2H", 0x7075, len(other)) + other
    assert codes(zipped_list([(member, b"x")]), ZIP) == ["archive_name_ambiguous", "archive_unreadable"]


def test_a_member_whose_name_is_in_no_stated_encoding_is_ambiguous(codes):
    body = zipped_list([("\u00e9\u00e9", b"x")])
    body = body.replace(struct.pack("<HH", 20, 0x800), struct.pack("<HH", 20, 0))
    assert codes(body, ZIP) == ["archive_name_ambiguous"]


@pytest.mark.parametrize("large", [False, True], ids=["zip", "zip64"])
@pytest.mark.parametrize("seekable", [True, False], ids=["file", "pipe"])
@pytest.mark.parametrize("comment", [b"", b"made by hand"], ids=["bare", "comment"])
def test_zips_of_every_writer_are_valid(codes, monkeypatch, large, seekable, comment):
    target = io.BytesIO() if seekable else Pipe()
    if large:
        monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "b/c"):
            with archive.open(name, "w", force_zip64=large) as member:
                member.write(name.encode() * 100)
        archive.comment = comment
    assert codes(target.getvalue(), ZIP) == []


def test_a_zip_directory_as_large_as_the_file_is_not_read(codes):
    members = zipped_list([(f"{i:0200}", b"") for i in range(2000)], zipfile.ZIP_STORED)
    assert codes(members, ZIP, ArchiveLimits(max_entries=100)) == ["archive_unreadable"]


def test_stored_members_are_fine_and_counted(codes):
    stored = zipped_list([("a", b"x" * 2000)], zipfile.ZIP_STORED)
    assert codes(stored, ZIP) == []
    assert codes(stored, ZIP, ArchiveLimits(max_inflated_bytes=1000)) == ["archive_too_large"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_the_long_name_of_a_tar_member_counts(codes, form):
    name = "a/" * 100 + "../" * 101 + "x"
    assert codes(tarred(plain(name), form=form), TAR) == ["archive_path_escape"]


@pytest.mark.parametrize(
    "headers",
    [{"path": "a"}, {"size": "-1"}, {"size": "9" * 30}, {"GNU.sparse.size": "9"}],
    ids=lambda headers: next(iter(headers)),
)
def test_headers_that_readers_take_differently_are_unreadable(codes, headers):
    everywhere = tarfile.TarInfo.create_pax_global_header(headers)
    assert codes(everywhere + tarred(plain("x")), TAR) == ["archive_unreadable"]
    if "path" not in headers:
        member = tarfile.TarInfo("x")
        member.pax_headers = headers
        assert codes(member.tobuf(tarfile.PAX_FORMAT) + bytes(1024), TAR) == ["archive_unreadable"]


def test_a_tar_with_something_after_its_end_is_unreadable(codes):
    assert codes(tarred(plain("x")) + tarred(plain("/etc/passwd")), TAR) == ["archive_unreadable"]


def test_a_tar_that_ends_too_early_is_unreadable(codes):
    assert codes(tarred(plain("x", b"x" * 2000))[:1500], TAR) == ["archive_unreadable"]


def test_a_gzip_file_of_one_file_is_fine_and_zeros_may_fill_its_block(codes):
    packed = gzip.compress(b"one,two\n")
    assert codes(packed, GZIP) == []
    assert codes(packed + bytes(100_000), GZIP) == []
    assert codes(packed + b"more", GZIP) == ["archive_unreadable"]
    assert codes(packed[:-1], GZIP) == ["archive_unreadable"]


@given(body=st.binary(max_size=300), times=st.sampled_from([1, 600, 2000]))
def test_a_gzip_file_inflates_whole_from_any_pieces(tmp_path_factory, body, times):
    path = tmp_path_factory.mktemp("packed") / "spooled"
    path.write_bytes(gzip.compress(body * times))
    budget = Budget(ORDINARY, path.stat().st_size)
    assert b"".join(gzip_chunks(path, budget)) == body * times
