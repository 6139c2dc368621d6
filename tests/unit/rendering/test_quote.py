"""Quoting: data stays data, blobs stay out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.rendering.excerpt import cap_params
from stepline.rendering.quote import (
    BLOB_CHARS,
    clean_for_prompt,
    clip,
    inline,
    inline_json,
    label,
    quote,
)
from stepline.rendering.render_entry import PARAMS_CHARS, render_params
from tests.support.log_builder import patient

anything = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("\n\r\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 []"))
)


@patient
@given(anything)
def test_quoted_lines_are_indented(text: str):
    assert all(line.startswith("  ") for line in quote(text).splitlines())


@patient
@given(st.text("ab c\n[]┌━", max_size=200))
def test_quoting_plain_text_loses_nothing(text: str):
    assert quote(text).removeprefix("  ").replace("\n  ", "\n") == text


@patient
@given(anything)
def test_inline_text_and_json_are_one_line(text: str):
    assert len(f"x{inline(text)}".splitlines()) == 1
    assert len(inline_json({"k": text}).splitlines()) == 1
    assert "\0" not in inline(text)


@patient
@given(st.integers(0, 3000), st.integers(BLOB_CHARS, 9000), st.sampled_from(["", "=", "=="]))
def test_an_encoded_blob_is_named_and_left_out(at: int, size: int, padding: str):
    text = "a b " * (at // 4) + "Q" * size + padding + " the end"
    cleaned = clean_for_prompt(text)
    assert "QQQQ" not in cleaned
    assert f"<{size + len(padding)} characters of encoded data left out>" in cleaned
    assert cleaned.endswith(" the end")


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x08", "␈"),
        ("\x7f", "␡"),
        ("\x9b31m", "\ufffd31m"),
        ("\u202e", "\ufffd"),
        ("\u200b", "\ufffd"),
        ("\ufeff", "\ufffd"),
        ("\U000e0041\U000e0042", "\ufffd\ufffd"),
    ],
)
def test_invisible_characters_are_shown(hidden: str, shown: str):
    for around in ("plain", "ä"):
        assert quote(f"{around}{hidden}.") == f"  {around}{shown}."


def test_characters_of_ordinary_text_are_unchanged():
    family, persian, hebrew = "👨\u200d👩\u200d👧", "می\u200cروم", "\u05d0\u200f!\u200e"
    text = f"soft\u00adhyphen {family} {persian} {hebrew}\n\ttab"
    assert clean_for_prompt(text) == text


def test_long_prose_and_short_runs_are_no_blobs():
    for text in ("word " * 5000, ("x" * (BLOB_CHARS - 1) + " ") * 5, "line\n" * 3000):
        assert clean_for_prompt(text) == text


def test_long_parameters_are_cut_and_say_so():
    params = {
        "path": "a.md",
        "content": "c" * 150,
        "q": "q" * 300,
        "items": ["i" * 900],
        "n": {"deep": "d" * 900},
    }
    text, whole = render_params(params)
    shown = json.loads(text)
    assert not whole
    assert shown["path"] == "a.md"
    assert shown["q"] == params["q"]
    assert shown["content"] == "c" * 100 + "… [50 more characters]"
    assert shown["items"] == ["i" * 100 + "… [800 more characters]"]
    assert shown["n"]["deep"].startswith("d" * 100 + "…")
    assert render_params({"path": "a.md", "content": "c" * 100, "q": params["q"]})[1]


def test_many_parameters_are_cut_too():
    text, whole = render_params({"many": list(range(60)), "keys": {str(i): i for i in range(90)}})
    shown = json.loads(text)
    assert (shown["many"][-1], shown["keys"]["…"], whole) == ("… [10 more items]", "[10 more keys]", False)
    text, whole = render_params({str(i): ["x" * 300] * 40 for i in range(80)})
    assert (len(text) < PARAMS_CHARS + 100, whole) == (True, False)
    assert not render_params({str(i): i for i in range(81)})[1]


@given(
    st.recursive(anything | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(anything, inner))
)
def test_parameters_are_one_line_and_whole_only_if_they_are(value):
    text, whole = render_params({"q": value})
    assert len(text.splitlines()) == 1
    if whole and json.dumps(value, ensure_ascii=False).isascii():  # other line breaks become spaces
        assert json.loads(text) == {"q": value}


@given(anything, st.integers(1, 50))
def test_a_clipped_text_is_one_line_within_its_limit(text: str, chars: int):
    assert len(clip(text, chars)) <= chars
    assert len(f"x{clip(text, chars)}".splitlines()) == 1


@given(anything)
def test_text_cannot_end_a_label_early(text: str):
    assert json.loads(label(text)) == inline(text)
    assert len(label(text).splitlines()) == 1


def test_a_preview_caps_strings_keys_and_items():
    params = {
        "s": "s" * 2001,
        "many": {str(i): i for i in range(90)},
        "list": list(range(60)),
        "ok": "s" * 2000,
    }
    shown, omitted = cap_params(params)
    assert omitted == ["s", "many", "list"]
    assert shown["ok"] == params["ok"]
    assert shown["many"]["__omitted_keys__"] == 10
    assert len(shown["list"]) == 51
    assert shown["list"][-1] == {"__omitted_items__": 10}
    assert shown["s"]["truncated"] is True
    assert cap_params({"a": [{"b": 1}]}) == ({"a": [{"b": 1}]}, [])
