from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.model.block import Body, Produced
from stepline.ports.signal import NeverCancelled
from stepline.tools.read.run import REQUESTS_MAX
from stepline.tools.workfiles import rg
from stepline.tools.workfiles.rg import FILE_MAX_BYTES, MATCH_PREVIEW_CHARS, compile_expression, read_root
from tests.unit.tools.logged_tools import LoggedTools, status_of

TEXT = "one\ntwo heron\nthree\nfour Heron\nfive\n"


@pytest.fixture
def tools() -> LoggedTools:
    made = LoggedTools()
    made.put("files/src/a.py", TEXT)
    made.put("files/src/b.md", "no bird\n")
    made.put("outputs/a.md", "a heron\n")
    return made


def search(tools: LoggedTools, **params) -> dict:
    return tools.ok("react.rg", params)


def rel(tools: LoggedTools, result: dict) -> list[str]:
    return [hit["path"].removeprefix(f"{tools.turn}/") for hit in result["hits"]]


def keep(tools: LoggedTools, name: str, data: bytes) -> None:
    body = Body(key=f"out/{name}", sha256="ab" * 32, size_bytes=len(data), mime="text/plain")
    tools.artifacts.put(body.key, data, mime="text/plain")
    tools.keep(Produced(path=f"fi:{tools.turn}.{name}", body=body))


def test_lines_are_found_with_their_file_and_a_read_that_shows_them(tools):
    result = search(tools, pattern="heron", root="files")
    path = f"fi:{tools.turn}.files/src/a.py"
    item = {"path": path, "line_start": 2, "line_count": 1}
    assert result == {
        "root": f"{tools.turn}/files/",
        "hits": [
            {
                "path": f"{tools.turn}/files/src/a.py",
                "logical_path": path,
                "size_bytes": len(TEXT),
                "text_symbols": len(TEXT),
                "line_count": 5,
                "matches": [{"line": 2, "preview": "2: two heron", "read_item": item}],
            }
        ],
        "hit_count": 1,
        "scanned_files": 2,
        "match_count": 1,
        "read_items": [item],
        "max_bytes": 2 * 1024 * 1024,
    }
    read = tools.call("react.read", {"items": result["read_items"]})
    assert read.blocks[-1].text.endswith("2\ttwo heron\n")


def test_files_are_found_by_their_names_without_being_read(tools):
    tools.artifacts.objects.clear()
    result = search(tools, name_regex=r"^a\.")
    assert rel(tools, result) == ["files/src/a.py", "outputs/a.md"]
    assert result["scanned_files"] == 3
    assert "read_items" not in result
    assert rel(tools, search(tools)) == ["files/src/a.py", "files/src/b.md", "outputs/a.md"]


def test_name_and_pattern_narrow_each_other(tools):
    assert rel(tools, search(tools, name_regex=r"\.md$", pattern="heron")) == ["outputs/a.md"]


def test_lines_around_a_match_are_shown_and_read(tools):
    result = search(tools, pattern="(?i)heron", root="files", context_lines=1)
    first, second = result["hits"][0]["matches"]
    assert first["context_lines"] == ["1: one", "3: three"]
    assert second["context_lines"] == ["3: three", "5: five"]
    assert result["read_items"] == [
        {"path": f"fi:{tools.turn}.files/src/a.py", "line_start": 1, "line_count": 5}
    ]


@pytest.mark.parametrize(
    "root",
    [
        "files/src",
        "files/src/",
        "outdir/files/src",
        "{turn}/files/src",
        "fi:{turn}.files/src",
        "fi:{turn}.files/src/",
        "conv:fi:{turn}.files/src",
        "fi:{turn}.files/src/a.py",
        "files/src/a.py",
    ],
)
def test_a_root_is_a_folder_or_a_file_in_any_spelling(tools, root):
    result = search(tools, root=root.format(turn=tools.turn), name_regex="a")
    assert rel(tools, result) == ["files/src/a.py"]


@pytest.mark.parametrize("root", ["", "outdir", "outdir/"])
def test_without_a_root_everything_is_searched(tools, root):
    result = search(tools, root=root)
    assert (result["root"], result["hit_count"]) == ("all", 3)


def test_a_folder_is_no_beginning_of_a_name(tools):
    assert rel(tools, search(tools, root="files/sr")) == []


def test_attachments_are_searched_under_either_name(tools):
    keep(tools, "user.attachments/in.txt", b"a crane\n")
    for root in ("attachments", f"{tools.turn}/attachments", f"fi:{tools.turn}.user.attachments"):
        assert rel(tools, search(tools, root=root, pattern="crane")) == ["attachments/in.txt"]


