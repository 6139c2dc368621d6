from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.usage import estimate_tokens
from stepline.tools.context import ReadCaps, ToolOutput, fit_read_caps
from tests.unit.tools.conftest import TURN, ToolConversation, read_status

RESULT = f"tc:{TURN}.tc_000000000001.result"
FILE = f"fi:{TURN}.outputs/report.md"
SMALL = ReadCaps(max_chars=100, max_tokens=10_000, max_bytes=100_000)


def read(conversation: ToolConversation, **params: Any) -> ToolOutput:
    return conversation.call("react.read", params)


def rows(output: ToolOutput) -> list[dict[str, Any]]:
    return read_status(output)["paths"]


def row(output: ToolOutput) -> dict[str, Any]:
    (only,) = rows(output)
    return only


def views(output: ToolOutput) -> list[str]:
    return [block.text for block in output.blocks if ".view." in block.path]


def numbered(count: int) -> str:
    return "".join(f"line {n}\n" for n in range(1, count + 1))


def test_a_written_file_is_read_back_unchanged(conversation):
    conversation.call("react.write", {"path": "report.md", "content": "Grüße\n"})
    output = read(conversation, paths=[FILE])
    status, view = output.blocks
    assert status.path.endswith(".result")
    assert view.path == f"tc:{TURN}.{status.call_id}.view.0"
    assert view.text == "Grüße\n"
    assert view.mime == "text/markdown"
    assert view.meta["source_path"] == FILE
    assert view.meta["whole"] is True
    assert row(output) == {
        "path": FILE,
        "mime": "text/markdown",
        "bytes": 8,
        "text_symbols": 6,
        "line_count": 1,
        "tokens": 3,
        "kind": "display",
        "visible_tokens": 3,
        "view": view.path,
    }


def test_a_note_beside_a_file_is_not_read_as_part_of_it(conversation):
    conversation.call(
        "react.write", {"path": "report.md", "channel": "internal", "content": "[D] UTC", "scratchpad": True}
    )
    assert views(read(conversation, items=[{"path": FILE, "line_numbers": "disabled", "line_start": 1}]))[
        0
    ].endswith("\n[D] UTC")


@pytest.mark.parametrize(
    "path",
    [RESULT, f"ar:{TURN}.user.prompt", f"ws:{TURN}.conv.working.summary.attempt.1", f"fi:{TURN}.code.tc_1"],
)
def test_every_family_of_the_log_is_read(conversation, path):
    conversation.say(path, "text", mime="text/plain")
    conversation.groups.append((conversation.say("ar:other", "hides nothing"),))
    conversation.visible = lambda _: None
    assert views(read(conversation, paths=[path])) == ["text"]


def test_an_alias_is_answered_with_its_target_path(conversation):
    conversation.say(f"ws:{TURN}.conv.working.summary.attempt.1", "sum")
    conversation.visible = lambda _: None
    answer = row(read(conversation, paths=[f"ws:{TURN}.conv.working.summary"]))
    assert answer["path"] == f"ws:{TURN}.conv.working.summary.attempt.1"
    assert answer["requested"] == f"ws:{TURN}.conv.working.summary"


def test_a_view_never_replaces_its_source(conversation):
    conversation.say(RESULT, numbered(4000))
    read(conversation, items=[{"path": RESULT, "line_start": 5, "line_count": 8}])
    answer = row(read(conversation, paths=[RESULT], stats_only=True))
    assert (answer["line_count"], answer["text_symbols"]) == (4000, len(numbered(4000)))


def test_statistics_show_nothing(conversation):
    conversation.call("react.write", {"path": "report.md", "content": "a\nb"})
    output = read(conversation, paths=[FILE], stats_only=True)
    assert row(output)["status"] == "stats_only"
    assert {"bytes", "text_symbols", "line_count", "tokens"} <= row(output).keys()
    assert views(output) == []


def test_several_ranges_of_one_path_are_served_in_order(conversation):
    conversation.say(RESULT, numbered(50))
    items = [{"path": RESULT, "line_start": n, "line_count": 1} for n in (40, 3, 17)]
    output = read(conversation, items=items)
    assert [view.rpartition("\t")[2] for view in views(output)] == ["line 40\n", "line 3\n", "line 17\n"]
    assert [answer["read_range"]["lines"] for answer in rows(output)] == [
        "[40-40]/50",
        "[3-3]/50",
        "[17-17]/50",
    ]


