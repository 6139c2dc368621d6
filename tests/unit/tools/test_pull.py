from __future__ import annotations

import json

import pytest

from stepline.model.block import Produced
from stepline.tools.pull import TREE_FILES_MAX
from tests.unit.tools.logged_tools import LoggedTools, status_of, stored


@pytest.fixture
def tools() -> LoggedTools:
    return LoggedTools()


def test_an_exact_file_is_pulled_to_where_its_turn_wrote_it(tools):
    tools.write("outputs/sales.csv")
    first = tools.next_turn()
    path = f"fi:{first}.outputs/sales.csv"
    assert tools.pull(path) == {
        "requested": [path],
        "pulled": [
            {
                "logical_path": path,
                "physical_path": f"{first}/outputs/sales.csv",
                "file_count": 1,
                "size_bytes": 25,
                "mime": "text/csv",
            }
        ],
    }
    assert tools.workspace() == [f"{first}/outputs/sales.csv"]


def test_a_pull_changes_nothing_but_the_workspace_of_programs(tools):
    tools.write("outputs/sales.csv")
    first = tools.next_turn()
    kept = dict(tools.artifacts.objects)
    output = tools.call("react.pull", {"paths": [f"fi:{first}.outputs/sales.csv"]})
    assert [block.body for block in output.blocks] == [None]
    assert tools.artifacts.objects == kept
    assert not tools.log.timeline().resolve(f"fi:{tools.turn}.outputs/sales.csv")


@pytest.mark.parametrize("ref", ["files/site", "files/site/", "files/", "files"])
def test_a_folder_of_the_project_is_pulled_whole(tools, ref):
    tools.write("files/site/index.html", "files/site/css/a.css", "outputs/other.md")
    first = tools.next_turn()
    (row,) = tools.pull(f"fi:{first}.{ref}")["pulled"]
    below = "" if ref.startswith("files/site") else "site/"
    root = "files/site/" if ref.startswith("files/site") else "files/"
    assert row == {
        "logical_root": f"fi:{first}.{root}",
        "physical_root": f"{first}/{root}",
        "file_count": 2,
        "size_bytes": 28 + 29,
        "tree": [f"{below}css/a.css", f"{below}index.html"],
        "tree_truncated": False,
        "omitted_files": 0,
        "path_rule": {"logical": f"fi:{first}.{root}<path>", "physical": f"{first}/{root}<path>"},
    }
    assert tools.workspace() == [f"{first}/files/site/css/a.css", f"{first}/files/site/index.html"]


def test_a_large_folder_is_pulled_whole_and_named_in_part(tools):
    turn = tools.turn
    tools.keep(*(stored(f"fi:{turn}.files/{n:03}.txt") for n in range(TREE_FILES_MAX + 5)))
    first = tools.next_turn()
    (row,) = tools.pull(f"fi:{first}.files/")["pulled"]
    assert (row["file_count"], len(row["tree"])) == (TREE_FILES_MAX + 5, TREE_FILES_MAX)
    assert (row["tree_truncated"], row["omitted_files"]) == (True, 5)
    assert len(tools.workspace()) == TREE_FILES_MAX + 5


def test_an_attachment_is_pulled_by_its_name(tools):
    turn = tools.turn
    tools.keep(
        stored(f"fi:{turn}.user.attachments/in.pdf"), stored(f"fi:{turn}.external.mail.attachments/m1/x.eml")
    )
    first = tools.next_turn()
    tools.pull(f"fi:{first}.user.attachments/in.pdf", f"fi:{first}.external.mail.attachments/m1/x.eml")
    assert tools.workspace() == [
        f"{first}/attachments/in.pdf",
        f"{first}/external/mail/attachments/m1/x.eml",
    ]