@pytest.mark.parametrize(
    "root",
    [
        "src",
        "workdir",
        "../files",
        "files/../../x",
        "/etc",
        "files/a\\b",
        "files//a",
        "turn_0001",
        "turn_0001/secrets",
        "turn_0001/files/../../x",
        "fi:turn_0001",
        "fi:turn_0001.secrets/a",
        "fi:turn_0001.files/..",
        "fi:turn_0001.code.tc_0123456789ab",
        "ar:turn_0001.user.prompt",
        "so:sources_pool",
        "files/a\u202eb",
    ],
)
def test_any_other_root_is_refused(tools, root):
    assert tools.fails("react.rg", {"root": root})[0] == "rg_invalid_root"


def test_files_of_an_earlier_turn_are_searched_once_they_are_pulled(tools):
    first = tools.next_turn()
    root = f"fi:{first}.files/src"
    output = tools.call("react.rg", {"root": root, "pattern": "heron"})
    notice, status = output.blocks
    result = json.loads(notice.text)
    assert result["code"] == "rg_root_not_pulled"
    assert json.loads(status.text)["hits"] == []
    assert search(tools, pattern="heron")["hits"] == []
    tools.ok("react.pull", json.loads(result["pull_hint"].removeprefix("react.pull ")))
    assert [hit["logical_path"] for hit in search(tools, root=root, pattern="heron")["hits"]] == [
        f"{root}/a.py"
    ]


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("{turn}/files", "fi:{turn}.files/"),
        ("{turn}/outputs/a.md", "fi:{turn}.outputs/a.md"),
        ("fi:{turn}.external.mail.attachments/m1/x.eml", "fi:{turn}.external.mail.attachments/m1/x.eml"),
        ("{turn}/outputs", None),
        ("{turn}/attachments", None),
    ],
)
def test_a_root_that_was_not_pulled_is_answered_with_the_pull_if_there_is_one(tools, root, path):
    first = tools.next_turn()
    notice = json.loads(tools.call("react.rg", {"root": root.format(turn=first)}).blocks[0].text)
    hint = json.dumps({"paths": [path.format(turn=first)]}, separators=(",", ":")) if path else ""
    assert notice.get("pull_hint", "") == (f"react.pull {hint}" if path else "")


@pytest.mark.parametrize(
    "text", ["(", "a**", r"(?=a)", r"(a)\1", "[", r"\p{Nope}", "a{1001}", "((a{100}){100}){100}", "*"]
)
@pytest.mark.parametrize("param", ["pattern", "name_regex"])
def test_an_invalid_re2_expression_is_refused(tools, param, text):
    assert tools.fails("react.rg", {param: text})[0] == "rg_invalid_regex"


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*a){20}", "(x+x+)+y", "((a|b)*c){8}"])
def test_a_catastrophic_expression_is_as_cheap_as_any_other(tools, text):
    keep(tools, "files/long.txt", b"a" * 200_000 + b"\n" + b"x" * 200_000)
    assert search(tools, root="files/long.txt", pattern=text)["scanned_files"] == 1


def test_a_search_reads_a_limited_size_and_less_for_a_large_expression(tools, monkeypatch):
    for n in range(4):
        keep(tools, f"outputs/{n}.txt", b"heron\n" * 10)
    monkeypatch.setattr(rg, "TOTAL_MAX_BYTES", 130)
    result = search(tools, root="outputs", name_regex="[0-9]", pattern="heron", max_matches=1000)
    assert (result["scanned_files"], result["scan_truncated"]) == (2, True)
    monkeypatch.setattr(rg, "TOTAL_MAX_BYTES", 10**9)
    monkeypatch.setattr(rg, "STEPS_MAX", 130 * compile_expression("heron").programsize)
    assert search(tools, root="outputs", name_regex="[0-9]", pattern="heron")["scanned_files"] == 2
    larger = "heron|" + "|".join(f"other{n}" for n in range(50))
    assert search(tools, root="outputs", name_regex="[0-9]", pattern=larger)["scanned_files"] == 0


def test_only_the_first_files_are_searched_if_there_are_too_many(tools, monkeypatch):
    monkeypatch.setattr(rg, "FILES_MAX", 2)
    result = search(tools)
    assert (result["hit_count"], result["files_scan_truncated"]) == (2, True)


def test_a_cut_search_is_reported(tools):
    for n in range(3):
        keep(tools, f"outputs/x{n}.txt", b"crane\ncrane\n")
    result = search(tools, pattern="crane", max_matches=3)
    assert (result["match_count"], result["matches_truncated"]) == (3, True)
    result = search(tools, pattern="crane", max_files=2)
    assert (result["hit_count"], result["files_truncated"]) == (2, True)
    result = search(tools, name_regex="^x", max_files=2)
    assert (result["hit_count"], result["files_truncated"]) == (2, True)
    result = search(tools, root="outputs/x0.txt", pattern="crane", max_bytes=8)
    assert (result["match_count"], result["scan_truncated"]) == (1, True)
    (hit,) = result["hits"]
    assert (hit["scanned_bytes"], hit["scan_truncated"]) == (8, True)
    assert "line_count" not in hit
    assert "scan_truncated" not in search(tools, pattern="crane")


