"""What a call of `rendering_tools.write_*` is granted before anything is drawn, and what it is refused for."""

from __future__ import annotations

import pytest

from stepline.model.block import Block, Body
from stepline.model.source import Source
from stepline.protocol.decision.fanout import FanoutRule, find_refusal, make_candidate
from stepline.protocol.stream.record import record_tool
from stepline.tools.catalogue import default_registry
from stepline.tools.documents.rendering_tools import RENDERING_TOOLS, SPECS, internal_files, read_citations
from stepline.tools.spec import render_tool_card
from tests.unit.tools.conftest import TS, TURN, ToolConversation

KINDS = ("pdf", "docx", "pptx", "xlsx", "png", "html")
POOL = {
    1: Source(sid=1, title="Herons\nof the lake", url="https://birds.example/a"),
    2: Source(sid=2, title="", url="javascript:alert(1)"),
    3: Source(sid=3, title="a.png", source_type="file", path=f"fi:{TURN}.outputs/a.png"),
}


@pytest.fixture
def rendering():
    return ToolConversation(registry=default_registry(executes=True), sources=dict(POOL))


def granted(conversation, kind="pdf", **params):
    output = conversation.call(
        f"rendering_tools.write_{kind}", {"path": f"outputs/a.{kind}", "content": "text", **params}
    )
    return output.ret if output.ret is not None else output.error["code"]


def file_block(name, visibility):
    body = Body(key=f"out/{name}", sha256="ab" * 32, size_bytes=3, mime="image/png")
    meta = {"physical_path": f"{TURN}/outputs/{name}", "visibility": visibility}
    return Block(
        type="react.tool.result",
        author="react",
        turn_id=TURN,
        ts=TS,
        path=f"fi:{TURN}.outputs/{name}",
        body=body,
        meta=meta,
    )


def test_six_kinds_are_there_for_rounds_and_programs_where_programs_run():
    assert [spec.tool_id for spec in SPECS] == [f"rendering_tools.write_{kind}" for kind in KINDS]
    assert {(spec.in_react, spec.in_exec, spec.isolated, spec.runs_code) for spec in SPECS} == {
        (True, True, True, False)
    }
    assert not [tool for tool in RENDERING_TOOLS if tool.spec.tool_id in default_registry(executes=False)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.tool_id)
def test_a_renderers_card_is_small_and_its_content_streams_after_the_path(spec):
    assert len(render_tool_card(spec)) < 1_000
    assert all(spec.validate(example) == [] and spec.misplaced(example) == [] for example in spec.examples)
    assert spec.misplaced({"content": "x", "path": "a"}) == ["path_not_first", "content_not_second"]
    assert spec.strategies == ("exploitation",)
    assert spec.outputs({"path": "outputs/a.pdf"}) == ("outputs/a.pdf",)
    assert record_tool(spec.tool_id).needed == {"path"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_granted_its_file_and_its_cited_sources(rendering, kind):
    content = "Herons wade [[S:1]], some [[s: 2 , 3]] and others [[S:1-9]], [[S:1 2]]."
    assert granted(rendering, kind, content=content) == {
        "path": f"{TURN}/outputs/a.{kind}",
        "tokens": {"[[S:1]]": [1], "[[s: 2 , 3]]": [2, 3], "[[S:1-9]]": [1, 2, 3], "[[S:1 2]]": []},
        "sources": [
            {"sid": 1, "title": "Herons of the lake", "url": "https://birds.example/a"},
            {"sid": 2, "title": "javascript:alert(1)", "url": ""},
            {"sid": 3, "title": "a.png", "url": ""},
        ],
        "missing_sources": [9, 0],
        "internal": [],
    }


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"path": "../a.pdf"}, "path_dot_segment"),
        ({"path": "outputs/../../a.pdf"}, "path_dot_segment"),
        ({"path": "/a.pdf"}, "path_absolute"),
        ({"path": "outputs\\a.pdf"}, "path_backslash"),
        ({"path": "attachments/a.pdf"}, "path_not_writable"),
        ({"path": "fi:turn_other.outputs/a.pdf"}, "path_not_current_turn"),
        ({"path": "a.txt"}, "extension_mismatch"),
        ({"path": "a.pdf.exe"}, "extension_mismatch"),
        ({"path": "pdf"}, "extension_mismatch"),
        ({"format": "mermaid"}, "format_unsupported"),
        ({"format": "html"}, "format_unsupported"),
        ({"format": 1}, "bad_params"),
        ({"content": "\n \t"}, "empty_content"),
        ({"content": ""}, "bad_params"),
        ({"content": {"a": 1}}, "bad_params"),
        ({"content": " ".join(f"[[S:{n}]]" for n in range(1, 2_002))}, "too_many_citations"),
        ({"title": "x" * 301}, "bad_params"),
        ({"landscape": "yes"}, "bad_params"),
        ({"include_sources_section": 1}, "bad_params"),
        ({"path": 1}, "bad_params"),
        ({"unknown": True}, "bad_params"),
    ],
)
def test_an_invalid_document_call_is_refused_by_its_code(rendering, params, code):
    assert granted(rendering, **params) == code


def test_files_that_the_user_does_not_see_are_named_and_one_written_again_for_him_is_not(rendering):
    for name, visibility in (
        ("a.png", "internal"),
        ("b.png", "internal"),
        ("c.png", "external"),
        ("b.png", "external"),
    ):
        rendering.groups.append((file_block(name, visibility),))
    assert internal_files(rendering, TURN) == [f"{TURN}/outputs/a.png"]
    assert granted(rendering)["internal"] == [f"{TURN}/outputs/a.png"]


def test_a_name_that_clashes_on_another_system_is_refused(rendering):
    rendering.groups.append((file_block("A.PDF", "external"),))
    assert granted(rendering, path="outputs/a.pdf") == "path_clash"


def admitted(mode, *names):
    """Return the code that refuses the last of these tools after the others in one round; "" for none."""
    specs = {spec.tool_id: spec for spec in default_registry(executes=True).specs}
    made = [make_candidate("call_tool" if name in specs else name, name, specs) for name in names]
    return find_refusal(FanoutRule(mode=mode), made[:-1], made[-1]).removeprefix("multi_action_bundle_")


PDF, PNG, EXEC = "rendering_tools.write_pdf", "rendering_tools.write_png", "exec_tools.execute_code_python"


@pytest.mark.parametrize(
    ("names", "by_kind", "by_name"),
    [
        (("react.write", PDF), "", ""),
        ((EXEC, PDF), "", ""),
        ((PDF, EXEC), "", ""),
        ((PDF, PNG), "", ""),
        ((PDF, "react.read"), "", ""),
        (("react.read", PDF), "strategy_incompatible", ""),
        (("web_tools.web_search", PDF), "strategy_incompatible", ""),
        (("react.plan", PDF), "", "unsafe_tool"),
        ((PDF, "complete"), "final_answer_after_non_neutral", "mixed_actions"),
        ((PDF, EXEC, EXEC), "unsafe_tool", "unsafe_tool"),
    ],
)
def test_a_document_shares_a_round_as_exploitation(names, by_kind, by_name):
    assert (admitted("safe_fanout", *names), admitted("read_write_search", *names)) == (by_kind, by_name)


def test_a_range_of_a_billion_costs_what_the_pool_holds():
    assert read_citations("[[S:1-999999999]]", POOL) == ({"[[S:1-999999999]]": [1, 2, 3]}, [999999999])
