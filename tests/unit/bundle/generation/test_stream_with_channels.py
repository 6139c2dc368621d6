import asyncio
import inspect
import subprocess
import sys
from pathlib import Path

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.adapters.memory.model import MemoryModelClient, Say
from stepline.bundle.generation.model_service import ModelService, system_message
from stepline.bundle.generation.stream import stream_with_channels
from stepline.bundle.generation.subscriber import ChannelSubscribers
from stepline.ports.model import Part
from stepline.protocol.parser.channel_parser import read_channels
from stepline.protocol.parser.grammar import DECISION_CHANNELS, ChannelSpec
from tests.support.budget import budget
from tests.support.generation import end_tag, start_tag, tagged
from tests.unit.bundle.generation.channel_call import (
    ANSWER,
    CODE,
    SOURCES,
    THINKING,
    USAGE,
    Shown,
    StallingModel,
    call,
    stream,
)

ROOT = Path(__file__).parents[4]
SIZES = (1, 2, 7, 13, 64, 10**9)
TEXT = (
    "<channel:thinking>Hm, `</channel:thinking>` and [[S:1]].</channel:thinking>\n"
    "<channel:answer>Up 7 % [[S:1]]; see [[S:2,9]] and `a[[S:1]]`.[[USAGE:1,2]] List [</channel:answer>"
    '<channel:code>\nx = "</channel:answer>"  # [[USAGE:1]]\n</channel:code>'
    '<channel:usage>\n```json\n{"sids": [1, 2], "t": "<channel:code>"}\n```\n</channel:usage>'
    "<channel:answer>More \ufeffe\u200dm [[S:1-3000000]] 👩‍👩‍👧 [[S:2</channel:answer>"
)
SHOWN = {
    ("thinking", 0): "Hm, `</channel:thinking>` and [[S:1]].",
    ("answer", 0): (
        'Up 7 % [One](https://example.com/1 "S:1"); see [Two](https://example.com/2 "S:2") and `a[[S:1]]`. List ['
    ),
    ("code", 0): '\nx = "</channel:answer>"  # [[USAGE:1]]\n',
    ("usage", 0): '\n```json\n{"sids": [1, 2], "t": "<channel:code>"}\n```\n',
}


def say(text, size):
    return MemoryModelClient(Say(text=text, piece_chars=size))


def shown_at(text, size):
    shown = Shown()
    results, meta = stream(say(text, size), emit=shown.emit, sources_list=SOURCES)
    texts = {}
    for one in shown:
        key = (one["channel"], one["channel_instance"])
        texts[key] = texts.get(key, "") + one["text"]
    return texts, {n: facts(one) for n, one in results.items()}, meta


def facts(result):
    return [
        result.raw,
        result.instances,
        result.obj,
        result.error,
        result.used_sources,
        result.unresolved_sids,
        result.truncated,
    ]


@pytest.mark.parametrize("size", SIZES)
def test_the_cut_of_the_text_affects_neither_the_view_nor_the_result(size):
    texts, results, meta = shown_at(TEXT, size)
    assert (texts, results, meta) == shown_at(TEXT, len(TEXT))
    assert texts.items() >= SHOWN.items()
    assert texts["answer", 1].endswith("👩‍👩‍👧 [[S:2")


PARTS = st.sampled_from(
    [
        *(start_tag("answer"), end_tag("answer"), start_tag("usage"), end_tag("usage"), start_tag("code")),
        *(end_tag("code"), start_tag("thinking"), end_tag("thinking"), start_tag("other"), "<chan", "`"),
        *("```", "\n", '"', "\\", "{", "}", "[[S:1]]", "[[S:1,", "9]]", "[", "]", "[[USAGE:", "[[USAGE:1]]"),
        *(" ", "word", "é", "👩‍👩‍👧"),
    ]
)


@settings(max_examples=budget(100, 1000), deadline=None)
@given(text=st.lists(PARTS, max_size=20).map("".join), size=st.integers(1, 30))
def test_any_text_is_shown_the_same_however_it_is_cut(text, size):
    assert shown_at(text, size) == shown_at(text, len(text) or 1)


def test_stored_text_is_never_touched_w6():
    results, meta = stream(TEXT, sources_list=SOURCES)
    assert meta["raw"] == TEXT
    assert results["answer"].raw == "".join(results["answer"].instances)
    assert "\ufeffe\u200dm [[S:1-3000000]] 👩‍👩‍👧" in results["answer"].raw
    assert "[[USAGE:1,2]]" in results["answer"].raw


def test_known_and_unknown_sids_of_a_text_are_reported():
    results, _ = stream(TEXT, sources_list=SOURCES)
    assert results["answer"].used_sources == [1, 2, 9, 3000000]
    assert results["answer"].unresolved_sids == [9, 3000000]
    assert results["thinking"].used_sources == [1]


