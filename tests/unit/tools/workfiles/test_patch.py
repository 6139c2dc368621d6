from __future__ import annotations

import json

import pytest

from stepline.model.block import Body, Produced
from stepline.tools.workfiles.patch import PATCH_MAX_CHARS, PATCHED_MAX_BYTES
from tests.unit.tools.logged_tools import LoggedTools

CODE = "import math\n\n\ndef area(r):\n    return r * r\n"
DIFF = "@@ -4,2 +4,2 @@\n def area(r):\n-    return r * r\n+    return math.pi * r * r\n"
NEW = CODE.replace("r * r", "math.pi * r * r")


@pytest.fixture
def tools() -> LoggedTools:
    made = LoggedTools()
    made.put("files/app/main.py", CODE)
    return made


def patch(tools: LoggedTools, text: str, path: str = "files/app/main.py", **more: str):
    return tools.call("react.patch", {"path": path, "patch": text, **more})


def test_a_diff_changes_the_lines_that_it_names(tools):
    result = tools.ok("react.patch", {"path": "files/app/main.py", "patch": DIFF})
    assert tools.files() == {"files/app/main.py": NEW}
    path = f"fi:{tools.turn}.files/app/main.py"
    assert (result["path"], result["ok"], result["format"], result["hunks"]) == (path, True, "diff", 1)
    assert (result["added"], result["removed"], result["changed"]) == (
        1,
        1,
        [{"line_start": 5, "line_count": 1}],
    )
    assert result["line_count"] == 5
    assert "moved" not in result
    assert "white_space_ignored" not in result


def test_any_other_text_is_the_whole_new_file(tools):
    result = tools.ok("react.patch", {"path": "files/app/main.py", "patch": "x = 1\n"})
    assert tools.files() == {"files/app/main.py": "x = 1\n"}
    assert result["format"] == "whole"


def test_front_matter_is_no_diff_and_the_format_can_be_given(tools):
    tools.put("outputs/a.md", "# A\n")
    matter = "---\ntitle: A\n---\n# A\n"
    tools.ok("react.patch", {"path": "outputs/a.md", "patch": matter})
    assert tools.files()["outputs/a.md"] == matter
    tools.ok("react.patch", {"path": "outputs/a.md", "patch": DIFF, "format": "whole"})
    assert tools.files()["outputs/a.md"] == DIFF
    assert tools.fails("react.patch", {"path": "outputs/a.md", "patch": matter, "format": "diff"})[0] == (
        "invalid_hunk_header"
    )


def test_a_fenced_diff_is_a_diff(tools):
    patch(tools, f"```diff\n{DIFF}```")
    assert tools.files() == {"files/app/main.py": NEW}


def test_the_result_is_the_status_then_the_file_then_the_diff_as_applied(tools):
    status, file, view = patch(tools, DIFF.replace("-4,2 +4,2", "-1,9 +1,7")).blocks
    assert status.path.endswith(".result")
    assert file.path == f"fi:{tools.turn}.files/app/main.py"
    assert file.body is not None
    assert view.path.endswith(".view.0")
    assert view.meta["source_path"] == file.path
    assert view.text.splitlines()[2] == "@@ -4,2 +4,2 @@"
    assert json.loads(status.text)["moved"] == [1]


def test_the_path_of_a_patched_file_still_leads_to_the_file(tools):
    patch(tools, DIFF)
    output = tools.call("react.read", {"paths": [f"fi:{tools.turn}.files/app/main.py"]})
    assert output.blocks[-1].text.endswith(NEW)


def test_ignored_white_space_is_reported(tools):
    result = tools.ok(
        "react.patch", {"path": "files/app/main.py", "patch": DIFF.replace("-    return", "-\treturn")}
    )
    assert result["white_space_ignored"] == [1]