def test_a_range_reports_its_position(conversation):
    conversation.say(RESULT, numbered(9))
    (view,) = views(read(conversation, items=[{"path": RESULT, "line_start": 2, "line_count": 2}]))
    assert view == (
        f"[READ RANGE]\npath: {RESULT}\nlines: [2-3]/9\ntext_symbols: [7-21]/63\nline_numbers: lines\n\n"
        "     2\tline 2\n     3\tline 3\n"
    )


def test_an_offset_of_zero_is_an_offset(conversation):
    conversation.say(RESULT, "abcdef")
    output = read(conversation, items=[{"path": RESULT, "offset_text_symbols": 0, "max_text_symbols": 2}])
    assert row(output)["read_range"] == {
        "range_kind": "text_symbols",
        "offset_text_symbols": 0,
        "text_symbols": 2,
        "lines": "[none]/1",
        "partial_lines": [1],
    }
    assert "status" not in row(output)


def test_a_text_over_the_cap_is_a_preview_that_names_the_next_read(conversation):
    conversation.caps = SMALL
    conversation.say(RESULT, numbered(40))
    conversation.visible = lambda _: None
    output = read(conversation, paths=[RESULT])
    (view,) = views(output)
    answer = row(output)
    assert answer["status"] == "truncated_for_visible_context"
    assert read_status(output)["truncated_paths"] == [RESULT]
    assert view.startswith("[READ PREVIEW]")
    assert "partial_line: 14\n" in view
    assert f"[READ PREVIEW TRUNCATED]\nomitted_text_symbols: {len(numbered(40)) - 100} after" in view
    assert json.dumps({"items": [answer["next"]]}, separators=(",", ":")) in view


def test_a_smaller_preview_may_be_requested_but_never_a_larger_one(conversation):
    conversation.caps = SMALL
    conversation.say(RESULT, "x" * 500)
    conversation.visible = lambda _: None
    assert row(read(conversation, paths=[RESULT], max_text_symbols=7))["read_range"]["text_symbols"] == 7
    assert row(read(conversation, paths=[RESULT], max_text_symbols=700))["read_range"]["text_symbols"] == 100


def test_tokens_and_bytes_cap_a_text_with_few_characters(conversation):
    conversation.caps = ReadCaps(max_chars=48_000, max_tokens=100, max_bytes=1_000_000)
    conversation.say(RESULT, "語" * 5000)
    conversation.visible = lambda _: None
    shown = row(read(conversation, paths=[RESULT]))
    assert shown["visible_tokens"] <= 100
    conversation.caps = ReadCaps(max_chars=48_000, max_tokens=12_000, max_bytes=64)
    assert (
        row(read(conversation, paths=[RESULT]))["read_range"]["text_symbols"] == (64 - len("     1\t")) // 3
    )


def test_a_marker_replaces_a_content_that_does_not_fit(conversation):
    conversation.caps = ReadCaps(max_chars=100, max_tokens=1, max_bytes=100)
    conversation.say(RESULT, "x" * 500)
    output = read(conversation, items=[{"path": RESULT, "line_start": 1}])
    assert views(output)[0].startswith("[LARGE READ NOT MATERIALIZED]")
    assert read_status(output)["large_paths"] == [RESULT]


def test_content_that_the_model_sees_already_is_not_repeated(conversation):
    conversation.say(RESULT, "short")
    output = read(conversation, paths=[RESULT])
    assert views(output) == []
    assert row(output)["status"] == "exists_in_visible_context"
    assert read_status(output)["exists_in_visible_context"] == [RESULT]
    assert read_status(output)["visible_context_refs"][RESULT]["path"] == RESULT


def test_a_file_read_whole_before_is_not_repeated_until_it_changes(conversation):
    conversation.call("react.write", {"path": "report.md", "content": "one"})
    first = read(conversation, paths=[FILE])
    again = read(conversation, paths=[FILE])
    assert row(again)["status"] == "exists_in_visible_context"
    ref = read_status(again)["visible_context_refs"][FILE]
    assert (ref["path"], ref["tool_result_path"]) == (
        first.blocks[1].meta["source_path"],
        first.blocks[0].path,
    )
    conversation.call("react.write", {"path": "report.md", "content": "two"})
    assert views(read(conversation, paths=[FILE])) == ["two"]


def test_a_part_that_was_seen_is_not_the_whole(conversation):
    conversation.call("react.write", {"path": "report.md", "content": numbered(5)})
    read(conversation, items=[{"path": FILE, "line_start": 1, "line_count": 2}])
    assert views(read(conversation, paths=[FILE])) == [numbered(5)]


