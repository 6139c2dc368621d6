from __future__ import annotations

import gc
import json
import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from stepline.adapters.corpus import CorpusSearch
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.errors import ToolError
from stepline.model.block import Block, Body
from stepline.model.source import Source
from stepline.programs.host import PARAMS_CHARS, RESULT_BYTES_MAX, RET_CHARS, sub_call_id
from stepline.tools.context import ToolOutput
from stepline.tools.sources import SourcePool
from tests.support.files import PNG, picture
from tests.unit.programs.tool_host import EXEC_ID, PROMPT, TS, TURN, Conversation, make_host, tool


def refusal(host, tool_id, params=None) -> ToolError:
    with pytest.raises(ToolError) as refused:
        host.call(tool_id, {} if params is None else params)
    return refused.value


def test_a_program_gets_the_value_the_tool_has_for_programs():
    assert make_host().call("test.echo", {"n": 1}) == {"n": 1}


def test_a_program_gets_the_blocks_of_a_tool_without_a_value():
    value = make_host().call("test.speak", {"text": "x"})
    (block,) = value.pop("blocks")
    assert value == {"status": "ok"}
    assert block["path"].endswith(f".{sub_call_id(EXEC_ID, 0)}.result")
    assert (block["mime"], block["text"]) == ("text/markdown", "said")


@pytest.mark.parametrize(
    "tool_id", ["test.fly", "__class__", "test.echo.__call__", "", None, 7, ["test.echo"], {}]
)
def test_an_undeclared_tool_cannot_be_called(tool_id):
    host = make_host()
    assert refusal(host, tool_id).reason == "unknown_tool"
    assert [(call.status, call.code) for call in host.calls] == [("error", "unknown_tool")]


def test_a_tool_not_for_programs_is_refused_with_an_alternative():
    host = make_host()
    for tool_id, instead in {
        "react.write": "open()",
        "react.patch": "open()",
        "react.rg": "search the files below OUTPUT_DIR",
        "react.checkout": "the agent takes",
        "react.pull": "the agent pulls",
        "react.memsearch": "the agent searches",
        "exec_tools.execute_code_python": "import",
        "test.private": "next round",
    }.items():
        refused = refusal(host, tool_id)
        assert refused.reason == "tool_not_allowed"
        assert tool_id in str(refused)
        assert instead in str(refused)


def test_a_tool_that_this_run_was_not_granted_is_refused():
    refused = refusal(make_host(allowed=("test.speak",)), "test.echo")
    assert refused.reason == "tool_not_allowed"
    assert "test.speak" in str(refused)


def test_granting_a_tool_not_for_programs_grants_nothing():
    assert refusal(make_host(allowed=("react.write",)), "react.write").reason == "tool_not_allowed"


@pytest.mark.parametrize("params", [None, [], "{}", 1])
def test_parameters_are_an_object(params):
    host = make_host()
    with pytest.raises(ToolError) as refused:
        host.call("test.echo", params)
    assert refused.value.reason == "bad_params"


