"""One suite for every ModelClient: the memory twin, and each transport of the adapter against the scripted server."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import Protocol

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.adapters.provider.wire import Retry
from stepline.errors import (
    ContextLimit,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    SteplineError,
)
from stepline.local.scripted.fault import Fault
from stepline.local.scripted.server import ScriptedServer
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import Media, ModelClient, ModelRequest, Part, RoleChoice
from tests.support.asked_provider import ask_anthropic, ask_bedrock, ask_chat, ask_converse
from tests.support.files import GIF, PDF, PNG, media, pdf, picture
from tests.support.spoken_wire import declined_over

FALLBACK = "claude-haiku-4-5"
LONG = "A long answer, told in many small pieces — with ümlauts, 😀 and <tags>. " * 20
REQUEST = ModelRequest(
    role="solver.react.decision",
    system=(Part(text="Answer the user. " * 40, cache=True),),
    content=(Part(text="The timeline so far.", cache=True), Part(text="What now?")),
    max_tokens=4000,
)


class Harness(Protocol):
    """A client whose next answers are known."""

    client: ModelClient

    def given(self, *steps: Say | Fail) -> None: ...

    def asked(self) -> int: ...

    def files(self) -> list[tuple[str, str]]:
        """Return type and hash of the files of the newest request."""
        ...

    def declined(self, category: str = "", explanation: str = "") -> Declined:
        """Return a refusal as the wire can say it."""
        ...


class MemoryHarness:
    def __init__(self) -> None:
        self.memory = MemoryModelClient(fallback=FALLBACK)
        self.client: ModelClient = self.memory

    def given(self, *steps: Say | Fail) -> None:
        self.memory.add(*steps)
        self.count = len(steps)

    def asked(self) -> int:
        return self.count - len(self.memory._steps)

    def files(self) -> list[tuple[str, str]]:
        parts = [part for part in self.memory.requests[-1].content if isinstance(part, Media)]
        return [(part.body.mime, hashlib.sha256(part.data).hexdigest()) for part in parts]

    def declined(self, category: str = "", explanation: str = "") -> Declined:
        return Declined(category=category, explanation=explanation)


class ServerHarness:
    def __init__(self, server: ScriptedServer, transport: str) -> None:
        self.server = server
        chosen, retry = (
            {"*": RoleChoice(fallback=FALLBACK)},
            Retry(base_s=0.001, cap_s=0.001, retry_after_max_s=1),
        )
        match transport:
            case "bedrock":
                self.asking = ask_bedrock(server.url, chosen, retry=retry)
            case "chat":
                plain = {"*": RoleChoice(model="qwen3:8b", fallback=FALLBACK)}
                self.asking = ask_chat(server.url, plain, retry=retry)
            case "converse":
                self.asking = ask_converse(server.url, chosen, retry=retry)
            case _:
                self.asking = ask_anthropic(server.url, chosen, retry=retry, by_sdk=transport == "sdk")
        self.client: ModelClient = self.asking
        self.transport = transport
        self.overload = "serviceUnavailableException" if transport == "bedrock" else "overloaded_error"

    def given(self, *steps: Say | Fail) -> None:
        for step in steps:
            self.server.faults._faults.append(_fault(step, overload=self.overload))

    def asked(self) -> int:
        return len(self.server.requests)

    def files(self) -> list[tuple[str, str]]:
        blocks = self.server.requests[-1]["body"]["messages"][0]["content"]
        found = [(block["type"], block["source"]) for block in blocks if block["type"] != "text"]
        assert [kind for kind, _ in found] == ["image", "image", "document"]
        return [(source["media_type"], source["sha256"]) for _, source in found]

    def declined(self, category: str = "", explanation: str = "") -> Declined:
        return declined_over(self.transport, Declined(category=category, explanation=explanation))


def _said(step: Say) -> Fault:
    if step.stop_reason == "refusal":
        pieces = step.declined
        return Fault(kind="refusal", text=step.text, category=pieces.category, explanation=pieces.explanation)
    return Fault(
        kind="fixture", text=step.text, stop_reason=step.stop_reason * (step.stop_reason != "end_turn")
    )


def _fault(step: Say | Fail, *, overload: str) -> Fault:
    if isinstance(step, Say):
        return _said(step)
    after = step.after_chars
    asked = step.error.context.get("retry_after_s")
    match step.error:
        case ModelRateLimited():
            return Fault(kind="rate_limited", retry_after_s=float(asked) if asked is not None else None)
        case ModelOverloaded():
            return Fault(
                kind="error_in_stream" if step.text else "overloaded",
                text=step.text,
                after_chars=after,
                error_type=overload,
            )
        case ContextLimit():
            return Fault(kind="context_limit")
        case ModelRefused():
            return Fault(kind="invalid_request")
        case _:
            return Fault(
                kind="malformed_stream" if step.error.reason == "stream_malformed" else "cut",
                text=step.text or LONG,
                after_chars=after,
            )


@pytest.fixture(params=["memory", "http", "sdk", "bedrock", "chat", "converse"])
def harness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    if request.param == "memory":
        yield MemoryHarness()
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with ScriptedServer(token_delay_ms=0) as server:
        served = ServerHarness(server, request.param)
        yield served
        served.asking.close()


CUT = ModelStreamBroken("cut", code="stream_cut")


def test_the_pieces_are_the_text_of_the_completion(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        pieces = list(stream)
    done = stream.completion()
    assert len(pieces) > 10
    assert "".join(pieces) == done.text == LONG
    assert (done.stop_reason, done.aborted, done.retries) == ("end_turn", False, 0)
    assert done.model


def test_pictures_and_documents_are_sent_whole_and_in_order(harness: Harness) -> None:
    files = [(PNG, picture()), (GIF, picture(GIF)), (PDF, pdf(3))]
    parts = [media(f"fi:turn_1.outputs/{n}", data, mime) for n, (mime, data) in enumerate(files)]
    harness.given(Say(text="Seen."))
    with harness.client.stream(replace(REQUEST, content=(*REQUEST.content, *parts))) as stream:
        assert "".join(stream) == "Seen."
    assert harness.files() == [(mime, hashlib.sha256(data).hexdigest()) for mime, data in files]
    assert stream.completion().usage.prompt_tokens > 0


def test_a_cut_call_counts_the_cost_of_its_files(harness: Harness) -> None:
    harness.given(*[Fail(error=ModelOverloaded("busy"))] * 3)
    file = media("fi:turn_1.outputs/a", picture(), PNG)
    with (
        harness.client.stream(replace(REQUEST, content=(*REQUEST.content, file))) as stream,
        pytest.raises(ModelOverloaded),
    ):
        list(stream)
    assert stream.completion().usage.estimated


def test_a_finished_call_reports_its_tokens(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        list(stream)
    usage = stream.completion().usage
    assert not usage.estimated
    assert usage.prompt_tokens > 100
    assert usage.output_tokens > 200


def test_an_aborted_call_ends_quietly_and_still_has_a_price(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    pieces: list[str] = []
    with harness.client.stream(REQUEST) as stream:
        for piece in stream:
            pieces.append(piece)
            if len(pieces) == 5:
                stream.abort()
                stream.abort()
    done = stream.completion()
    assert (done.aborted, done.stop_reason) == (True, "aborted")
    assert done.text == "".join(pieces)
    assert LONG.startswith(done.text)
    assert done.usage.estimated
    assert done.usage.prompt_tokens > 100
    assert 0 < done.usage.output_tokens < 200


def test_a_call_left_in_mid_stream_counts_as_aborted(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        next(iter(stream))
    assert stream.completion().aborted


def test_an_abort_before_the_first_piece_sends_no_request(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        stream.abort()
        assert list(stream) == []
    assert stream.completion().aborted
    assert stream.completion().usage == Usage()
    assert harness.asked() == 0


def test_an_abort_after_the_end_changes_nothing(harness: Harness) -> None:
    harness.given(Say(text="short"))
    with harness.client.stream(REQUEST) as stream:
        list(stream)
        stream.abort()
    assert (stream.completion().aborted, stream.completion().stop_reason) == (False, "end_turn")


@pytest.mark.parametrize("error", [ModelRateLimited(""), ModelOverloaded(""), CUT], ids=lambda e: e.reason)
def test_failures_before_the_first_piece_are_tried_again(harness: Harness, error: SteplineError) -> None:
    harness.given(Fail(error=error), Fail(error=error), Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        assert "".join(stream) == LONG
    assert stream.completion().retries == 2
    assert harness.asked() == 3


@pytest.mark.parametrize("error", [ModelRateLimited(""), ModelOverloaded(""), CUT], ids=lambda e: e.reason)
def test_the_third_failure_is_the_callers(harness: Harness, error: SteplineError) -> None:
    harness.given(*[Fail(error=error)] * 3, Say(text=LONG))
    with harness.client.stream(REQUEST) as stream, pytest.raises(type(error)) as caught:
        list(stream)
    assert caught.value.reason == error.reason
    assert harness.asked() == 3
    done = stream.completion()
    assert (done.stop_reason, done.aborted, done.text) == ("cut", False, "")
    assert done.usage.estimated


@pytest.mark.parametrize("error", [ContextLimit(""), ModelRefused("")], ids=lambda e: e.reason)
def test_a_permanent_failure_is_not_retried(harness: Harness, error: SteplineError) -> None:
    harness.given(Fail(error=error), Say(text=LONG))
    with harness.client.stream(REQUEST) as stream, pytest.raises(type(error)) as caught:
        list(stream)
    assert caught.value.reason == error.reason
    assert harness.asked() == 1


@pytest.mark.parametrize(
    "error",
    [CUT, ModelOverloaded("in the stream"), ModelStreamBroken("", code="stream_malformed")],
    ids=lambda e: e.reason,
)
def test_a_failure_after_the_first_piece_is_never_tried_again(harness: Harness, error: SteplineError) -> None:
    harness.given(Fail(error=error, text=LONG, after_chars=40), Say(text=LONG))
    pieces: list[str] = []
    with harness.client.stream(REQUEST) as stream, pytest.raises(type(error)) as caught:
        pieces.extend(stream)
    assert caught.value.reason == error.reason
    assert harness.asked() == 1
    done = stream.completion()
    assert done.text == "".join(pieces) == LONG[:40]
    assert (done.stop_reason, done.aborted) == ("cut", False)
    assert done.usage.estimated
    assert done.usage.prompt_tokens > 100
    assert done.usage.output_tokens > 5


def test_an_answer_too_long_for_max_tokens_says_so(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    small = ModelRequest(role="x", system=REQUEST.system, content=REQUEST.content, max_tokens=10)
    with harness.client.stream(small) as stream:
        text = "".join(stream)
    assert LONG.startswith(text)
    assert 10 < len(text) < 60
    assert stream.completion().stop_reason == "max_tokens"


def test_a_refusal_is_an_answer_and_no_error(harness: Harness) -> None:
    harness.given(Say(text="I", stop_reason="refusal"))
    with harness.client.stream(REQUEST) as stream:
        list(stream)
    done = stream.completion()
    assert (done.stop_reason, done.declined) == ("refusal", replace(harness.declined(), fallback=True))


def test_a_refusal_has_the_providers_words(harness: Harness) -> None:
    harness.given(
        Say(stop_reason="refusal", declined=Declined(category="cyber", explanation="It may do harm."))
    )
    with harness.client.stream(REQUEST) as stream:
        assert not "".join(stream)
    expected = harness.declined("cyber", "It may do harm.")
    assert stream.completion().declined == replace(expected, fallback=True)


def test_a_declined_request_goes_to_the_fallback_which_has_none(harness: Harness) -> None:
    harness.given(Say(text="Yes."), Say(stop_reason="refusal"))
    again = replace(REQUEST, declined=True)
    with harness.client.stream(again) as stream:
        assert "".join(stream) == "Yes."
    assert (stream.completion().model, stream.completion().declined) == (FALLBACK, None)
    with harness.client.stream(again) as stream:
        list(stream)
    assert stream.completion().declined == harness.declined()


def test_an_answer_that_was_cut_declines_nothing(harness: Harness) -> None:
    harness.given(Fail(error=CUT, text=LONG, after_chars=40))
    with harness.client.stream(REQUEST) as stream, pytest.raises(ModelStreamBroken):
        list(stream)
    assert stream.completion().declined is None


def test_the_tokens_of_failed_tries_are_counted_apart(harness: Harness) -> None:
    harness.given(Fail(error=CUT), Fail(error=ModelRateLimited("")), Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        list(stream)
    done = stream.completion()
    assert done.retries == 2
    assert (done.lost.estimated, done.usage.estimated) == (True, False)
    assert 0.9 * done.usage.prompt_tokens < done.lost.prompt_tokens < 1.5 * done.usage.prompt_tokens
    assert done.cost.prompt_tokens == done.usage.prompt_tokens + done.lost.prompt_tokens


def test_a_call_that_failed_after_text_reports_its_usage(harness: Harness) -> None:
    harness.given(Fail(error=CUT), Fail(error=CUT, text=LONG, after_chars=40))
    with harness.client.stream(REQUEST) as stream, pytest.raises(ModelStreamBroken):
        list(stream)
    done = stream.completion()
    assert done.usage.prompt_tokens > 100
    assert done.usage.output_tokens > 5
    assert done.lost.prompt_tokens > 100


def test_a_call_that_the_provider_did_not_take_has_used_nothing(harness: Harness) -> None:
    harness.given(*[Fail(error=ModelOverloaded(""))] * 3)
    with harness.client.stream(REQUEST) as stream, pytest.raises(ModelOverloaded):
        list(stream)
    cost = stream.completion().cost
    assert (cost.prompt_tokens, cost.output_tokens) == (0, 0)


def test_one_client_serves_calls_of_several_threads(harness: Harness) -> None:
    harness.given(*[Say(text=LONG)] * 4)
    texts: list[str] = []

    def call() -> None:
        with harness.client.stream(REQUEST) as stream:
            texts.append("".join(stream))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert texts == [LONG] * 4


def test_the_prompt_is_counted_when_the_first_piece_comes(harness: Harness) -> None:
    harness.given(Say(text=LONG))
    with harness.client.stream(REQUEST) as stream:
        pieces = iter(stream)
        next(pieces)
        assert stream.completion().usage.prompt_tokens > 0
        "".join(pieces)
