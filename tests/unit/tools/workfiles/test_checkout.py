from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.block import Body, Produced
from stepline.tools.workfiles.checkout import CHECKOUT_FILES_MAX
from tests.unit.tools.logged_tools import LoggedTools, status_of


@pytest.fixture
def tools() -> LoggedTools:
    return LoggedTools()


def project(tools: LoggedTools, *paths: str) -> str:
    """Write a project, end its turn and return it."""
    tools.write(*paths)
    return tools.next_turn()


def test_a_project_of_an_earlier_turn_is_one_of_this_turn(tools):
    first = project(tools, "files/a.py", "files/lib/b.py", "outputs/report.md")
    result = tools.ok("react.checkout", {"paths": [f"fi:{first}.files/"]})
    assert tools.files() == {"files/a.py": "this is files/a.py", "files/lib/b.py": "this is files/lib/b.py"}
    assert result == {
        "ok": True,
        "mode": "replace",
        "checked_out_from": [f"fi:{first}.files/"],
        "checked_out": [{"source": f"fi:{first}.files/", "files": 2}],
        "materialized": {
            "file_count": 2,
            "tree": ["a.py", "lib/b.py"],
            "tree_truncated": False,
            "omitted_files": 0,
            "target_root": f"{tools.turn}/files/",
            "target_logical_root": f"fi:{tools.turn}.files/",
            "path_rule": {
                "logical": f"fi:{tools.turn}.files/<path>",
                "physical": f"{tools.turn}/files/<path>",
            },
        },
        "missing": [],
        "errors": [],
    }


def test_a_checkout_stores_no_byte(tools):
    first = project(tools, "files/a.py")
    kept = dict(tools.artifacts.objects)
    tools.ok("react.checkout", {"version": first})
    assert tools.artifacts.objects == kept


def test_checked_out_files_can_be_read_patched_and_checked_out_again(tools):
    first = project(tools, "files/a.md")
    tools.ok("react.checkout", {"version": first})
    path = f"fi:{tools.turn}.files/a.md"
    assert "this is files/a.md" in tools.call("react.read", {"paths": [path]}).blocks[-1].text
    tools.ok("react.patch", {"path": "files/a.md", "patch": "that is\n"})
    second = tools.next_turn()
    tools.ok("react.checkout", {"version": second})
    assert tools.files() == {"files/a.md": "that is\n"}
    assert tools.ok("react.pull", {"paths": [f"fi:{first}.files/a.md"]})["pulled"][0]["file_count"] == 1


def test_replace_removes_other_files_and_overlay_keeps_them(tools):
    first = project(tools, "files/a.py", "files/b.py")
    tools.put("files/b.py", "another b")
    tools.put("files/c.py", "c")
    second = tools.next_turn()
    tools.ok("react.checkout", {"version": first})
    result = tools.ok("react.checkout", {"mode": "overlay", "paths": [f"fi:{second}.files/b.py"]})
    assert tools.files() == {"files/a.py": "this is files/a.py", "files/b.py": "another b"}
    assert result["checked_out_from"] == [f"fi:{first}.files/", f"fi:{second}.files/b.py"]
    assert result["materialized"]["file_count"] == 2
    result = tools.ok("react.checkout", {"mode": "replace", "paths": [f"fi:{second}.files/c.py"]})
    assert tools.files() == {"files/c.py": "c"}
    assert (result["removed"], result["removed_count"]) == (["a.py", "b.py"], 2)
    assert result["checked_out_from"] == [f"fi:{second}.files/c.py"]


def test_the_record_names_the_sources_of_the_files(tools):
    first = project(tools, "files/a.py")
    tools.ok("react.checkout", {"version": first})
    path = f"ar:{tools.turn}.react.workspace.checkout"
    (block,) = tools.log.timeline().resolve(path)
    assert block.type == "react.workspace.checkout"
    assert json.loads(block.text) == {"mode": "replace", "checked_out_from": [f"fi:{first}.files/"]}


def test_the_later_of_two_overlapping_paths_wins(tools):
    first = project(tools, "files/a.py", "files/lib/b.py")
    tools.put("files/a.py", "newer")
    second = tools.next_turn()
    tools.ok("react.checkout", {"paths": [f"fi:{second}.files/a.py", f"fi:{first}.files/"]})
    assert tools.files()["files/a.py"] == "this is files/a.py"
    tools.ok("react.checkout", {"paths": [f"fi:{first}.files", f"fi:{second}.files/a.py"]})
    assert tools.files()["files/a.py"] == "newer"


def test_files_of_this_turn_are_replaced_only_by_force(tools):
    first = project(tools, "files/a.py")
    tools.put("files/a.py", "mine")
    tools.put("files/b.py", "mine, too")
    tools.put("outputs/c.md", "stays")
    params = {"paths": [f"fi:{first}.files/"]}
    code, notice = tools.fails("react.checkout", params)
    assert (code, notice["files"]) == ("react.checkout.nonempty", ["a.py", "b.py"])
    tools.ok("react.checkout", {**params, "force": True})
    assert tools.files() == {"files/a.py": "this is files/a.py", "outputs/c.md": "stays"}
    tools.ok("react.patch", {"path": "files/a.py", "patch": "mine again"})
    assert tools.fails("react.checkout", params)[0] == "react.checkout.nonempty"
    tools.ok("react.checkout", {**params, "mode": "overlay"})
    assert tools.files()["files/a.py"] == "this is files/a.py"


def test_a_checkout_may_be_done_again(tools):
    first = project(tools, "files/a.py")
    for _ in range(2):
        tools.ok("react.checkout", {"version": first})
    assert tools.files() == {"files/a.py": "this is files/a.py"}


