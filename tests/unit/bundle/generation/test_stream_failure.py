import asyncio
import threading

import pytest

from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.bundle.generation.subscriber import ChannelSubscribers, StreamPolicyViolation
from stepline.errors import ContextLimit, ModelRefused, ModelStreamBroken
from tests.support.generation import start_tag, tagged
from tests.unit.bundle.generation.channel_call import Shown, StallingModel, call, stream

HALF = start_tag("answer") + "half an ans"


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    left = {one for one in threading.enumerate() if one not in before and one.name == "model-pump"}
    assert left == set()


def fail_with(error):
    def consume(**_):
        raise error

    return consume


def endings(shown):
    return [
        (one["channel"], one["channel_instance"], one.get("aborted")) for one in shown if one["completed"]
    ]


# What the model does


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (ModelStreamBroken("gone", code="stream_cut"), "stream_cut", True),
        (ContextLimit("too long", status=400), "context_limit", False),
    ],
)
def test_a_model_that_fails_is_reported_and_not_raised_w13(error, code, retryable):
    shown = Shown()
    text = tagged("thinking", "t") + f"{HALF} [[S:1"
    client = MemoryModelClient(Fail(error=error, text=text, after_chars=len(text)))
    results, meta = stream(client, emit=shown.emit)
    failed = meta["service_error"]
    of_the_wire = {name: failed.pop(name) for name in ("message", "http_status", "context")}
    assert failed == {
        "kind": "llm",
        "stage": "stream_loop",
        "service_name": "MemoryModelClient",
        "model_name": "memory",
        "error_type": type(error).__name__,
        "code": code,
        "retryable": retryable,
    }
    assert of_the_wire["message"]
    assert of_the_wire["context"]["role"] == "answer.generator.regular"
    assert of_the_wire["http_status"] == of_the_wire["context"].get("status")
    assert results["answer"].raw == "half an ans [[S:1" == shown.text("answer")
    assert results["answer"].truncated
    assert meta["usage"]["output_tokens"] > 0
    assert endings(shown) == [("thinking", 0, None), ("answer", 0, "provider_error")]


def test_a_model_that_refuses_at_once_gives_empty_results():
    class Unmapped(MemoryModelClient):
        def stream(self, request):
            raise ModelRefused("no provider serves it", code="unknown_role")

    results, meta = stream(Unmapped())
    assert meta["service_error"]["code"] == "unknown_role"
    assert meta["usage"]["total_tokens"] == 0
    assert {one.raw for one in results.values()} == {""}


def test_a_bug_in_the_client_is_raised_and_listeners_get_the_end():
    shown = Shown()

    class Defective(StallingModel):
        def __iter__(self):
            yield HALF
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stream(Defective(), emit=shown.emit)
    assert endings(shown) == [("answer", 0, "provider_error")]


def test_a_text_that_ends_in_mid_channel_is_closed_with_eof():
    shown = Shown()
    results, _ = stream(MemoryModelClient(Say(text=HALF, stop_reason="max_tokens")), emit=shown.emit)
    assert endings(shown) == [("answer", 0, "eof")]
    assert results["answer"].truncated


def test_a_channel_closed_by_the_next_one_is_whole():
    shown = Shown()
    stream((start_tag("thinking") + "a" + tagged("answer", "b")), emit=shown.emit)
    assert endings(shown) == [("thinking", 0, None), ("answer", 0, None)]


# What consumers do


def test_a_failing_consumer_is_logged_counted_and_left_alone_for_the_instance_w22(caplog):
    called, heard = [], []

    def broken(*, text, channel_instance, **_):
        called.append(channel_instance)
        raise KeyError(text)

    subscribers = (
        ChannelSubscribers()
        .subscribe("answer", broken)
        .subscribe("answer", lambda *, text, **_: heard.append(text))
    )
    text = tagged("answer", "first one") + tagged("answer", "second one")
    _, meta = stream(text, subscribers=subscribers)
    assert "".join(heard) == "first onesecond one"
    assert called == [0, 1]
    (row,) = meta["subscriber_errors"]
    assert row["subscriber"].endswith("broken")
    assert (row["channel"], row["count"]) == ("answer", 2)
    assert row["error"].startswith("KeyError")
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


def test_a_failing_factory_costs_only_its_own_consumers_w22():
    heard = []

    def broken(channel, instance):
        raise RuntimeError("no widget")

    subscribers = (
        ChannelSubscribers()
        .subscribe_factory("answer", broken)
        .subscribe_factory("answer", lambda *_: lambda *, text, **_: heard.append(text))
    )
    _, meta = stream(tagged("answer", "abc"), subscribers=subscribers)
    assert "".join(heard) == "abc"
    assert [(row["channel"], row["count"]) for row in meta["subscriber_errors"]] == [("answer", 1)]


def test_a_failing_main_consumer_does_not_stop_the_others():
    heard = []
    subscribers = ChannelSubscribers().subscribe("answer", lambda *, text, **_: heard.append(text))
    results, meta = stream(tagged("answer", "abc"), emit=fail_with(OSError("gone")), subscribers=subscribers)
    assert ("".join(heard), results["answer"].raw) == ("abc", "abc")
    assert [row["error"] for row in meta["subscriber_errors"]] == ["OSError: gone"]


def test_a_failing_raw_listener_is_left_alone():
    def listener(piece):
        raise OSError("gone")

    results, meta = stream(tagged("answer", "abc"), raw_emit=listener)
    assert results["answer"].raw == "abc"
    assert [(row["channel"], row["count"]) for row in meta["subscriber_errors"]] == [("", 1)]


