"""Case files: what they hold, and the file, line and key of each error."""

import re

import pytest

from stepline.errors import InputError
from stepline.local.evaluation.case_file import CASE_BYTES, find_cases, read_case

GOOD = """\
about: A greeting.
steps:
  - message: Hello.
checks:
  - answer: {contains: [Hello]}
"""


def refusal(tmp_path, text):
    path = tmp_path / "case.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_case(path)
    assert caught.value.reason == "case_invalid"
    found = re.fullmatch(rf"{re.escape(str(path))}, line (\d+): (.*)", str(caught.value), re.DOTALL)
    assert found, str(caught.value)
    assert "\n" not in found[2]
    return int(found[1]), found[2]


def test_a_case_has_its_steps_and_its_checks(tmp_path):
    (tmp_path / "case.yaml").write_text(GOOD)
    case = read_case(tmp_path / "case.yaml")
    assert case.steps[0].message == "Hello."
    assert case.checks[0].kind == "answer"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (f"{GOOD}chekcs: []\n", 6, "`chekcs` is not a key of a case"),
        (GOOD.replace("answer:", "anwser:"), 5, "`checks[0].anwser` is not a key of a case"),
        (
            GOOD.replace("contains: [Hello]", "contains: Hello"),
            5,
            "`checks[0].answer.contains` is invalid: expected `array`, got `str`",
        ),
        (GOOD.replace("message: Hello.", "message: 5"), 3, "`steps[0].message` is invalid: expected `str`, got `int`"),
        (GOOD.replace("message: Hello.", "massage: Hello."), 3, "`steps[0].massage` is not a key of a case"),
        (GOOD.replace("about: A greeting.", "user: ada"), 1, "the case lacks `about`"),
        (GOOD.replace("about: A greeting.", "about: x\nsettings:\n  A_NEW_ONE: '1'"), 3, "`settings.A_NEW_ONE` is not a"),
        (GOOD.replace("contains: [Hello]", "matches: ['(']"), 5, "`checks[0].answer.matches[0]` is invalid: '(' is no"),
        (GOOD.replace("contains: [Hello]", "schema: {type: strin}"), 5, "`checks[0].answer.schema` is invalid"),
        (GOOD.replace("answer: {contains: [Hello]}", "rounds: {}"), 5, "`checks[0].rounds` needs `min` or `max`"),
        (GOOD.replace("answer: {contains: [Hello]}", "turn: 1"), 5, "`checks[0]` needs one of `called`"),
        (GOOD.replace("- answer:", "- turn: 2\n    answer:"), 5, "`checks[0].turn` is more than the 1 steps"),
        (GOOD.replace("Hello.\n", "Hello.\n    approve: shop.pay\n", 1), 3, "`steps[0]` needs one of `message`"),
        (GOOD.replace("Hello.\n", "Hello.\n    files:\n      - gone.txt\n", 1), 5, "`steps[0].files[0]` names 'gone.txt'"),
        (GOOD.replace("Hello.\n", "Hello.\n    files: [../case.yaml]\n", 1), 4, "`steps[0].files[0]` leads out of"),
        (GOOD.replace("Hello.\n", "Hello.\n    meanwhile:\n      - after_round: 0\n", 1), 5, "`steps[0].meanwhile[0].after_round`"),
        (f"{GOOD}about: Again.\n", 6, "`about` is there twice"),
        (f"{GOOD}canaries: {{survive: {{}}}}\n", 6, "`canaries` is a whole case"),
        (f"{GOOD}1: 2\n", 6, "`1` is not a text"),
        ("about: x\n", 1, "the case needs `steps` and `checks`"),
        ("- a\n", 1, "the case is invalid: expected `object`, got `array`"),
        ("", 1, "the case is invalid: expected `object`, got `null`"),
        ("about: [\n", 2, "the case is not YAML"),
        (b"about: \x00", 1, "the case is not YAML"),
        (b"about: \xff\xfe\xff", 1, "the case is not YAML"),
        ("[" * 5_000, 1, "the case is not YAML: more than 10,000 values, or 40 levels"),
        (f"about: [{'1,' * 11_000}]", 1, "the case is not YAML: more than 10,000 values, or 40 levels"),
        (
            "".join(f"k{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(9)),
            1,
            "the case has more than 10,000 values, or 40 levels",
        ),
        ("about: &a [*a]\n", 1, "the case has more than 10,000 values, or 40 levels"),
        ("x" * (CASE_BYTES + 1), 1, f"the case has more than {CASE_BYTES} bytes"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_the_line_and_the_key(tmp_path, text, line, said):
    found, why = refusal(tmp_path, text)
    assert why.startswith(said)
    assert found == line


def test_a_tag_of_python_makes_nothing(tmp_path):
    marker = tmp_path / "made"
    line, _ = refusal(tmp_path, f"about: !!python/object/apply:pathlib.Path.touch ['{marker}']\n")
    assert line == 1
    assert not marker.exists()


def test_a_folder_has_its_cases_by_name_and_a_broken_one_has_its_error(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/good.yaml").write_text(GOOD)
    (tmp_path / "bad.yml").write_text("about: x\n")
    for folder in ("files", "good.files", "good.history"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.yaml").write_text("- 1\n")
    found = {file.name: bool(file.case) for file in find_cases(tmp_path)}
    assert found == {"bad": False, "deep/good": True}
    assert [file.name for file in find_cases(tmp_path / "deep/good.yaml")] == ["good"]


def test_a_folder_without_cases_is_an_error(tmp_path):
    with pytest.raises(InputError) as caught:
        find_cases(tmp_path)
    assert caught.value.reason == "cases_not_found"
