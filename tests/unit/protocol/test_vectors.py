"""Generations that models really produce, in `tests/data/vectors`: the number in a name groups what is tested.

1 several decisions · 2 backticks in a program · 3 quoted tags · 4 stray closes · 5 fences in strings ·
6 fences around the decision · 7 what is broken or cut off · 8 tags in a program
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.protocol.play import CITING, SIZES, cut, play

VECTORS = sorted((Path(__file__).parents[2] / "data/vectors").glob("*.txt"))
EXEC = "exec_tools.execute_code_python"
QUOTED = 'Write `<channel:action>{"action": "exit"}</channel:action>` and `</channel:ReactDecisionOutV2>` so.'
PYTHON = "# %s\n\n```python\nx = 1\n```\n\nand `x` again:\n\n```python\nx\n```\n"
LITERALS = (
    '\na = "</channel"\nb = "</channel:"\nc = "<channel:thinking>"\nd = "</channel:thinking>"\n'
    'e = "</channel:co de>"\nf = 1 <c\n'
)

RUN = {"actions": [EXEC], "instances": "thinking 2, ReactDecisionOutV2 1, code 1", "notices": []}
END = {
    "actions": [],
    "instances": "thinking 1, ReactDecisionOutV2 1, code 1, summary 1",
    "notices": [],
    "answer.0": "Done.",
}
EXPECTED = {
    "1_interleaved": {
        "actions": [EXEC, "react.plan", "react.plan"],
        "instances": "thinking 3, ReactDecisionOutV2 3, code 1",
        "notices": [],
        "code.0": "\nprint(1)\n",
        "notes.2": "Another.",
        "thinking.2": "That is the round.",
    },
    "2_backtick_in_code": {**RUN, "code.0": "\nprint('`')\n# `\n", "thinking.1": "It runs ` now."},
    "3_tags_quoted_in_a_bare_answer": {**END, "answer.0": QUOTED},
    "3_tags_quoted_in_a_fenced_answer": {**END, "answer.0": QUOTED},
    "4_stray_closes": END,
    "5_fences_in_content": {
        "actions": ["react.write"] * 3,
        "instances": "thinking 1, ReactDecisionOutV2 3, code 1",
        "notices": [],
        **{f"canvas.{n}": PYTHON % name for n, name in enumerate("abc")},
    },
    "6_fence_on_one_line": END,
    "6_fence_without_end": END,
    "6_object_behind_the_fence": END,
    "6_prose_behind_the_fence": END,
    "7_unknown_channel": {**END, "notices": ["unknown_channel"]},
    "7_other_case": END,
    "7_stray_backtick_in_thinking": {
        **END,
        "thinking.0": "The ` character, and a fence\n```\nnever closed.",
    },
    "7_code_never_closed": {
        **RUN,
        "notices": ["channel_not_closed"],
        "code.0": "\nprint('<channel:thinking>')\nx = 1\n",
        "thinking.1": "It runs.",
    },
    "7_ends_in_a_bracket": {**END, "answer.0": "The list [", "thinking.0": "A list ["},
    "7_ends_in_half_a_citation": {**END, "answer.0": "The source [[S:3", "thinking.0": "A source [[S:3"},
    "7_lone_high_surrogate": {**END, "answer.0": "Whole 😀, half \ufffd, \ufffd and \ufffd\n"},
    "8_tags_in_code": {**RUN, "code.0": LITERALS, "thinking.1": "It runs."},
}


def load(path: Path) -> str:
    return path.read_bytes().decode()


def test_every_vector_is_expected_and_every_number_is_there() -> None:
    assert [path.stem for path in VECTORS] == sorted(EXPECTED)
    assert {name[0] for name in EXPECTED} == set("12345678")


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_is_shown_and_judged_as_expected(path: Path) -> None:
    played = play([load(path)], CITING)
    expected = dict(EXPECTED[path.stem])
    assert played.verdict.accepted
    assert [action.tool_id for action in played.verdict.actions] == expected.pop("actions")
    assert played.codes == expected.pop("notices")
    counted = {one.channel: one.instance + 1 for one in played.transcript.instances}
    assert ", ".join(f"{name} {count}" for name, count in counted.items()) == expected.pop("instances")
    assert {name: played.texts[name] for name in expected} == expected
    assert not any(lane.aborted for lane in played.lanes.values())
    assert not played.cut


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_gives_the_same_at_every_size(path: Path) -> None:
    text = load(path)
    whole = play([text], CITING)
    for size in SIZES:
        assert play(cut(text, size), CITING) == whole


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_the_record_of_a_vector_equals_the_shown_text(path: Path) -> None:
    played = play([load(path)])
    answers = [one.final_answer for one in played.verdict.decisions if one.final_answer]
    assert [text for name, text in played.texts.items() if name.startswith("answer.")] == answers
    written = [a.params["content"] for a in played.verdict.actions if a.tool_id == "react.write"]
    assert [text for name, text in played.texts.items() if name.startswith("canvas.")] == written
    programs = [action.code for action in played.verdict.actions if action.code is not None]
    assert [text for name, text in played.texts.items() if name.startswith("code.")] == programs


def test_the_instances_of_the_first_vector_are_complete_before_the_end() -> None:
    """Vector 1: each instance ends at its own tag, regardless of the rest."""
    played = play([load(VECTORS[0])])
    assert {one.reason for one in played.transcript.instances} == {"normal"}


@pytest.mark.parametrize("name", ["7_unknown_channel", "7_other_case"])
def test_an_unknown_channel_and_one_in_another_case_are_streamed(name: str) -> None:
    assert shown_live(name, "answer.0") == "Done."


def test_a_stray_backtick_and_an_open_fence_hide_no_tag() -> None:
    assert shown_live("7_stray_backtick_in_thinking", "answer.0") == "Done."
    assert shown_live("6_fence_without_end", "answer.0") == "Done."


@pytest.mark.parametrize(
    ("name", "lane", "text"),
    [
        ("3_tags_quoted_in_a_bare_answer", "answer.0", QUOTED),
        ("3_tags_quoted_in_a_fenced_answer", "answer.0", QUOTED),
        ("8_tags_in_code", "code.0", LITERALS),
    ],
)
def test_tags_in_strings_and_programs_are_text(name: str, lane: str, text: str) -> None:
    assert shown_live(name, lane) == text


@pytest.mark.parametrize("size", SIZES)
def test_an_escaped_emoji_stays_whole_at_every_cut(size: int) -> None:
    text = load(VECTORS[0].with_name("7_lone_high_surrogate.txt"))
    shown = play(cut(text, size)).texts["answer.0"]
    assert shown.startswith("Whole 😀, half \ufffd")
    assert shown.encode().decode() == shown


def shown_live(name: str, lane: str) -> str:
    """Return the text of a lane before the last tag of the generation, streamed in single characters."""
    text = load(VECTORS[0].with_name(f"{name}.txt")).rstrip()
    return play(cut(text[: text.rindex("</channel:")], 1), CITING, reason="cancelled").texts[lane]
