from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.model.file.mime import guess_mime
from stepline.programs.contract import CONTRACT_FILES_MAX, REWRITTEN, normalise_contract
from tests.unit.programs.program_run import OLD, TURN, at


def entry(filename="outputs/a.csv", description="the table", **fields):
    return {"filename": filename, "description": description, **fields}


def contract(*items):
    return normalise_contract({"contract": list(items)}, turn=TURN)


def refused(params, *, turn=TURN) -> ToolError:
    with pytest.raises(ToolError) as caught:
        normalise_contract(params, turn=turn)
    return caught.value


def test_a_promised_file_gets_path_name_type_and_visibility() -> None:
    (file,) = contract(entry("outputs/monthly.totals.csv", " Totals ")).files
    assert (file.filename, file.name, file.mime) == (
        at("outputs/monthly.totals.csv"),
        "monthly.totals",
        "text/csv",
    )
    assert (file.description, file.visibility) == ("Totals", "external")


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("a.csv", at("outputs/a.csv")),
        ("deep/a.csv", at("outputs/deep/a.csv")),
        ("outputs/a.csv", at("outputs/a.csv")),
        ("files/src/a.py", at("files/src/a.py")),
        (f"{TURN}/files/a.py", at("files/a.py")),
        (f"fi:{TURN}.outputs/a.csv", at("outputs/a.csv")),
    ],
)
def test_a_name_leads_into_the_current_turn(written, taken) -> None:
    assert contract(entry(written)).files[0].filename == taken


def test_a_completed_name_gets_a_notice_and_a_full_one_does_not() -> None:
    (notice,) = contract(entry("a.csv"), entry(at("outputs/b.csv"))).notices
    assert notice.code == REWRITTEN
    assert notice.extra == {"rewritten": {"a.csv": at("outputs/a.csv")}}
    assert contract(entry(at("outputs/b.csv"))).notices == ()


def test_a_contract_may_be_json_text() -> None:
    text = json.dumps([entry("a.csv")])
    assert normalise_contract({"contract": text}, turn=TURN) == contract(entry("a.csv"))


def test_items_that_are_not_objects_are_ignored_and_the_alias_accepted() -> None:
    found = contract("x", 7, None, {"filepath": "a.csv", "description": "d"})
    assert [file.filename for file in found.files] == [at("outputs/a.csv")]


def test_files_of_one_stem_get_numbers_and_every_name_stays_unique() -> None:
    found = contract(entry("a.csv"), entry("a.png"), entry("a_2.txt"), entry("deep/a.json"))
    assert [file.name for file in found.files] == ["a", "a_2", "a_2_2", "a_3"]


@pytest.mark.parametrize(
    ("given_", "taken"),
    [(None, "external"), ("", "external"), ("Internal", "internal"), (" EXTERNAL ", "external")],
)
def test_visibility_is_read_without_its_case(given_, taken) -> None:
    assert contract(entry(visibility=given_)).files[0].visibility == taken


REFUSED = [
    ({}, "missing_artifacts"),
    ({"contract": None}, "missing_artifacts"),
    ({"contract": ""}, "missing_artifacts"),
    ({"contract": "outputs/a.csv"}, "invalid_artifacts_json"),
    ({"contract": "[" * 100_000}, "invalid_artifacts_json"),
    ({"contract": []}, "invalid_artifacts"),
    ({"contract": "[]"}, "invalid_artifacts"),
    ({"contract": {"a": entry()}}, "invalid_artifacts"),
    ({"contract": ["outputs/a.csv"]}, "invalid_artifacts"),
    ({"contract": [entry(f"{i}.txt") for i in range(CONTRACT_FILES_MAX + 1)]}, "invalid_artifacts"),
    ({"contract": [entry("")]}, "invalid_artifact_spec"),
    ({"contract": [entry(7)]}, "invalid_artifact_spec"),
    ({"contract": [entry(description=" \n")]}, "invalid_artifact_spec"),
    ({"contract": [{"filename": "a"}]}, "invalid_artifact_spec"),
    ({"contract": [entry(visibility="public")]}, "invalid_artifact_spec"),
    ({"contract": [entry(visibility=True)]}, "invalid_artifact_spec"),
    ({"contract": [entry("/etc/passwd")]}, "invalid_filename"),
    ({"contract": [entry("../a")]}, "invalid_filename"),
    ({"contract": [entry("outputs/../../a")]}, "invalid_filename"),
    ({"contract": [entry("outputs/")]}, "invalid_filename"),
    ({"contract": [entry("a\nb")]}, "invalid_filename"),
    ({"contract": [entry("attachments/a.csv")]}, "invalid_filename"),
    ({"contract": [entry(f"{TURN}/attachments/a.csv")]}, "invalid_filename"),
    ({"contract": [entry(f"{OLD}/outputs/a.csv")]}, "invalid_filename"),
    ({"contract": [entry(f"{TURN}/work/a.csv")]}, "invalid_filename"),
    ({"contract": [entry("a.csv"), entry("outputs/a.csv")]}, "invalid_filename"),
    ({"contract": [entry("a.csv"), entry("A.CSV")]}, "invalid_filename"),
    ({"contract": [entry("a"), entry("a/b.csv")]}, "invalid_filename"),
]


@pytest.mark.parametrize(("params", "code"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_contract_that_cannot_be_kept_is_refused(params, code) -> None:
    assert refused(params).reason == code


def test_the_checks_run_in_their_order() -> None:
    assert refused({"contract": []}, turn="").reason == "missing_turn_id"
    both = {"contract": [entry("../a", visibility="public")]}
    assert refused(both).reason == "invalid_artifact_spec"


def test_a_file_of_another_turn_is_refused_with_the_path_to_use() -> None:
    error = refused({"contract": [entry(f"{OLD}/outputs/a.csv")]})
    assert error.context["suggested_path"] == f"fi:{TURN}.outputs/a.csv"
    assert error.context["reason"] == "path_not_current_turn"


@given(st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_every_name_is_a_unique_path_of_the_turn_or_refused(names) -> None:
    try:
        files = contract(*(entry(name) for name in names)).files
    except ToolError as error:
        reason, files, names = error.reason, (), ()
    else:
        reason = ""
    assert reason in ("", "invalid_artifact_spec", "invalid_filename")
    paths = [file.filename for file in files]
    assert len({path.casefold() for path in paths}) == len({file.name for file in files}) == len(names)
    assert all(path.startswith((at("outputs/"), at("files/"))) for path in paths)
    assert all("/../" not in path and "//" not in path for path in paths)


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("a.XLSX", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.tar.gz", "application/gzip"),
        ("a.md", "text/markdown"),
        ("Makefile", "application/octet-stream"),
        (".csv", "application/octet-stream"),
    ],
)
def test_the_extension_determines_the_type(name, mime) -> None:
    assert guess_mime(name) == mime
