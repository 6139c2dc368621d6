"""The text of an answer whose pieces a provider cut at any position."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from stepline.adapters.provider.client import AnswerText

PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
HALVES = st.sampled_from(["\ud83d", "\ude00"])
UNITS = st.lists(st.one_of(st.text(max_size=4), HALVES), max_size=30)


def join(pair: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(pair[1]) - 0xD800) << 10) + ord(pair[2]) - 0xDC00)


@given(units=UNITS, sizes=st.lists(st.integers(min_value=0, max_value=7), max_size=20))
@example(units=["\ud83d", "\ude00"], sizes=[1, 1])
@example(units=["\ud83d", "\ud83d", "\ude00"], sizes=[1, 0, 1, 1])
def test_the_text_is_the_same_wherever_it_is_cut(units: list[str], sizes: list[int]) -> None:
    rest = sent = "".join(units)
    text, added = AnswerText(100), ""
    for size in (*sizes, len(sent)):
        piece, rest = rest[:size], rest[size:]
        added += text.add("") + text.add(piece)
    added += text.end()
    whole = re.sub("[\ud800-\udfff]", "\ufffd", PAIR.sub(join, sent))
    assert added == text.kept == whole