def test_a_file_of_this_turn_is_there_already(tools):
    tools.write("outputs/a.md")
    path = f"fi:{tools.turn}.outputs/a.md"
    output = tools.call("react.pull", {"paths": [path]})
    (row,) = json.loads(status_of(output).text)["pulled"]
    assert row["status"] == "already_in_workspace"
    assert status_of(output).meta == {"pulled": []}


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ("outputs/sales.csv", "not_a_fi_ref"),
        ("turn_0001/outputs/sales.csv", "not_a_fi_ref"),
        ("ar:turn_0001.user.prompt", "not_a_fi_ref"),
        ("so:sources_pool[1]", "not_a_fi_ref"),
        ("/etc/passwd", "unresolvable_fi_ref"),
        ("fi:turn_0001.outputs/../files/x", "unresolvable_fi_ref"),
        ("fi:turn_0001.secrets/x", "unresolvable_fi_ref"),
        ("fi:turn_0001", "unresolvable_fi_ref"),
        ("fi:turn_0001.code.tc_0123456789ab", "unresolvable_fi_ref"),
        ("fi:turn_0001.outputs", "output_pulls_require_exact_file_ref"),
        ("fi:turn_0001.outputs/", "output_pulls_require_exact_file_ref"),
        ("fi:turn_0001.outputs/charts", "output_pulls_require_exact_file_ref"),
        ("fi:turn_0001.outputs/charts/", "output_pulls_require_exact_file_ref"),
        ("fi:turn_0001.user.attachments", "attachment_pulls_require_exact_file_ref"),
        ("fi:turn_0001.user.attachments/", "attachment_pulls_require_exact_file_ref"),
        ("fi:turn_0001.external.mail.attachments/m1/", "attachment_pulls_require_exact_file_ref"),
    ],
)
def test_an_unsupported_path_is_not_pulled_and_the_reason_is_reported(tools, ref, reason):
    tools.write("outputs/charts/a.md", "outputs/sales.csv")
    assert tools.turn == "turn_0001"
    tools.next_turn()
    said = tools.pull(ref)
    assert [row["reason"] for row in said["invalid"]] == [reason]
    assert said["pulled"] == []
    assert tools.workspace() == []


def test_a_physical_path_is_answered_with_the_logical_one(tools):
    (row,) = tools.pull("turn_0001/outputs/sales.csv")["invalid"]
    assert row["suggested_path"] == "fi:turn_0001.outputs/sales.csv"


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ("fi:turn_0001.outputs/nothing.csv", "not_found"),
        ("fi:turn_0001.files/nothing/", "not_found"),
        ("fi:turn_9999.outputs/sales.csv", "turn_not_found"),
        ("fi:turn_of-somebody-else.files/", "turn_not_found"),
    ],
)
def test_a_pull_reports_a_missing_file(tools, ref, reason):
    tools.write("outputs/sales.csv")
    tools.next_turn()
    assert [row["reason"] for row in tools.pull(ref)["missing"]] == [reason]


def test_a_deleted_file_is_missing(tools):
    tools.write("files/a.txt")
    tools.log.act(("exec_tools.execute_code_python", {}))
    gone = Produced(text="Status: success", meta={"deleted": [f"{tools.turn}/files/a.txt"]})
    tools.log.result(tool="exec_tools.execute_code_python", blocks=(gone,))
    first = tools.next_turn()
    assert tools.pull(f"fi:{first}.files/a.txt")["missing"][0]["reason"] == "not_found"


def test_a_view_is_not_pulled(tools):
    tools.keep(Produced(path=f"fi:{tools.turn}.outputs/a.csv", text="[TEXT FILE PREVIEW]\na,b"))
    first = tools.next_turn()
    assert tools.pull(f"fi:{first}.outputs/a.csv")["missing"][0]["reason"] == "not_found"


def test_an_invalid_path_is_reported_and_does_not_affect_the_others(tools):
    tools.write("outputs/sales.csv")
    first = tools.next_turn()
    good = f"fi:{first}.outputs/sales.csv"
    output = tools.call("react.pull", {"paths": ["nonsense", good, f"fi:{first}.outputs/gone", good]})
    notice, status = output.blocks
    assert json.loads(notice.text)["code"] == "pull_paths_missing"
    said = json.loads(status.text)
    assert said["requested"] == ["nonsense", good, f"fi:{first}.outputs/gone"]
    assert [row["logical_path"] for row in said["pulled"]] == [good]
    assert status.meta == {"pulled": [f"{first}/outputs/sales.csv"]}
    assert tools.workspace() == [f"{first}/outputs/sales.csv"]


def test_the_prefix_of_conversations_is_an_alias(tools):
    tools.write("outputs/sales.csv")
    first = tools.next_turn()
    assert tools.pull(f"conv:fi:{first}.outputs/sales.csv")["pulled"][0]["file_count"] == 1


@pytest.mark.parametrize("params", [{}, {"paths": []}, {"paths": "fi:x"}, {"paths": ["fi:x"], "mode": "all"}])
def test_a_call_that_breaks_the_contract_is_refused(tools, params):
    output = tools.call("react.pull", params)
    assert output.status == "error"
    assert output.error is not None
    assert output.error["code"] == "bad_params"