def test_a_range_is_shown_whether_it_was_seen_or_not(conversation):
    conversation.say(RESULT, "short")
    assert len(views(read(conversation, items=[{"path": RESULT, "line_start": 1}]))) == 1


def test_an_empty_file_is_empty_and_nothing_else(conversation):
    conversation.call("react.write", {"path": "report.md", "content": ""})
    output = read(conversation, paths=[FILE], items=[{"path": FILE, "line_start": 1}])
    assert [answer["status"] for answer in rows(output)] == ["empty", "empty"]
    assert rows(output)[0]["line_count"] == 0
    assert views(output) == []


def test_the_same_request_twice_is_one(conversation):
    conversation.call("react.write", {"path": "report.md", "content": "x"})
    assert len(rows(read(conversation, paths=[FILE, FILE], items=[FILE]))) == 1


@pytest.mark.parametrize(
    ("path", "flaw", "reason"),
    [
        (f"tc:{TURN}.tc_000000000009.result", "missing", "not_found"),
        ("tc:turn_20200101T000000_000000.tc_000000000009.result", "missing", "turn_not_found"),
        (f"tc:{TURN}.tc_000000000009.view.0", "missing", "view_not_readable"),
        ("ar:plan.latest:plan_x", "missing", "not_found"),
        ("so:sources_pool[1]", "missing", "not_found"),
        ("sk:pdf-press", "missing", "family_not_available"),
        ("ks:docs/a.md", "missing", "family_not_available"),
        (f"fi:{TURN}.files/../../x", "invalid", "path_dot_segment"),
        ("nonsense:x", "invalid", "path_unknown_family"),
    ],
)
def test_a_path_without_content_is_a_row_with_a_reason(conversation, path, flaw, reason):
    conversation.say(RESULT, "here")
    output = read(conversation, paths=[path, RESULT])
    notice = output.blocks[0]
    assert output.status == "ok"
    assert rows(output)[0][flaw] is True
    assert rows(output)[0]["reason"] == reason
    assert "reason" not in rows(output)[1]
    assert read_status(output)[flaw] == [path]
    assert json.loads(notice.text)["missing"] == [{"path": path, "reason": reason}]
    assert notice.meta == {"code": "read_paths_missing", "rel": "result"}


@pytest.mark.parametrize("text", ["report.md", "outputs/report.md", f"{TURN}/outputs/report.md"])
def test_a_physical_path_is_answered_with_the_files_logical_path(conversation, text):
    answer = row(read(conversation, paths=[text]))
    assert (answer["reason"], answer["suggested_path"]) == ("path_not_logical", FILE)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"line_start": 10}, "range_outside"),
        ({"offset_text_symbols": 63}, "range_outside"),
        ({"line_start": 1, "offset_text_symbols": 0}, "range_ambiguous"),
    ],
)
def test_a_range_that_does_not_exist_is_invalid(conversation, item, reason):
    conversation.say(RESULT, numbered(9))
    answer = row(read(conversation, items=[{"path": RESULT, **item}]))
    assert (answer["invalid"], answer["reason"]) == (True, reason)


@pytest.mark.parametrize("params", [{}, {"paths": []}, {"paths": [], "items": []}, {"stats_only": True}])
def test_a_call_that_names_nothing_is_refused_with_a_status(conversation, params):
    output = read(conversation, **params)
    assert output.error is not None
    assert output.error["code"] == "read_nothing_requested"
    assert read_status(output)["status"] == "error"


def test_a_partly_served_read_is_ok_and_each_row_has_its_status(conversation):
    png = conversation.keep(f"fi:{TURN}.user.attachments/a.png", b"\x89PNG\r\n\x1a\n...", "image/png")
    conversation.call("react.write", {"path": "report.md", "content": "x"})
    output = read(conversation, paths=[png.path, FILE, f"fi:{TURN}.outputs/gone.md"])
    assert output.status == "ok"
    assert [answer.get("status") or answer.get("reason") for answer in rows(output)] == [
        "metadata_only",
        None,
        "not_found",
    ]


def test_a_read_without_any_content_is_an_error(conversation):
    output = read(conversation, paths=[FILE, "nonsense"])
    assert (output.status, output.error["code"]) == ("error", "read_nothing_attached")


def test_content_already_in_view_and_statistics_are_a_success(conversation):
    conversation.call("react.write", {"path": "report.md", "content": "x"})
    assert read(conversation, paths=[FILE], stats_only=True).status == "ok"
    assert [read(conversation, paths=[FILE]).status for _ in range(2)] == ["ok", "ok"]