VIOLATION = StreamPolicyViolation("not_allowed", "Stop.", {"n": 1})


def violate_at(text_wanted):
    async def consume(*, text, **_):
        if text_wanted in text:
            raise VIOLATION

    return consume


def test_a_violation_stops_the_model_and_all_listeners_get_the_end_w13():
    model = StallingModel((tagged("thinking", "t") + start_tag("answer") + "a"), "b")
    shown, heard = Shown(), Shown()
    subscribers = ChannelSubscribers().subscribe("answer", violate_at("a")).subscribe("answer", heard.emit)
    with pytest.raises(StreamPolicyViolation) as raised:
        stream(model, emit=shown.emit, subscribers=subscribers)
    assert raised.value is VIOLATION
    assert (VIOLATION.code, VIOLATION.message, VIOLATION.extra) == ("not_allowed", "Stop.", {"n": 1})
    assert model.aborted
    assert model.ended.is_set()
    assert endings(shown) == [("thinking", 0, None), ("answer", 0, "policy")]
    assert endings(heard) == [("answer", 0, "policy")]


def test_a_violation_of_a_raw_listener_lets_the_text_before_it_through():
    shown = Shown()
    model = StallingModel((start_tag("answer") + "a"), "b", "STOP", "c")

    def guard(piece):
        if piece == "STOP":
            raise VIOLATION

    with pytest.raises(StreamPolicyViolation):
        stream(model, emit=shown.emit, raw_emit=guard)
    assert shown.text("answer") == "ab"
    assert endings(shown) == [("answer", 0, "policy")]


def test_a_violation_of_a_factory_reaches_the_existing_consumers():
    shown = Shown()

    def factory(channel, instance):
        raise VIOLATION

    with pytest.raises(StreamPolicyViolation):
        stream(
            StallingModel(HALF),
            emit=shown.emit,
            subscribers=ChannelSubscribers().subscribe_factory("answer", factory),
        )
    assert endings(shown) == [("answer", 0, "policy")]


def test_violations_at_an_instances_end_are_raised_after_all_got_the_end():
    heard = Shown()

    def object_at_the_end(*, completed, **_):
        if completed:
            raise VIOLATION

    subscribers = (
        ChannelSubscribers()
        .subscribe("answer", object_at_the_end)
        .subscribe("answer", object_at_the_end)
        .subscribe("answer", heard.emit)
    )
    with pytest.raises(StreamPolicyViolation):
        stream(tagged("answer", "a"), subscribers=subscribers)
    assert endings(heard) == [("answer", 0, None)]


# What the caller does


async def cancelled_when_shown(model, shown, **arguments):
    started = asyncio.Event()

    async def emit(**delta):
        shown.append(delta)
        started.set()

    task = asyncio.create_task(call(model, emit=emit, **arguments))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_task_stops_the_model_and_closes_what_is_open_w13():
    model, shown = StallingModel(HALF), Shown()
    asyncio.run(cancelled_when_shown(model, shown))
    assert model.aborted
    assert model.ended.is_set()
    assert endings(shown) == [("answer", 0, "cancelled")]


def test_a_task_cancelled_while_closing_an_instance_notifies_the_rest():
    shown, heard = Shown(), Shown()

    async def main():
        closing = asyncio.Event()

        async def stuck(*, completed, **_):
            if completed:
                closing.set()
                await asyncio.Event().wait()

        subscribers = ChannelSubscribers().subscribe("answer", stuck).subscribe("answer", heard.emit)
        text = tagged("answer", "a")
        task = asyncio.create_task(call(text, emit=shown.emit, subscribers=subscribers))
        await closing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert endings(shown) == endings(heard) == [("answer", 0, None)]


def test_a_second_cancel_waits_for_the_models_thread_too():
    class Slow(StallingModel):
        """Ends a while after its abort."""

        def __init__(self, *pieces):
            super().__init__(*pieces)
            self.released = threading.Event()

        def __exit__(self, *_):
            self.released.wait()
            self.ended.set()

    async def main():
        model, started = Slow(HALF), asyncio.Event()

        async def emit(**_):
            started.set()

        task = asyncio.create_task(call(model, emit=emit))
        await started.wait()
        task.cancel()
        await asyncio.to_thread(model.go.wait)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        model.released.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.ended.is_set()

    asyncio.run(main())


def test_each_cancel_during_the_end_skips_only_one_listener():
    shown, heard, stuck_at = Shown(), Shown(), []

    async def main():
        closing = asyncio.Semaphore(0)

        async def stuck(*, completed, **_):
            if completed:
                stuck_at.append("closed")
                closing.release()
                await asyncio.Event().wait()

        subscribers = ChannelSubscribers().subscribe("answer", stuck).subscribe("answer", stuck)
        subscribers.subscribe("answer", heard.emit)
        text = tagged("answer", "a")
        task = asyncio.create_task(call(text, emit=shown.emit, subscribers=subscribers))
        for _ in range(2):
            await closing.acquire()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(stuck_at) == 2
    assert endings(shown) == endings(heard) == [("answer", 0, None)]


def test_a_consumer_whose_own_work_was_cancelled_fails_alone():
    shown = Shown()

    async def waits(**_):
        waited = asyncio.ensure_future(asyncio.Event().wait())
        waited.cancel()
        await waited

    results, meta = stream(tagged("answer", "whole"), emit=shown.emit, subscribers={"answer": [waits]})
    assert results["answer"].raw == shown.text("answer") == "whole"
    assert [row["error"] for row in meta["subscriber_errors"]] == ["CancelledError: "]