def test_without_sources_tokens_stay_and_are_counted():
    shown = Shown()
    results, _ = stream(tagged("answer", "a [[S:4]]"), emit=shown.emit)
    assert shown.text("answer") == "a [[S:4]]"
    assert (results["answer"].used_sources, results["answer"].unresolved_sids) == ([4], [4])


def test_a_delta_has_the_facts_of_its_channel_and_counts_per_channel():
    shown = Shown()
    text = tagged("answer", "a") + tagged("thinking", "b") + tagged("answer", "c")
    stream(say(text, 10**9), emit=shown.emit, artifact_name="report")
    assert shown.of("answer", 1)[0] == {
        "text": "c",
        "index": 2,
        "marker": "answer",
        "agent": "test.agent",
        "format": "markdown",
        "artifact_name": "report",
        "channel": "answer",
        "channel_instance": 1,
        "completed": False,
    }
    assert [(one["channel"], one["index"], one["text"], one["completed"]) for one in shown] == [
        ("answer", 0, "a", False),
        ("answer", 1, "", True),
        ("thinking", 0, "b", False),
        ("thinking", 1, "", True),
        ("answer", 2, "c", False),
        ("answer", 3, "", True),
    ]


def test_a_delta_goes_to_main_then_static_then_instance_subscribers():
    heard = []

    def hears(name, asynchronous=False):
        async def slow(*, text, **_):
            await asyncio.sleep(0)
            heard.append((name, text))

        def quick(*, text, **_):
            heard.append((name, text))

        return slow if asynchronous else quick

    async def factory(channel, instance):
        heard.append(("made", f"{channel}.{instance}"))
        return [hears("instance"), hears("late instance", asynchronous=True)]

    subscribers = (
        ChannelSubscribers()
        .subscribe_factory("ANSWER", factory)
        .subscribe("answer", hears("static", asynchronous=True))
        .subscribe("answer", hears("second static"))
        .subscribe_factory("answer", lambda *_: None)
    )
    stream(say(tagged("answer", "a"), 99), emit=hears("main"), subscribers=subscribers)
    order = ["main", "static", "second static", "instance", "late instance"]
    assert heard == [
        ("made", "answer.0"),
        *((name, "a") for name in order),
        *((name, "") for name in order),
    ]


def test_subscribers_may_be_a_plain_dict():
    heard = []
    stream(
        tagged("answer", "abc"),
        subscribers={"answer": [lambda *, text, **_: heard.append(text)]},
    )
    assert "".join(heard) == "abc"


def test_raw_listeners_receive_each_piece_before_it_is_shown():
    heard = []

    async def emit(*, text, **_):
        heard.append(("shown", text))

    text = tagged("answer", "a")
    stream(say(text, 5), emit=emit, raw_emit=lambda piece: heard.append(("raw", piece)))
    assert "".join(piece for kind, piece in heard if kind == "raw") == text
    assert all(len(piece) <= 5 for kind, piece in heard if kind == "raw")
    assert heard.index(("raw", "nel:a")) < heard.index(("shown", "a"))


def test_text_that_arrives_while_a_consumer_waits_is_one_piece():
    model = StallingModel((start_tag("answer") + "a"), rest=("b", "c", ("d" + end_tag("answer"))))
    shown = Shown()

    async def emit(**delta):
        shown.append(delta)
        model.go.set()
        await asyncio.to_thread(model.ended.wait)

    stream(model, emit=emit)
    assert [one["text"] for one in shown] == ["a", "bcd", ""]


def test_text_is_shown_as_soon_as_it_arrives():
    model = StallingModel(start_tag("answer") + "a <b [1] <cha")
    shown = Shown()

    async def emit(**delta):
        shown.append(delta)
        if shown.text("answer").endswith("[1] "):
            model.rest = (("nnel:answer>" + end_tag("answer")),)
            model.go.set()

    stream(model, emit=emit)
    assert shown.text("answer") == "a <b [1] "


class Sids(msgspec.Struct):
    sids: list[int]


class Row(pydantic.BaseModel):
    sids: list[int]


BODY = '<channel:usage>```json\n{"sids": [1, 2,]}\n```</channel:usage>'


@pytest.mark.parametrize("model", [Sids, Row])
def test_a_body_is_read_into_the_channels_model(model):
    results, _ = stream(BODY, channels=[ChannelSpec("usage", "json", model=model)])
    assert results["usage"].obj == model(sids=[1, 2])
    assert results["usage"].instances == ['{"sids": [1, 2,]}']


def test_more_than_one_instance_of_a_channel_with_a_model_is_the_callers_to_read():
    results, _ = stream(BODY + BODY, channels=[ChannelSpec("usage", "json", model=Sids)])
    assert (results["usage"].obj, results["usage"].error) == (None, "multiple_channel_instances:2")
    assert results["usage"].instances == ['{"sids": [1, 2,]}'] * 2