def test_an_invalid_picture_is_not_shown_and_reported(conversation):
    page = conversation.keep(f"fi:{TURN}.user.attachments/a.png", b"<html><script>", "image/png")
    output = read(conversation, paths=[page.path])
    assert row(output)["status"] == "metadata_only"
    assert row(output)["flaw"].startswith("content_type_mismatch: ")
    assert output.blocks[-1].body is None


@pytest.mark.parametrize(
    ("data", "mime"), [(b"PK\x03\x04", "application/zip"), (b"\xff\xfe\x00", "text/plain")]
)
def test_other_bytes_are_named_but_not_shown(conversation, data, mime):
    block = conversation.keep(f"fi:{TURN}.user.attachments/a", data, mime)
    output = read(conversation, paths=[block.path])
    assert row(output)["status"] == "metadata_only"
    assert row(output)["bytes"] == len(data)


def test_bytes_that_are_gone_are_missing(conversation):
    conversation.call("react.write", {"path": "report.md", "content": "x"})
    conversation.artifacts.objects.clear()
    assert row(read(conversation, paths=[FILE]))["reason"] == "body_missing"


def test_blocks_at_one_path_are_read_in_order(conversation):
    conversation.groups.append((conversation.say(RESULT, "first"), conversation.say(RESULT, "second")))
    conversation.visible = lambda _: None
    assert views(read(conversation, paths=[RESULT])) == ["first\nsecond"]


@given(
    st.text(alphabet=st.sampled_from(["a", "語", "\n", "\r", "7", "\t"]), min_size=1, max_size=300),
    st.integers(1, 60),
    st.sampled_from(["disabled", "lines"]),
)
def test_following_the_next_items_reads_the_whole_text(text, max_chars, numbers):
    conversation = ToolConversation(caps=ReadCaps(max_chars=max_chars, max_tokens=4_000, max_bytes=10_000))
    conversation.say(RESULT, text)
    item: dict[str, Any] | None = {"path": RESULT, "line_start": 1, "line_numbers": numbers}
    seen = ""
    while item is not None:
        answer = row(read(conversation, items=[item]))
        piece = answer["read_range"]
        assert piece["offset_text_symbols"] == len(seen)
        assert 0 < piece["text_symbols"] <= max_chars
        assert answer["visible_tokens"] <= 4_000
        seen += text[len(seen) : len(seen) + piece["text_symbols"]]
        item = answer.get("next")
    assert seen == text


@given(
    st.text(alphabet=st.sampled_from(["a", "é", "\n"]), min_size=1, max_size=200),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 50),
)
def test_the_pieces_of_a_line_range_are_that_range_and_no_more(text, first, count, max_chars):
    lines = text.split("\n")[: text.count("\n") + (not text.endswith("\n"))]
    conversation = ToolConversation(caps=ReadCaps(max_chars=max_chars, max_tokens=4_000, max_bytes=10_000))
    conversation.say(RESULT, text)
    item = {"path": RESULT, "line_start": first, "line_count": count, "line_numbers": "disabled"}
    seen = ""
    while item is not None:
        output = read(conversation, items=[item])
        if first > len(lines):
            assert row(output)["reason"] == "range_outside"
            return
        body = views(output)[0].split("\n\n", 1)[1]
        seen += body[: row(output)["read_range"]["text_symbols"]]
        item = row(output).get("next")
    wanted = "".join(f"{line}\n" for line in lines[first - 1 : first - 1 + count])
    assert seen in (wanted, wanted.removesuffix("\n"))


def test_caps_shrink_with_the_models_window_but_never_below_a_floor():
    def caps(window_tokens: int) -> ReadCaps:
        return fit_read_caps(
            ReadCaps(max_chars=48_000, max_tokens=12_000, max_bytes=10),
            context_fraction=0.15,
            window_tokens=window_tokens,
        )

    assert (caps(200_000).max_tokens, caps(200_000).max_chars) == (12_000, 48_000)
    assert (caps(40_000).max_tokens, caps(40_000).max_chars) == (6_000, 24_000)
    assert (caps(1_000).max_tokens, caps(1_000).max_chars) == (4_000, 16_000)


def test_the_default_caps_limit_the_shown_tokens(conversation):
    conversation.say(RESULT, "word " * 40_000)
    conversation.visible = lambda _: None
    shown = row(read(conversation, paths=[RESULT]))
    assert shown["visible_tokens"] <= 12_000
    assert shown["tokens"] == estimate_tokens("word " * 40_000)