def test_previews_have_a_size_limit(tools, monkeypatch):
    keep(tools, "outputs/x.txt", b"crane\n" * 50)
    monkeypatch.setattr(rg, "RESULT_CHARS", 100)
    result = search(tools, pattern="crane")
    assert result["matches_truncated"]
    assert result["match_count"] < 20


def test_a_long_line_is_shown_about_its_match(tools):
    keep(tools, "outputs/x.txt", b"x" * 5_000 + b" crane " + b"y" * 5_000 + b"\n")
    (match,) = search(tools, pattern="crane")["hits"][0]["matches"]
    assert " crane " in match["preview"]
    assert len(match["preview"]) < MATCH_PREVIEW_CHARS + 10


def test_bytes_and_hidden_files_are_passed_over(tools):
    keep(tools, "outputs/a.bin", b"crane\0\n")
    keep(tools, "files/.git/config", b"crane\n")
    keep(tools, "files/.hidden", b"crane\n")
    result = search(tools, pattern="crane")
    assert result["hits"] == []
    assert rel(tools, search(tools, name_regex="hidden|config")) == []


def test_a_file_without_any_line_has_no_match(tools):
    keep(tools, "outputs/empty.txt", b"")
    assert search(tools, root="outputs/empty.txt", pattern="^")["match_count"] == 0


def test_bytes_that_are_gone_are_an_error(tools):
    keep(tools, "outputs/x.txt", b"x")
    del tools.artifacts.objects["out/outputs/x.txt"]
    assert tools.call("react.rg", {"pattern": "x"}).error["code"] == "body_missing"


def test_a_search_suggests_no_more_items_than_a_read_accepts(tools):
    keep(tools, "outputs/x.txt", b"crane\n\n" * 90)
    assert len(search(tools, pattern="crane")["read_items"]) == REQUESTS_MAX


class Cancelled(NeverCancelled):
    requested = True


def test_a_search_ends_when_the_user_steers(conversation):
    conversation.call("react.write", {"path": "a.md", "content": "crane"})
    conversation.cancel = Cancelled()
    assert conversation.call("react.rg", {"pattern": "crane"}).error["code"] == "cancelled"


@pytest.mark.parametrize(
    "params",
    [
        {"pattern": ""},
        {"name_regex": ""},
        {"pattern": "x" * 1_001},
        {"root": 1},
        {"context_lines": -1},
        {"context_lines": 21},
        {"max_matches": 0},
        {"max_matches": 1_001},
        {"max_files": 0},
        {"max_files": 1_001},
        {"max_bytes": 0},
        {"max_bytes": FILE_MAX_BYTES + 1},
        {"content_regex": "x"},
    ],
)
def test_a_call_that_breaks_the_contract_is_refused(tools, params):
    assert tools.fails("react.rg", params)[0] == "bad_params"


lines = st.lists(st.text(st.sampled_from("ab \r"), max_size=4), max_size=8)


@given(
    lines,
    st.booleans(),
    st.sampled_from(["a", "^a", "b$", "^$", "a b", "(a|b)+", r"\s", "[^a]", "x*", r"a\nb"]),
)
def test_each_line_is_searched_separately(found, whole, pattern):
    text = "\n".join(found) + ("\n" if whole else "")
    data = text.encode()
    query, kept = rg.Query(pattern=pattern, max_matches=1_000), rg.Found()
    matches = [match.line for match in rg._matches(data, compile_expression(pattern), query, kept)]
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    # Python's `$` also matches before a final line break, and a line has none.
    assert matches == [n for n, row in enumerate(rows, 1) if re.search(pattern, row)]


@given(st.text(st.sampled_from("./files\\turn_01:outps \0"), max_size=30))
def test_any_text_is_a_folder_below_a_turn_or_refused(text):
    try:
        root = read_root(text, "turn_0001")
    except ToolError:
        return
    assert root == "" or re.fullmatch(r"turn_[^/]+/(files|outputs|attachments)/(?:[^/]+/)*", root)
    assert not {".", ".."} & set(root.split("/"))


def test_the_status_names_the_root_that_was_searched(tools):
    assert (
        json.loads(status_of(tools.call("react.rg", {"root": "outputs"})).text)["root"]
        == f"{tools.turn}/outputs/"
    )