def test_a_new_file_or_folder_replaces_the_other_kind_at_its_path(tools):
    first = project(tools, "files/a")
    second = project(tools, "files/a/b")
    tools.ok("react.checkout", {"version": first})
    result = tools.ok("react.checkout", {"mode": "overlay", "paths": [f"fi:{second}.files/"]})
    assert (list(tools.files()), result["removed"]) == (["files/a/b"], ["a"])
    result = tools.ok("react.checkout", {"mode": "overlay", "paths": [f"fi:{first}.files/a"]})
    assert (list(tools.files()), result["removed"]) == (["files/a"], ["a/b"])


def test_names_that_are_one_on_some_systems_are_refused(tools):
    first = project(tools, "files/README.md")
    second = project(tools, "files/readme.md")
    tools.ok("react.checkout", {"version": first})
    code, notice = tools.fails("react.checkout", {"mode": "overlay", "paths": [f"fi:{second}.files/"]})
    assert (code, notice["taken"]) == ("path_clash", "README.md")


def test_a_name_that_was_removed_is_free_again(tools):
    first = project(tools, "files/README.md")
    second = project(tools, "files/b.md")
    tools.ok("react.checkout", {"version": first})
    tools.ok("react.checkout", {"version": second})
    tools.ok("react.write", {"path": "files/readme.md", "content": "x"})


def test_checked_out_files_are_silent_and_not_offered_to_the_user(tools):
    first = project(tools, "files/a.py")
    output = tools.call("react.checkout", {"version": first})
    assert all(block.meta.get("silent") for block in output.blocks[1:])
    assert not any("visibility" in block.meta for block in output.blocks)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("files/a.py", "not_a_fi_ref"),
        ("turn_0001/files/a.py", "not_a_fi_ref"),
        ("ar:turn_0001.user.prompt", "not_a_fi_ref"),
        ("fi:turn_0001.outputs/r.md", "not_below_files"),
        ("fi:turn_0001.user.attachments/a.txt", "not_below_files"),
        ("fi:turn_0001.files/../a.py", "unresolvable_fi_ref"),
        ("fi:turn_0001.files/a\\b", "unresolvable_fi_ref"),
        ("fi:turn_0001.secrets/a.py", "unresolvable_fi_ref"),
        ("fi:NOW.files/a.py", "current_turn"),
        ("fi:NOW.files/", "current_turn"),
    ],
)
def test_a_path_that_is_no_part_of_an_earlier_project_is_invalid(tools, path, reason):
    project(tools, "files/a.py", "outputs/r.md")
    code, notice = tools.fails("react.checkout", {"paths": [path.replace("NOW", tools.turn)]})
    assert code == "protocol_violation.checkout_invalid_paths"
    assert [row["reason"] for row in notice["invalid"]] == [reason]


def test_a_missing_path_refuses_the_whole_checkout(tools):
    first = project(tools, "files/a.py")
    code, notice = tools.fails(
        "react.checkout",
        {"paths": [f"fi:{first}.files/a.py", f"fi:{first}.files/none/", "fi:turn_9999.files/"]},
    )
    assert code == "react.checkout.failed"
    assert [row["reason"] for row in notice["missing"]] == ["not_found", "turn_not_found"]


def test_a_project_that_is_too_large_is_refused(tools):
    body = Body(key="out/k", sha256="ab" * 32, size_bytes=1, mime="text/plain")
    tools.keep(
        *(Produced(path=f"fi:{tools.turn}.files/{n}", body=body) for n in range(CHECKOUT_FILES_MAX + 1))
    )
    first = tools.next_turn()
    output = tools.call("react.checkout", {"version": first})
    assert output.error is not None
    assert output.error["code"] == "checkout_too_large"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "protocol_violation.checkout_missing_paths"),
        ({"mode": "overlay"}, "protocol_violation.checkout_missing_paths"),
        (
            {"version": "turn_0001", "paths": ["fi:turn_0001.files/"]},
            "protocol_violation.checkout_invalid_paths",
        ),
        ({"version": "../turn_0001"}, "protocol_violation.checkout_invalid_paths"),
        ({"version": "NOW"}, "protocol_violation.checkout_invalid_paths"),
        ({"version": "turn_9999"}, "react.checkout.failed"),
        ({"paths": []}, "bad_params"),
        ({"paths": "fi:turn_0001.files/"}, "bad_params"),
        ({"paths": [""]}, "bad_params"),
        ({"paths": ["fi:turn_0001.files/"], "mode": "merge"}, "bad_params"),
        ({"paths": ["fi:turn_0001.files/"], "force": "yes"}, "bad_params"),
        ({"path": "fi:turn_0001.files/"}, "bad_params"),
    ],
)
def test_a_call_that_breaks_the_contract_is_refused(tools, params, code):
    project(tools, "files/a.py")
    params = {name: tools.turn if value == "NOW" else value for name, value in params.items()}
    assert tools.fails("react.checkout", params)[0] == code


names = st.sampled_from(["a", "b", "c/d", "c/e"])


@given(st.sets(names, min_size=1), st.sets(names), st.sampled_from(["replace", "overlay"]))
def test_files_are_those_of_the_source_and_with_overlay_the_others_too(there, here, mode):
    tools = LoggedTools()
    first = project(tools, *(f"files/{name}" for name in sorted(there)))
    for name in sorted(here):
        tools.put(f"files/{name}", "mine")
    output = tools.call("react.checkout", {"mode": mode, "paths": [f"fi:{first}.files/"], "force": True})
    expected = dict.fromkeys(here, "mine") if mode == "overlay" else {}
    expected |= {name: f"this is files/{name}" for name in there}
    assert tools.files() == {f"files/{name}": text for name, text in expected.items()}
    assert json.loads(status_of(output).text)["materialized"]["tree"] == sorted(expected)
