"""A call of a remote tool: how an answer becomes a result, and what of it is cut or withheld."""

from __future__ import annotations

import json

import pytest

from stepline.adapters.memory.mcp.mcp_server import MemoryMcpServers, MemoryServer, said
from stepline.errors import ToolError
from stepline.model.decision import Action
from stepline.model.ids import call_id
from stepline.ports.mcp.mcp_server import McpReply, RemoteTool, ReplyPart, Unread
from stepline.tools.mcp.remote_tool import FILES_MAX, LINKS_MAX, STRUCTURED_CHARS, TEXT_CHARS, remote_tool
from stepline.tools.mcp.server_row import McpServer
from stepline.tools.mcp.tool_list import check_tools
from stepline.tools.registry import Registry, run_tool
from tests.unit.tools.conftest import TURN

ROW = McpServer(alias="crm", url="https://crm.example/mcp")
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Services:
    model = None
    settings = None

    class secrets:  # noqa: N801 - a field of services
        @staticmethod
        def get_secret(path):
            return {"b:token": "s3cret-word"}[path]


@pytest.fixture
def call(conversation):
    """Call the tool `find` of a server that answers so; return the output."""

    def run(answer, *, row=ROW, servers=None, progress=(), reports=None, **params):
        listed = RemoteTool(name="find", schema={"type": "object", "properties": {"q": {}}})
        server = MemoryServer(tools=(listed,), answer=lambda *_: answer, progress={"find": progress})
        (known,) = check_tools(row, [listed]).tools
        tool = remote_tool(row, known, 60)
        action = Action(call_id=call_id(TURN, 0, 0), tool_id=tool.spec.tool_id, params=params)
        context = conversation.context(action.call_id)
        context = type(context)(
            **{
                **{name: getattr(context, name) for name in ("lane", "turn", "call_id", "iteration", "ts")},
                "artifacts": context.artifacts,
                "timeline": context.timeline,
                "caps": context.caps,
                "services": Services(),
                "report": (reports if reports is not None else []).append,
                "servers": MemoryMcpServers(crm=server) if servers is None else servers,
            }
        )
        return run_tool(Registry([tool]), action, context)

    return run


def status(output):
    (block,) = [block for block in output.blocks if block.mime == "application/json" and block.body is None][
        :1
    ]
    return json.loads(block.text)


def test_texts_follow_the_status(call):
    parts = (ReplyPart(kind="text", text="one"), ReplyPart(kind="text", text="two"))
    output = call(McpReply(parts=parts))
    assert status(output) == {"status": "ok", "server": "crm"}
    assert output.blocks[1].text == "one\n\ntwo"
    assert output.blocks[1].path == output.blocks[0].path


def test_structured_content_is_in_the_status(call):
    assert status(call(McpReply(structured={"a": [1]})))["structured"] == {"a": [1]}


def test_pictures_and_other_bytes_are_files_of_the_turn(call, conversation):
    parts = (
        ReplyPart(kind="file", data=PNG, mime="Image/PNG; q=1"),
        ReplyPart(kind="file", data=b"?", mime="no/such-type\n"),
    )
    output = call(McpReply(parts=parts))
    picture, other = output.blocks[1:]
    assert picture.path.startswith(f"fi:{TURN}.outputs/mcp/")
    assert picture.path.endswith(".1.png")
    assert conversation.artifacts.get(picture.body.key) == PNG
    assert (other.mime, picture.meta["visibility"]) == ("application/octet-stream", "internal")
    assert [row["path"] for row in status(output)["files"]] == [picture.path, other.path]


def test_a_link_is_named_and_not_followed(call):
    output = call(McpReply(parts=(ReplyPart(kind="link", uri="http://169.254.169.254/", name="x" * 999),)))
    (link,) = status(output)["links"]
    assert link["uri"] == "http://169.254.169.254/"
    assert len(link["name"]) <= 200


def test_a_long_answer_is_cut(call):
    files = (ReplyPart(kind="file", data=b"x", mime="text/plain"),) * (FILES_MAX + 2)
    links = (ReplyPart(kind="link", uri="a:b"),) * (LINKS_MAX + 3)
    text = ReplyPart(kind="text", text="x" * (TEXT_CHARS + 5))
    output = call(McpReply(parts=(text, *files, *links), structured=["y" * STRUCTURED_CHARS]))
    result = status(output)
    assert (len(result["files"]), len(result["links"]), result["left_out"]) == (FILES_MAX, LINKS_MAX, 5)
    assert result["text_cut_from_chars"] == TEXT_CHARS + 5
    assert len(output.blocks[1].text) == TEXT_CHARS
    assert (len(result["structured_cut"]), "structured" in result) == (STRUCTURED_CHARS, False)


def test_a_tool_that_says_it_failed_is_an_error_with_its_words(call):
    output = call(said("no such customer", failed=True))
    assert (output.status, output.error["code"]) == ("error", "mcp_tool_failed")
    assert "no such customer" in output.error["message"]


def test_a_server_that_cannot_be_asked_is_an_error_with_a_code(call):
    assert call(McpReply(), servers=MemoryMcpServers()).error["code"] == "mcp_unreachable"