@pytest.mark.parametrize(
    ("channel", "kind", "visibility", "kept_kind"),
    [
        (None, None, "external", "display"),
        ("canvas", "file", "external", "file"),
        ("internal", None, "internal", "file"),
    ],
)
def test_channel_and_kind_are_those_of_a_write(tools, channel, kind, visibility, kept_kind):
    asked = {"path": "files/app/main.py", "channel": channel, "patch": DIFF, "kind": kind}
    result = tools.ok("react.patch", {name: value for name, value in asked.items() if value})
    assert (result["visibility"], result["kind"]) == (visibility, kept_kind)


def test_a_file_of_a_program_is_patched_with_any_extension(tools):
    key = "out/makefile"
    tools.artifacts.put(key, b"all:\n\techo a\n", mime="application/octet-stream")
    body = Body(key=key, sha256="ab" * 32, size_bytes=13, mime="application/octet-stream")
    tools.keep(Produced(path=f"fi:{tools.turn}.files/Makefile", body=body))
    tools.ok("react.patch", {"path": "files/Makefile", "patch": "@@ -2 +2 @@\n-\techo a\n+\techo b\n"})
    assert tools.files()["files/Makefile"] == "all:\n\techo b\n"


def test_a_hunk_that_does_not_fit_names_its_first_wrong_line_and_the_read_that_shows_it(tools):
    code, notice = tools.fails(
        "react.patch", {"path": "files/app/main.py", "patch": DIFF.replace("def area(r)", "def area(radius)")}
    )
    assert code == "hunk_mismatch"
    assert notice["mismatch_diagnostic"] == {
        "hunk_index": 1,
        "requested_start_line": 4,
        "first_mismatch": {
            "patch_line": 2,
            "target_line": 4,
            "expected": "def area(radius):",
            "actual": "def area(r):",
        },
    }
    item = notice["suggested_read"]
    assert item == {
        "path": f"fi:{tools.turn}.files/app/main.py",
        "line_start": 1,
        "line_count": 15,
        "line_numbers": "disabled",
    }
    assert CODE in tools.call("react.read", {"items": [item]}).blocks[-1].text


def test_an_ambiguous_hunk_names_its_possible_lines(tools):
    tools.put("files/a.txt", "x\ny\nx\ny\n")
    _, notice = tools.fails("react.patch", {"path": "files/a.txt", "patch": "@@ -9 +9 @@\n-x\n+z\n"})
    assert notice["mismatch_diagnostic"]["places"] == [1, 3]
    assert "first_mismatch" not in notice["mismatch_diagnostic"]


def test_either_both_hunks_apply_or_none(tools):
    wrong = "@@ -9 +9 @@\n-nothing of this\n+x\n"
    assert (
        tools.fails("react.patch", {"path": "files/app/main.py", "patch": DIFF + wrong})[0] == "hunk_mismatch"
    )


READ = "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(CODE.splitlines(), 1))


@pytest.mark.parametrize(
    "pasted",
    [
        READ,
        "[READ RANGE]\npath: x\n" + CODE,
        "[TEXT FILE PREVIEW]\n" + CODE,
        "@@ -4,2 +4,2 @@\n      4\tdef area(r):\n-     5\t    return r * r\n+     5\t    return 2\n",
        CODE * 9 + "\n".join(f"{n:>6}\tx" for n in range(5)),
    ],
)
def test_text_copied_with_its_line_numbers_is_refused(tools, pasted):
    code, _ = tools.fails("react.patch", {"path": "files/app/main.py", "patch": pasted})
    assert code == "patch_contains_preview_line_numbers"


def test_a_file_that_is_numbered_itself_may_be_patched_so(tools):
    table = "".join(f"{n}\tname {n}\n" for n in range(1, 9))
    tools.put("files/table.tsv", table)
    tools.ok(
        "react.patch",
        {"path": "files/table.tsv", "patch": "@@ -1,2 +1,2 @@\n-1\tname 1\n+1\tfirst\n 2\tname 2\n"},
    )
    assert tools.files()["files/table.tsv"].startswith("1\tfirst\n")
    tools.ok("react.patch", {"path": "files/table.tsv", "patch": table})