def test_parameters_keep_the_tools_schema():
    assert refusal(make_host(), "test.strict", {"n": "1"}).reason == "bad_params"
    assert make_host().call("test.strict", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize("kind", ["tool", "path"])
def test_a_tools_own_refusal_keeps_its_code(kind):
    host = make_host()
    refused = refusal(host, "test.refuse", {"kind": kind, "code": "not_found"})
    assert (refused.reason, str(refused)) == ("not_found", "not like this")
    (record,) = host.calls
    assert json.loads(record.ret) == {"code": "not_found", "message": "not like this"}


def test_a_tool_that_breaks_says_nothing_of_why_but_to_the_log(caplog):
    host = make_host()
    with caplog.at_level(logging.ERROR):
        refused = refusal(host, "test.crash")
    assert refused.reason == "tool_failed"
    assert "hunter2" not in str(refused)
    assert "hunter2" not in host.calls[0].ret
    assert "hunter2" in caplog.text


@pytest.mark.parametrize("ret", [object(), "\ud800", {"deep": object()}])
def test_a_result_that_is_no_json_is_the_tools_failure(ret, caplog):
    host = make_host(tool("test.odd", lambda _params, _context: ToolOutput(ret=ret)))
    assert refusal(host, "test.odd").reason == "tool_failed"
    assert "tool failed" in caplog.text


@pytest.mark.parametrize("data", ["AAAA", ""])
def test_bytes_instead_of_parameters_are_refused(data):
    host = make_host()
    assert refusal(host, "test.echo", {"__type__": "bytes", "__data__": data}).reason == "bad_params"
    assert [(call.status, call.code) for call in host.calls] == [("error", "bad_params")]


def test_an_error_outside_the_tool_is_its_failure_and_recorded(caplog):
    host = make_host(tool("test.odd", lambda _p, _c: ToolOutput(ret=1), schema={"type": "no such type"}))
    assert refusal(host, "test.odd").reason == "tool_failed"
    assert [(call.status, call.code) for call in host.calls] == [("error", "tool_failed")]
    assert "no such type" in caplog.text


def test_a_refused_call_leaves_only_its_record():
    class Kept(dict[str, Any]):
        """A dict that can be referenced weakly."""

    host, given = make_host(), Kept(kind="tool", code="own")
    found = weakref.ref(given)
    gc.disable()
    try:
        with suppress(ToolError):
            host.call("test.refuse", given)
        del given
        assert found() is None
        assert [call.code for call in host.calls] == ["own"]
    finally:
        gc.enable()


def test_bytes_are_passed_to_and_from_tools():
    seen = []

    def keep(params, _context):
        seen.append(params["data"])
        return ToolOutput(ret=[params["data"][::-1]])

    host = make_host(tool("test.keep", keep))
    assert host.call("test.keep", {"data": {"__type__": "bytes", "__data__": "AAE="}}) == [
        {"__type__": "bytes", "__data__": "AQA="}
    ]
    assert seen == [b"\x00\x01"]
    assert refusal(host, "test.keep", {"data": {"__type__": "bytes", "__data__": "?"}}).reason == "bad_params"


def test_a_result_that_fits_no_reply_is_refused_and_on_record():
    host = make_host(tool("test.big", lambda _p, _c: ToolOutput(ret="x" * (RESULT_BYTES_MAX - 2))))
    host.call("test.big", {})
    host = make_host(tool("test.big", lambda _p, _c: ToolOutput(ret="x" * (RESULT_BYTES_MAX - 1))))
    assert refusal(host, "test.big").reason == "reply_too_large"
    assert host.calls[0].code == "reply_too_large"


def test_every_call_is_recorded_in_order_with_parameters_and_result():
    host = make_host()
    host.call("test.echo", {"n": 1})
    refusal(host, "test.fly", {"far": True})
    first, second = host.calls
    assert (first.tool_id, first.params, first.status, first.ret) == ("test.echo", {"n": 1}, "ok", '{"n":1}')
    assert first.at == "2026-01-01T00:00:00.000Z"
    assert not first.truncated
    assert (second.tool_id, second.params, second.status, second.code) == (
        "test.fly",
        {"far": True},
        "error",
        "unknown_tool",
    )


def test_the_record_of_a_long_call_is_short():
    host = make_host()
    host.call("test.echo", {"text": "x" * 100_000})
    host.call("test.echo", {f"k{i}": {f"k{j}": "y" * 1_000 for j in range(60)} for i in range(60)})
    refusal(host, "z" * 10_000)
    for record in host.calls:
        assert len(record.ret) <= RET_CHARS
        assert len(json.dumps(record.params)) <= PARAMS_CHARS + 100
        assert len(record.tool_id) <= 120
    assert [record.truncated for record in host.calls] == [True, True, False]
    assert host.calls[0].params["text"]["text_symbols"] == 100_000


def test_a_call_that_never_ends_is_on_record_too():
    host = make_host(
        tool("test.look", lambda _p, _c: ToolOutput(ret=[(call.status, call.code) for call in host.calls]))
    )
    assert host.call("test.look", {}) == [["error", "unfinished"]]
    assert [(call.status, call.code) for call in host.calls] == [("ok", "")]


def test_sub_calls_have_predictable_names():
    host = make_host()
    names = [host.call("test.whoami", {}) for _ in range(2)]
    assert names == [sub_call_id(EXEC_ID, 0), sub_call_id(EXEC_ID, 1)]
    assert names[0] == "tc_ec3a9a544408"


def test_events_carry_the_tool_they_came_from_also_when_it_refused_in_the_end():
    def half(_params, context):
        context.emit("test.half", {})
        raise ToolError("no", code="no")

    host = make_host(tool("test.half", half))
    host.call("test.speak", {"text": "a"})
    refusal(host, "test.half")
    assert [(event.type, event.tool_id, event.data) for event in host.events] == [
        ("test.said", "test.speak", {"text": "a"}),
        ("test.half", "test.half", {}),
    ]


def test_a_program_reads_content_that_the_model_already_sees():
    value = make_host().call("react.read", {"paths": [PROMPT]})
    assert [block["text"] for block in value["blocks"]][1:] == ["Summe?"]


def test_a_program_that_reads_a_picture_attaches_nothing_to_the_models_request():
    artifacts = MemoryArtifacts()
    artifacts.put("out/k", picture(), mime=PNG)
    path = f"fi:{TURN}.outputs/a.png"
    body = Body(key="out/k", sha256="0" * 64, size_bytes=len(picture()), mime=PNG)
    block = Block(
        type="react.tool.result", author="react", ts=TS, turn_id=TURN, path=path, mime=PNG, body=body
    )
    host = make_host(artifacts=artifacts, timeline=Conversation({path: block}))
    value = host.call("react.read", {"paths": [path]})
    assert json.loads(value["blocks"][0]["text"])["paths"][0]["status"] == "metadata_only"


def test_many_threads_may_call_at_once():
    together = threading.Barrier(4, timeout=60)

    def meet(params, context):
        together.wait()
        context.emit("test.met", dict(params))
        return ToolOutput(ret=params["n"])

    host = make_host(tool("test.meet", meet))
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(lambda n: host.call("test.meet", {"n": n}), range(4))) == [0, 1, 2, 3]
    assert [event.data["n"] for event in host.events] == [record.params["n"] for record in host.calls]


