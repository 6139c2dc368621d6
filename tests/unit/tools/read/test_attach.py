"""`react.read` of pictures and PDFs: attached, scaled down, or refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.context.media import newest_media
from stepline.context.rules import ContextRules
from stepline.model.source import Source
from stepline.tools.context import ReadCaps, ToolOutput
from tests.support.files import GIF, JPEG, PDF, PNG, WEBP, bomb, film, noise, pdf, picture
from tests.unit.tools.conftest import TURN, ToolConversation, read_status

MIB = 1024 * 1024


def kept(conversation: ToolConversation, name: str, data: bytes, mime: str) -> str:
    return conversation.keep(f"fi:{TURN}.outputs/{name}", data, mime).path


def read(conversation: ToolConversation, *paths: str, **params: Any) -> ToolOutput:
    return conversation.call("react.read", {"paths": list(paths), **params})


def rows(output: ToolOutput) -> list[dict[str, Any]]:
    return read_status(output)["paths"]


def sent(conversation: ToolConversation, output: ToolOutput) -> list[bytes]:
    """Return the bytes that the views of a read attach."""
    return [conversation.artifacts.get(block.body.key) for block in output.blocks if block.body]


@pytest.mark.parametrize("mime", [PNG, JPEG, WEBP])
def test_a_plain_picture_is_attached_unchanged_and_the_row_has_its_size(
    conversation: ToolConversation, mime: str
) -> None:
    data = picture(mime)
    output = read(conversation, kept(conversation, "a", data, mime))
    (row,) = rows(output)
    size = {"bytes": len(data), "width": 64, "height": 48}
    assert output.status == "ok"
    assert sent(conversation, output) == [data]
    assert "status" not in row
    assert (row["image_view"], row["visible_tokens"]) == ({"original": size, "visible": size}, 6)


def test_a_picture_is_attached_without_its_metadata(
    conversation: ToolConversation,
) -> None:
    data = picture(JPEG, comment=b"at home")
    output = read(conversation, kept(conversation, "a.jpg", data, JPEG))
    (row,) = rows(output)
    (made,) = sent(conversation, output)
    assert b"at home" not in made
    assert "status" not in row
    assert row["image_view"]["visible"] == {"bytes": len(made), "width": 64, "height": 48}


def test_a_pdf_is_attached_unchanged_and_the_row_has_its_pages(conversation: ToolConversation) -> None:
    data = pdf(3)
    output = read(conversation, kept(conversation, "a.pdf", data, PDF))
    (row,) = rows(output)
    assert (output.status, row["pages"], row["visible_tokens"]) == ("ok", 3, 12_300)
    assert sent(conversation, output) == [data]


def test_a_large_picture_is_scaled_down_and_the_row_says_so(conversation: ToolConversation) -> None:
    data = picture(PNG, (3_000, 1_500))
    path = kept(conversation, "a.png", data, PNG)
    output = read(conversation, path)
    (row,) = rows(output)
    (scaled,) = sent(conversation, output)
    assert row["status"] == "image_downscaled_for_visible_context"
    assert row["image_view"]["original"] == {"bytes": len(data), "width": 3_000, "height": 1_500}
    assert row["image_view"]["visible"] == {"bytes": len(scaled), "width": 1_568, "height": 784}
    assert read_status(output)["downscaled_paths"] == [path]
    assert output.blocks[-1].body is not None
    assert output.blocks[-1].body.mime == WEBP
    assert output.status == "ok"


def test_a_picture_is_never_sent_with_more_bytes_in_base64_than_the_setting(
    conversation: ToolConversation,
) -> None:
    conversation.caps = ReadCaps(max_image_bytes=80_000)
    output = read(conversation, kept(conversation, "a.png", noise(PNG, (300, 300)), PNG))
    assert [len(data) <= 60_000 for data in sent(conversation, output)] == [True]


def test_the_row_of_an_animation_reports_the_first_frame(conversation: ToolConversation) -> None:
    (row,) = rows(read(conversation, kept(conversation, "a.gif", film(GIF), GIF)))
    assert (row["image_view"]["animated"], row["image_view"]["visible_frame"]) == (True, 1)


@pytest.mark.parametrize(
    ("data", "mime", "status", "flaw"),
    [
        (b"<html><script>", PNG, "metadata_only", "content_type_mismatch"),
        (picture(PNG), "image/jpeg", "metadata_only", "content_type_mismatch"),
        (picture(PNG), PDF, "metadata_only", "content_type_mismatch"),
        (noise(PNG, (64, 64))[:900], PNG, "metadata_only", "image_unreadable"),
        (bomb(), PNG, "too_large_for_visible_context_bytes", "image_too_large"),
        (pdf(encrypted=True), PDF, "metadata_only", "pdf_encrypted"),
        (pdf(2)[:120], PDF, "metadata_only", "pdf_unreadable"),
        (b"%PDF-1.7\n" + bytes(500), PDF, "metadata_only", "pdf_unreadable"),
        (pdf(101), PDF, "metadata_only", "pdf_too_many_pages"),
        (pdf(10), PDF, "too_large_for_visible_context_bytes", "file_too_many_tokens"),
        (b"PK\x03\x04", "application/zip", "metadata_only", ""),
        (b"<svg/>\xff", "image/svg+xml", "metadata_only", ""),
    ],
)
def test_a_file_that_is_not_attached_is_an_error_and_the_row_says_why(
    conversation: ToolConversation, data: bytes, mime: str, status: str, flaw: str
) -> None:
    output = read(conversation, kept(conversation, "a", data, mime))
    (row,) = rows(output)
    assert (output.status, row["status"]) == ("error", status)
    assert output.error is not None
    assert output.error["code"] == "read_nothing_attached"
    assert row.get("flaw", "").partition(":")[0] == flaw
    assert sent(conversation, output) == []


@pytest.mark.parametrize(
    ("data", "mime", "caps"),
    [
        (picture(PNG), PNG, ReadCaps(max_bytes=50)),
        (pdf(1), PDF, ReadCaps(max_bytes=50)),
        (pdf(1), PDF, ReadCaps(max_doc_bytes=50)),
    ],
)
def test_a_file_above_the_limits_in_bytes_is_marked_and_no_success(
    conversation: ToolConversation, data: bytes, mime: str, caps: ReadCaps
) -> None:
    conversation.caps = caps
    output = read(conversation, kept(conversation, "a", data, mime))
    assert (output.status, rows(output)[0]["status"]) == ("error", "too_large_for_visible_context_bytes")
    assert output.blocks[-1].text.startswith("[LARGE READ NOT MATERIALIZED]")
    assert "byte_limit: 50\n" in output.blocks[-1].text


def test_a_picture_that_the_next_request_has_anyway_is_not_attached_a_second_time(
    conversation: ToolConversation,
) -> None:
    path = kept(conversation, "a.png", picture(PNG), PNG)
    read(conversation, path)
    again = read(conversation, path)
    assert (again.status, rows(again)[0]["status"]) == ("ok", "exists_in_visible_context")
    assert sent(conversation, again) == []


def test_a_picture_is_attached_again_if_another_one_would_replace_it(
    conversation: ToolConversation,
) -> None:
    paths = [kept(conversation, f"{n}.png", picture(PNG, color=(n, n, n)), PNG) for n in range(3)]
    read(conversation, paths[0])
    read(conversation, paths[1])
    assert len(sent(conversation, read(conversation, paths[0], paths[2]))) == 2
    newest = [one.path for one in newest_media(conversation.media)]
    assert newest == [paths[0], paths[2]]


def test_a_picture_that_two_newer_ones_replaced_is_attached_again(conversation: ToolConversation) -> None:
    paths = [
        kept(conversation, f"{n}.png", picture(PNG, color=(n, n, n)), PNG)  # each a picture of its own
        for n in range(3)
    ]
    for path in paths:
        read(conversation, path)
    assert len(sent(conversation, read(conversation, paths[0]))) == 1


def test_a_file_that_was_written_anew_is_attached_again(conversation: ToolConversation) -> None:
    path = kept(conversation, "a.png", picture(PNG), PNG)
    read(conversation, path)
    conversation.keep(path, picture(PNG, color=(1, 2, 3)), PNG)
    assert sent(conversation, read(conversation, path)) == [picture(PNG, color=(1, 2, 3))]


def test_a_call_attaches_as_many_as_a_request_has_and_refuses_the_others(
    conversation: ToolConversation,
) -> None:
    paths = [kept(conversation, f"{n}.png", picture(PNG, color=(n, n, n)), PNG) for n in range(3)]
    output = read(conversation, *paths)
    assert [row.get("flaw", "").partition(":")[0] for row in rows(output)] == ["", "", "read_too_many_files"]
    assert len(sent(conversation, output)) == 2


def test_two_documents_that_do_not_fit_together_are_not_both_attached(conversation: ToolConversation) -> None:
    paths = [kept(conversation, f"{n}.pdf", pdf(6 + n), PDF) for n in range(2)]
    assert 13 * 4_100 > ContextRules().budget / 2 > 7 * 4_100
    flaws = [row.get("flaw", "").partition(":")[0] for row in rows(read(conversation, *paths))]
    assert flaws == ["", "read_too_many_files"]


def test_the_same_bytes_at_two_paths_are_sent_once_and_both_are_shown(conversation: ToolConversation) -> None:
    paths = [kept(conversation, name, picture(PNG), PNG) for name in ("a.png", "b.png")]
    output = read(conversation, *paths)
    assert ["status" in row for row in rows(output)] == [False, False]


def test_statistics_of_a_picture_attach_nothing(conversation: ToolConversation) -> None:
    output = read(conversation, kept(conversation, "a.png", picture(PNG), PNG), stats_only=True)
    assert (rows(output)[0]["status"], sent(conversation, output)) == ("stats_only", [])


def test_bytes_that_are_gone_are_missing(conversation: ToolConversation) -> None:
    path = kept(conversation, "a.png", picture(PNG), PNG)
    conversation.artifacts.objects.clear()
    assert rows(read(conversation, path))[0]["reason"] == "body_missing"


def test_the_pictures_among_rows_of_the_pool_are_attached_beside_the_rows(
    conversation: ToolConversation,
) -> None:
    path = kept(conversation, "a.png", picture(PNG), PNG)
    about: dict[str, Any] = {"source_type": "file", "path": path, "mime": PNG, "title": "A chart"}
    conversation.sources = {1: Source(sid=1, url="https://example.org", title="x"), 2: Source(sid=2, **about)}
    output = read(conversation, "so:sources_pool[1-2]")
    assert [row["path"] for row in rows(output)] == ["so:sources_pool[1-2]", path]
    assert sent(conversation, output) == [picture(PNG)]


def test_a_whole_pool_attaches_none_of_its_pictures(conversation: ToolConversation) -> None:
    path = kept(conversation, "a.png", picture(PNG), PNG)
    conversation.sources = {2: Source(sid=2, source_type="file", path=path, mime=PNG, title="A chart")}
    assert sent(conversation, read(conversation, "so:sources_pool")) == []


def test_a_read_by_a_program_attaches_nothing(conversation: ToolConversation) -> None:
    conversation.caps = ReadCaps().without_media()
    for data, mime in ((picture(PNG), PNG), (pdf(), PDF)):
        output = read(conversation, kept(conversation, "a", data, mime))
        assert (output.status, rows(output)[0]["status"]) == ("error", "metadata_only")