@pytest.mark.parametrize("name", ["a.py", "a.json", "a.js", "a.jsx", "a.ts", "a.tsx", "a.html"])
def test_an_invalid_patched_file_is_kept_and_reported(tools, name):
    bad = "<p><b></p>" if name.endswith("html") else "(1,\n2]]\n"
    tools.put(f"files/{name}", "1\n")
    output = patch(tools, bad, f"files/{name}")
    notice = json.loads(output.blocks[0].text)
    assert output.status == "ok"
    assert notice["code"] == "post_patch_check_failed"
    assert notice["suggested_read"]["path"] == f"fi:{tools.turn}.files/{name}"
    assert tools.files()[f"files/{name}"] == bad


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("files/none.py", "patch_target_missing"),
        ("main.py", "patch_target_missing"),
        ("attachments/in.txt", "patch_unsupported_namespace"),
        ("ar:turn_0001.user.prompt", "patch_unsupported_namespace"),
        ("fi:turn_0001.user.attachments/a.txt", "patch_unsupported_namespace"),
        ("fi:turn_0000.files/a.py", "patch_requires_current_turn_path"),
        ("turn_0000/files/a.py", "patch_requires_current_turn_path"),
        ("files/../main.py", "path_dot_segment"),
        ("/etc/passwd", "path_absolute"),
    ],
)
def test_a_path_that_is_no_file_of_this_turn_is_refused(tools, path, code):
    assert tools.fails("react.patch", {"path": path, "patch": DIFF})[0] == code


def test_a_file_of_an_earlier_turn_is_answered_with_the_checkout(tools):
    first = tools.next_turn()
    _, notice = tools.fails("react.patch", {"path": f"fi:{first}.files/app/main.py", "patch": DIFF})
    hint = notice["checkout_hint"].removeprefix("react.checkout ")
    assert tools.ok("react.checkout", json.loads(hint))["ok"]
    tools.ok("react.patch", {"path": notice["suggested_path"], "patch": DIFF})
    assert tools.files() == {"files/app/main.py": NEW}


def test_bytes_a_large_file_and_one_that_is_gone_are_not_patched(tools):
    for name, data, size, code in (
        ("a.bin", b"\xff\xfe", 2, "patch_target_unreadable"),
        ("b.txt", b"a\0b", 3, "patch_target_unreadable"),
        ("c.txt", b"a", PATCHED_MAX_BYTES + 1, "patch_target_unreadable"),
        ("d.txt", None, 1, "body_missing"),
    ):
        body = Body(key=f"out/{name}", sha256="ab" * 32, size_bytes=size, mime="text/plain")
        if data is not None:
            tools.artifacts.put(body.key, data, mime="text/plain")
        tools.keep(Produced(path=f"fi:{tools.turn}.outputs/{name}", body=body))
        output = patch(tools, DIFF, f"outputs/{name}")
        assert output.error is not None
        assert output.error["code"] == code


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"path": "files/app/main.py"}, "bad_params"),
        ({"patch": DIFF}, "bad_params"),
        ({"path": "", "patch": DIFF}, "bad_params"),
        ({"path": "files/app/main.py", "patch": ""}, "bad_params"),
        ({"path": "files/app/main.py", "patch": "x" * (PATCH_MAX_CHARS + 1)}, "bad_params"),
        ({"path": "files/app/main.py", "patch": DIFF, "channel": "timeline_text"}, "bad_params"),
        ({"path": "files/app/main.py", "patch": DIFF, "kind": "other"}, "bad_params"),
        ({"path": "files/app/main.py", "patch": DIFF, "format": "ed"}, "bad_params"),
        ({"path": "files/app/main.py", "patch": DIFF, "fuzz": 3}, "bad_params"),
        ({"path": "files/app/main.py", "patch": " \n"}, "missing_patch"),
        ({"patch": DIFF, "path": "files/app/main.py"}, "path_not_first"),
        ({"path": "files/app/main.py", "patch": DIFF, "channel": "canvas"}, "channel_not_second"),
        ({"path": "files/app/main.py", "kind": "file", "patch": DIFF}, "patch_not_third"),
    ],
)
def test_a_call_that_breaks_the_contract_is_refused(tools, params, code):
    assert tools.fails("react.patch", params)[0] == code