def test_sources_of_all_calls_share_one_pool_with_unique_numbers():
    def find(params: Any, context: Any) -> ToolOutput:
        page = Source(title=params["page"], url=f"https://e.example/{params['page']}")
        (row,) = cited = context.cite([page])
        return ToolOutput(ret=row.sid, sources=cited)

    known = Source(sid=1, title="known", url="https://e.example/known")
    host = make_host(tool("test.find", find), sources=SourcePool({1: known}))
    names = [f"p{i % 40}" for i in range(80)] + ["known"]
    with ThreadPoolExecutor(8) as pool:
        sids = list(pool.map(lambda name: host.call("test.find", {"page": name}), names))
    assert sids[:40] == sids[40:80]
    assert sorted(set(sids)) == list(range(1, 42))
    assert [row.sid for row in host.sources] == list(range(2, 42))
    assert {row.title: row.sid for row in host.sources} == dict(zip(names[:40], sids[:40], strict=True))


def test_concurrent_first_calls_create_the_shared_state_once():
    together = threading.Barrier(2, timeout=0.2)

    @cache
    def pool() -> SourcePool:
        with suppress(threading.BrokenBarrierError):
            together.wait()  # a second call that comes in here would make a second pool
        return SourcePool()

    def find(params: Any, context: Any) -> ToolOutput:
        (row,) = cited = context.cite([Source(url=f"https://e.example/{params['page']}")])
        return ToolOutput(ret=row.sid, sources=cited)

    host = make_host(tool("test.find", find), pool=pool)
    with ThreadPoolExecutor(2) as threads:
        sids = threads.map(lambda page: host.call("test.find", {"page": page}), ["a", "b"])
        assert sorted(sids) == [1, 2]


def test_a_call_that_fails_brings_no_sources():
    def find(_params: Any, context: Any) -> ToolOutput:
        context.cite([Source(url="https://e.example/a")])
        raise ToolError("no", code="nothing_found")

    host = make_host(tool("test.find", find), sources=SourcePool())
    assert refusal(host, "test.find").reason == "nothing_found"
    assert host.sources == []


def test_a_program_searches_and_reads_what_it_found():
    host = make_host(search=CorpusSearch(), sources=SourcePool())
    (row,) = host.call("web_tools.web_search", {"queries": "prompt caching", "n": 1})
    fetched = host.call("ctx_tools.fetch_ctx", {"path": f"so:sources_pool[{row['sid']}]"})
    assert fetched["ret"]["payload"][0]["content"] == row["content"]
    assert [event.type for event in host.events] == ["web_search.filtered_results"]
    assert [found.sid for found in host.sources] == [row["sid"]]