def test_a_missing_channel_has_an_empty_result():
    results, _ = stream("nothing", channels=[ChannelSpec("usage", "json", model=Sids)])
    assert facts(results["usage"]) == ["", [], None, None, [], [], False]
    assert results["usage"].started_at is None


def test_times_are_those_of_the_service():
    now = iter(range(100))
    service = ModelService(client=say(TEXT, 64), now_s=lambda: next(now))
    results, _ = stream(service)
    assert (results["answer"].started_at, results["answer"].finished_at) == (2, 8)


def test_the_request_is_made_of_the_messages():
    client = say("x", 9)
    messages = [
        system_message("be brief", cache=True),
        {"role": "user", "content": ["hello", {"text": "there", "cache": True}, Part(text="!")]},
    ]
    stream(client, messages=messages, max_tokens=77)
    (request,) = client.requests
    assert request.system == (Part(text="be brief", cache=True),)
    assert request.content == (Part(text="hello"), Part(text="there", cache=True), Part(text="!"))
    assert (request.role, request.max_tokens, request.temperature) == ("answer.generator.regular", 77, 0.3)


@pytest.mark.parametrize(
    "arguments",
    [
        {"messages": [{"role": "assistant", "content": "x"}]},
        {"messages": [{"role": "user", "content": None}]},
        {"channels": [ANSWER, ChannelSpec("Answer")]},
        {"channels": [ANSWER, ChannelSpec("b", aliases=("ANSWER",))]},
        {"channels": [ChannelSpec("a", "pdf")]},
        {"composite_cfg": {"a": "markdown"}},
        {"composite_cfg": {"a": "markdown"}, "composite_channel": "other"},
    ],
)
def test_contradicting_arguments_are_refused_before_the_call(arguments):
    client = say("x", 9)
    with pytest.raises(ValueError):
        stream(client, **arguments)
    assert client.requests == []


def test_only_the_results_are_returned_without_the_full_raw():
    assert set(stream(tagged("answer", "a"), return_full_raw=False)) == {
        spec.name for spec in (THINKING, ANSWER, USAGE, CODE)
    }


def test_the_metadata_describes_the_whole_generation():
    text = "Sure! " + tagged("plan", "x") + tagged("answer", "a")
    _, meta = stream(MemoryModelClient(Say(text=text, stop_reason="max_tokens")))
    assert meta["usage"]["total_tokens"] == meta["usage"]["input_tokens"] + meta["usage"]["output_tokens"] > 0
    assert (meta["model_name"], meta["stop_reason"]) == ("memory", "max_tokens")
    assert (meta["outside_chars"], meta["unknown_channels"]) == (5, ["plan"])
    assert meta["service_error"] is None
    assert meta["subscriber_errors"] == []


def test_two_generations_run_side_by_side():
    async def both():
        return await asyncio.gather(call(TEXT, sources_list=SOURCES), call(TEXT, sources_list=SOURCES))

    (first, _), (second, _) = asyncio.run(both())
    assert {n: facts(one) for n, one in first.items()} == {n: facts(one) for n, one in second.items()}


STREAMS = sorted((Path(__file__).parents[3] / "data" / "streams").glob("*.txt"))


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_recorded_streams_give_the_bodies_that_the_parser_reads(path):
    text = path.read_bytes().decode()
    expected = {spec.name: list(read_channels(text).bodies(spec.name)) for spec in DECISION_CHANNELS}
    for size in SIZES:
        shown = Shown()
        results, meta = stream(say(text, size), channels=DECISION_CHANNELS, emit=shown.emit)
        assert {name: one.raw for name, one in results.items()} == {
            name: "".join(bodies) for name, bodies in expected.items()
        }
        for name, bodies in expected.items():
            assert [shown.text(name, at) for at in range(len(bodies))] == bodies
            endings = [
                one["channel_instance"] for one in shown if one["channel"] == name and one["completed"]
            ]
            assert endings == list(range(len(bodies)))
        assert meta["raw"] == text


def test_the_loops_functions_load_no_asynchronous_modules():
    program = "import sys, lambdas.decide; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "stepline.loop.decide" in loaded
    assert {"asyncio", "stepline.bundle.generation.stream"}.isdisjoint(loaded)


def test_debug_logs_numbers_and_no_text(caplog):
    with caplog.at_level("INFO"):
        stream(tagged("answer", "secret"), debug=True)
    assert {record.channel: record.chars for record in caplog.records}["answer"] == 6
    assert not any("secret" in str(vars(record)) for record in caplog.records)


def test_the_call_accepts_the_arguments_of_bundles():
    taken = list(inspect.signature(stream_with_channels).parameters)
    assert taken == [
        *("svc", "messages", "role", "channels", "emit", "agent", "artifact_name", "sources_list"),
        *("subscribers", "raw_emit", "max_tokens", "temperature", "debug", "composite_cfg"),
        *("composite_channel", "composite_marker", "return_full_raw"),
    ]