def test_a_secret_that_a_server_repeats_is_in_no_result(call):
    row = McpServer(alias="crm", url="https://crm.example/mcp", headers={"X": "a ${secret:b:token}"})
    word = "s3cret-word"
    answer = McpReply(
        parts=(ReplyPart(kind="text", text=f"got {word}"), ReplyPart(kind="link", uri=f"http://a/{word}")),
        structured={word: [word]},
    )
    output = call(answer, row=row)
    assert output.status == "ok"
    assert not any(word in block.text for block in output.blocks)
    failed = call(said(f"bad {word}", failed=True), row=row)
    assert word not in repr(failed)


def test_a_call_without_a_client_of_servers_is_refused(conversation):
    (known,) = check_tools(ROW, [RemoteTool(name="find")]).tools
    with pytest.raises(ToolError) as refused:
        remote_tool(ROW, known, 60).run({}, conversation.context("tc_000000000000"))
    assert refused.value.reason == "mcp_unavailable"


@pytest.mark.parametrize("rule", [None, "always", "first_use", "never"])
def test_a_row_says_when_the_calls_of_its_tools_need_a_person(rule):
    row = McpServer(alias="crm", url="https://crm.example/mcp", approval=rule)
    (known,) = check_tools(row, [RemoteTool(name="find", schema={"type": "object"})]).tools
    assert remote_tool(row, known, 60).spec.approval == rule


@pytest.mark.parametrize(
    ("effects", "effect", "claimed"),
    [
        ({}, "pure", True),
        ({"get_*": "pure"}, "pure", True),
        ({"fi*": "pure"}, "pure", False),
        ({"*": "pure", "fi*": "keyed", "find": "once"}, "once", False),
        ({"*": "pure", "fi*": "keyed"}, "keyed", False),
    ],
)
def test_the_operators_effect_overrides_the_servers(effects, effect, claimed):
    row = McpServer(alias="crm", url="https://crm.example/mcp", effects=effects)
    (known,) = check_tools(row, [RemoteTool(name="find", read_only=True)]).tools
    spec = remote_tool(row, known, 60).spec
    assert (spec.effect, spec.claimed) == (effect, claimed)
    assert (spec.read_only, spec.cancellable) == (effect == "pure", effect == "pure")


def test_a_part_that_cannot_be_read_is_named_and_the_others_stay(call):
    unread = (Unread(why="unknown_kind", block=1, kind="video\n## forged"), Unread(why="no_content"))
    output = call(McpReply(parts=(ReplyPart(kind="text", text="seen"),), unread=unread))
    rows = [{"why": "unknown_kind", "block": 1, "kind": "video ## forged"}, {"why": "no_content"}]
    assert (status(output)["unread"], output.blocks[1].text) == (rows, "seen")


def texts(*said):
    return tuple(ReplyPart(kind="text", text=text) for text in said)


@pytest.mark.parametrize(
    ("said", "structured", "shown", "kept"),
    [
        (('{"temp": 21}',), {"temp": 21}, [], {"temp": 21}),
        (('{\n  "b": [1.0],\n  "a": true\n}',), {"a": True, "b": [1]}, [], {"a": True, "b": [1]}),
        (("It is mild.", '{"temp": 21}'), {"temp": 21}, ["It is mild."], {"temp": 21}),
        (("one\ntwo",), {"result": "one\ntwo"}, ["one\ntwo"], None),
        (("1", "2"), {"result": [1, 2]}, [], {"result": [1, 2]}),
        (("a", "b"), {"result": ["a", "b"]}, [], {"result": ["a", "b"]}),
        (("[1, 2]",), {"result": [1, 2]}, [], {"result": [1, 2]}),
        (('{"temp": 1}',), {"temp": True}, ['{"temp": 1}'], {"temp": True}),
        (("Bonn",), {"city": "Bonn"}, ["Bonn"], {"city": "Bonn"}),
        (
            (json.dumps(["y" * STRUCTURED_CHARS]),),
            ["y" * STRUCTURED_CHARS],
            [json.dumps(["y" * STRUCTURED_CHARS])],
            None,
        ),
        ((), [1], [], [1]),
    ],
)
def test_content_sent_as_text_and_as_structure_is_shown_once(call, said, structured, shown, kept):
    output = call(McpReply(parts=texts(*said), structured=structured))
    assert [block.text for block in output.blocks[1:]] == shown
    assert status(output).get("structured") == kept
    assert "structured_cut" not in status(output)


def test_an_invalid_number_does_not_lose_the_answer(call):
    output = call(McpReply(parts=texts("seen"), structured={"n": 10**400, "x": float("nan")}))
    assert (output.blocks[1].text, status(output)["structured"]) == ("seen", {"n": 10**400, "x": None})


def test_a_tool_that_fails_with_structured_content_alone_is_quoted(call):
    output = call(McpReply(structured={"oops": "no such city"}, failed=True))
    assert (output.error["code"], "no such city" in output.error["message"]) == ("mcp_tool_failed", True)


def test_the_progress_of_a_call_is_reported_without_the_secrets_that_were_sent(call):
    row = McpServer(alias="crm", url="https://crm.example/mcp", headers={"X": "a ${secret:b:token}"})
    reports = []
    output = call(
        said("found"),
        row=row,
        progress=((1, 4, "asked with s3cret-word"), (float("nan"), 4, "?"), (4, 4, "")),
        reports=reports,
    )
    assert output.status == "ok"
    assert [(report.type, report.data) for report in reports] == [
        ("react.tool.progress", {"done": 1, "total": 4, "text": "asked with [secret]"}),
        ("react.tool.progress", {"done": 4, "total": 4, "text": ""}),
    ]
