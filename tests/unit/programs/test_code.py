from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.programs.code import EXCERPT_CHARS_MAX, NAMED_MAX, check_program, notice_code
from tests.unit.programs.program_run import OLD, TURN

PRESENT = {
    f"{OLD}/outputs/sales.csv",
    f"{OLD}/outputs/my data.csv",
    f"{OLD}/files/src/app.py",
    f"{OLD}/attachments/plan.pdf",
    f"{OLD}/external/mail/attachments/m1/a.txt",
    f"{TURN}/outputs/new.csv",
}


def refused(code: str, present=PRESENT) -> ToolError:
    with pytest.raises(ToolError) as caught:
        check_program(code, turn=TURN, present=present)
    return caught.value


@pytest.mark.parametrize("code", ["", " \n\t\n"])
def test_an_empty_channel_is_no_program(code) -> None:
    assert refused(code).reason == "exec_missing_code"


@pytest.mark.parametrize(
    ("code", "marker", "line"),
    [
        ("print(1)\n</channel:code>", "</channel:", 2),
        ("a = 1\n\nx = '<CHANNEL:thinking>'", "<channel:", 3),
        ("<Thinking>first I load it</thinking>\nprint(1)", "<thinking>", 1),
        ("print(1)\n\n</thinking>", "</thinking>", 3),
        ("\n\n  ```python\nprint(1)\n```", "`", 3),
        ("`print(1)`", "`", 1),
    ],
)
def test_a_leftover_of_the_generation_is_found_with_its_line(code, marker, line) -> None:
    error = refused(code)
    assert error.reason == "exec_code_contaminated"
    assert (error.context["marker"], error.context["line"]) == (marker, line)
    assert error.context["excerpt"] == code.split("\n")[line - 1]


def test_the_excerpt_of_a_long_line_is_cut() -> None:
    assert len(refused("x = '" + "ü" * 5000 + "'  # <thinking>").context["excerpt"]) == EXCERPT_CHARS_MAX


@pytest.mark.parametrize("code", ["print('`')", "print('channel:code')", "x = 1\n`", "thinking = '<think>'"])
def test_a_text_that_only_resembles_a_leftover_may_run(code) -> None:
    check_program(code, turn=TURN, present=())


@pytest.mark.parametrize(
    "code",
    [
        f"open(OUTPUT_DIR + '/{OLD}/outputs/sales.csv')",
        f"open(f'{{OUTPUT_DIR}}/{OLD}/outputs/sales.csv')",
        f"open('../{OLD}/outputs/my data.csv')",
        f"note = 'it is in {OLD}/outputs/sales.csv and nowhere else'",
        f"os.listdir('{OLD}/files/src')",
        f"os.listdir('{OLD}/files/src/')",
        f"glob(f'{{root}}/{OLD}/outputs/*.csv')",
        f"open(f'{{root}}/{OLD}/outputs/sal{{kind}}.csv')",
        f"open('{OLD}/attachments/plan.pdf')",
        f"cite = 'fi:{OLD}.user.attachments/plan.pdf'",
        f"cite = 'fi:{OLD}.external.mail.attachments/m1/a.txt'",
        f'"""Reads fi:{OLD}.outputs/sales.csv."""',
        f"open('{TURN}/outputs/not_there_yet.csv', 'w')",
        f"cite = 'fi:{TURN}.outputs/not_there_yet.csv'",
        f"# once read {OLD}/outputs/gone.csv\nprint(1)",
        f"turn = '{OLD}'",
        f"show('tc:{OLD}.tc_0123456789ab.result')",
        f"x = 'no_{OLD}/outputs/gone.csv'",
    ],
)
def test_a_program_runs_if_its_named_files_are_present(code) -> None:
    check_program(code, turn=TURN, present=PRESENT)


@pytest.mark.parametrize(
    ("code", "path"),
    [
        (f"open(OUTPUT_DIR + '/{OLD}/outputs/gone.csv')", "outputs/gone.csv"),
        (f"open(rf'{{OUTPUT_DIR}}/{OLD}/files/gone.csv')", "files/gone.csv"),
        (f"open('{OLD}/outputs/my lost data.csv')", "outputs/my lost data.csv"),
        (f"x = 'see {OLD}/outputs/gone.csv, please.'", "outputs/gone.csv"),
        (f"os.listdir('{OLD}/files/other/')", "files/other"),
        (f"glob('{OLD}/files/other/*.py')", "files/other"),
        (f"x = '''\n{OLD}/outputs/gone.csv\n'''", "outputs/gone.csv"),
        (f"x = '{OLD}/outputs/gone.csv\\n'", "outputs/gone.csv"),
        (f"this is 'no {OLD}/outputs/gone.csv' Python", "outputs/gone.csv"),
        (f"x = '{OLD}/outputs/gone.csv", "outputs/gone.csv"),
    ],
)
def test_a_missing_file_of_another_turn_must_be_pulled(code, path) -> None:
    error = refused(code)
    assert error.reason == "pre_exec_pull_required"
    assert error.context["missing"] == [f"{OLD}/{path}"]
    assert error.context["logical_missing"] == [f"fi:{OLD}.{path}"]
    assert f'react.pull {{"paths":["fi:{OLD}.{path}"]}}' in error.context["pull_hint"]


def test_an_attachment_is_named_by_its_logical_path() -> None:
    error = refused(f"open('{OLD}/attachments/gone.pdf'); x = 'fi:{OLD}.user.attachments/gone.pdf'")
    assert error.context["missing"] == [f"{OLD}/attachments/gone.pdf"]
    assert error.context["logical_missing"] == [f"fi:{OLD}.user.attachments/gone.pdf"]


def test_only_the_first_of_many_missing_files_are_named() -> None:
    code = "\n".join(f"open('{OLD}/outputs/{i}.csv')" for i in range(NAMED_MAX + 5))
    error = refused(code)
    assert f"{NAMED_MAX + 5} files" in str(error)
    assert len(error.context["missing"]) == NAMED_MAX


def test_a_long_text_of_open_quotes_is_read_once() -> None:
    check_program("x = '" + "\\'" * 60_000 + f"'  # {OLD}/outputs/gone.csv", turn=TURN, present=())


@given(st.text(alphabet=f"'\"\\#\n{{}}/. {OLD[:6]}", max_size=60), st.text(max_size=20))
def test_any_text_is_checked_without_an_error_of_another_kind(text, tail) -> None:
    reason = ""
    try:
        check_program(f"{text}'{OLD}/outputs/{tail}{text}", turn=TURN, present=())
    except ToolError as error:
        reason = error.reason
    assert reason in ("", "pre_exec_pull_required", "exec_code_contaminated")


def test_every_refusal_before_a_run_has_its_notice() -> None:
    assert {
        code: notice_code(code) for code in ("exec_missing_code", "pre_exec_pull_required", "bad_params")
    } == {
        "exec_missing_code": "protocol_violation.exec_missing_code",
        "pre_exec_pull_required": "protocol_violation.exec_requires_pull",
        "bad_params": "bad_params",
    }
    assert notice_code("invalid_filename") == "protocol_violation.exec_contract_invalid"
