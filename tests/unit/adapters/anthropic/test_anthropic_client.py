"""The adapter with any transport: lazy loading, roles and marks; and Bedrock's frames."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from stepline.adapters.anthropic.call import plan_call
from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.memory.clock import MemoryMeter
from stepline.adapters.provider.client import ProviderClient
from stepline.errors import (
    DependencyError,
    ModelOverloaded,
    ModelRefused,
    ModelStreamBroken,
)
from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.fault import Fault
from stepline.local.scripted.server import ScriptedServer
from stepline.ports.model import ModelRequest, Part, RoleChoice
from tests.support.asked_provider import ask_anthropic, ask_bedrock

REQUEST = ModelRequest(
    role="solver.react.decision",
    system=(Part(text="S" * 8000, cache=True),),
    content=(Part(text="one"), Part(text="two", cache=True), Part(text=" \n"), Part(text="three")),
    max_tokens=4000,
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(token_delay_ms=0) as running:
        yield running


@pytest.fixture
def clients() -> Iterator[list[ProviderClient]]:
    made: list[ProviderClient] = []
    yield made
    for client in made:
        client.close()


@pytest.fixture
def client(server: ScriptedServer, clients: list[ProviderClient]) -> ProviderClient:
    made = ask_anthropic(server.url)
    clients.append(made)
    return made


def test_importing_the_adapter_imports_no_transport() -> None:
    code = "import sys, stepline.adapters.anthropic.provider; print({'anthropic', 'httpx2', 'urllib3'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_call_has_one_system_list_and_one_message_with_marks() -> None:
    call = plan_call(REQUEST, RoleChoice(model="m"))
    mark = {"cache_control": {"type": "ephemeral"}}
    assert call == {
        "model": "m",
        "max_tokens": 4000,
        "stream": True,
        "system": [{"type": "text", "text": "S" * 8000, **mark}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "one"},
                    {"type": "text", "text": "two", **mark},
                    {"type": "text", "text": "three"},
                ],
            }
        ],
    }


@pytest.mark.parametrize(
    ("role", "changes"),
    [
        (RoleChoice(model="m", max_tokens=100), {"max_tokens": 100}),
        (RoleChoice(model="m", max_tokens=9000), {"max_tokens": 4000}),
        (RoleChoice(model="m", thinking="disabled"), {"thinking": {"type": "disabled"}}),
        (RoleChoice(model="m", effort="low"), {"output_config": {"effort": "low"}}),
    ],
)
def test_a_role_shapes_its_calls(role: RoleChoice, changes: dict[str, Any]) -> None:
    assert plan_call(REQUEST, role) == {**plan_call(REQUEST, RoleChoice(model="m")), **changes}


def test_a_role_without_its_own_model_uses_the_default(server: ScriptedServer) -> None:
    client = ask_anthropic(server.url, {"gate.simple": RoleChoice(model="claude-haiku-4-5")})
    for role in ("gate.simple", "something.else"):
        request = ModelRequest(role=role, system=(), content=(Part(text="hi"),), max_tokens=100)
        with client.stream(request) as stream:
            list(stream)
    client.close()
    assert [seen["body"]["model"] for seen in server.requests] == [
        "claude-haiku-4-5",
        AnthropicProvider.default_model,
    ]


def test_a_call_without_a_key_is_refused_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = ask_anthropic(api_key=str)
    with client.stream(REQUEST) as stream, pytest.raises(ModelRefused) as caught:
        list(stream)
    assert caught.value.reason == "model_credentials"
    assert not caplog.records


def test_warming_without_a_key_does_not_fail() -> None:
    thread = ask_anthropic(api_key=str).warm()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_a_warmed_client_is_made_once(server: ScriptedServer, clients: list[ProviderClient]) -> None:
    made: list[str] = []

    def key() -> str:
        made.append("key")
        return "key"

    client = ask_anthropic(server.url, api_key=key)
    clients.append(client)
    client.warm()
    with client.stream(REQUEST) as stream:
        assert list(stream)
    assert made == ["key"]


class Secret:
    """A rotated secret: each read returns the next key, and then always the last one."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.reads = keys, 0

    def __call__(self) -> str:
        self.reads += 1
        return self.keys[min(self.reads, len(self.keys)) - 1]


def rotated(server: ScriptedServer, clients: list[ProviderClient], secret: Secret, **fields: Any) -> Any:
    client = ask_anthropic(server.url, api_key=secret, **fields)
    clients.append(client)
    return client


def test_a_refused_key_is_read_again_and_the_call_continues_with_the_new_key(
    server: ScriptedServer, clients: list[ProviderClient]
) -> None:
    client = rotated(server, clients, secret := Secret("old", "new"))
    for taken, reads in (("old", 1), ("new", 3), ("new", 3)):
        server.key = taken
        with client.stream(REQUEST) as stream:
            assert list(stream)
        assert secret.reads == reads


def test_a_key_that_is_the_same_when_read_again_ends_the_call(
    server: ScriptedServer, clients: list[ProviderClient]
) -> None:
    client = rotated(server, clients, secret := Secret("old"))
    server.key = "new"
    with client.stream(REQUEST) as stream, pytest.raises(ModelRefused) as caught:
        list(stream)
    assert (caught.value.reason, secret.reads) == ("model_credentials", 2)


def test_a_new_key_that_is_refused_too_ends_the_call(
    server: ScriptedServer, clients: list[ProviderClient]
) -> None:
    client = rotated(server, clients, Secret("old", "wrong"))
    server.key = "new"
    with client.stream(REQUEST) as stream, pytest.raises(ModelRefused) as caught:
        list(stream)
    assert caught.value.reason == "model_credentials"


def test_a_secret_that_cannot_be_read_again_is_reported(
    server: ScriptedServer, clients: list[ProviderClient]
) -> None:
    class Unreadable(Secret):
        def __call__(self) -> str:
            if self.reads:
                raise DependencyError("a secret cannot be read", code="secret_unreadable")
            return super().__call__()

    client = rotated(server, clients, Unreadable("old"))
    server.key = "new"
    with client.stream(REQUEST) as stream, pytest.raises(DependencyError) as caught:
        list(stream)
    assert caught.value.reason == "secret_unreadable"


def test_a_second_call_reads_the_cache_of_the_first(client: ProviderClient) -> None:
    usages = []
    for _ in range(2):
        with client.stream(REQUEST) as stream:
            list(stream)
        usages.append(stream.completion().usage)
    assert [(use.cache_write_5m_tokens, use.cache_read_tokens) for use in usages] == [(2002, 0), (0, 2002)]
    assert usages[0].input_tokens == usages[1].input_tokens == 2
    assert usages[0].cache_write_1h_tokens == 0


def test_facts_that_could_not_be_read_are_counted_for_each_try(
    server: ScriptedServer, clients: list[ProviderClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = rotated(server, clients, Secret("key"), meter=(meter := MemoryMeter()))
    monkeypatch.setattr(wire, "usage", lambda *_, **__: {"input_tokens": "many"})
    server.faults.add([{"kind": "error_in_stream", "after_chars": 0}, {"kind": "fixture", "text": "x"}])
    with client.stream(REQUEST) as stream:
        assert "".join(stream) == "x"
    assert meter.counts == {"ModelAsks": 2, "FactsUnread": 3}


def test_a_cache_of_an_hour_is_written_as_one(server: ScriptedServer, clients: list[ProviderClient]) -> None:
    hour = ask_anthropic(server.url, {"*": RoleChoice(cache_ttl="1h")})
    clients.append(hour)
    with hour.stream(REQUEST) as stream:
        list(stream)
    usage = stream.completion().usage
    assert (usage.cache_write_1h_tokens, usage.cache_write_5m_tokens) == (2002, 0)


def test_a_small_answer_keeps_its_text_after_thinking_that_cannot_be_disabled(
    server: ScriptedServer, clients: list[ProviderClient]
) -> None:
    title = "A title. " * 20
    server.faults.add({"kind": "thinking", "thinking_tokens": 3000, "text": title})
    thinker = ask_anthropic(server.url, {"*": RoleChoice(model="claude-opus-5-5")})
    clients.append(thinker)
    small = ModelRequest(role="gate.simple", system=(), content=(Part(text="hi"),), max_tokens=400)
    with thinker.stream(small) as stream:
        assert "".join(stream) == title
    assert stream.completion().usage.output_tokens > 3000
    assert server.requests[0]["body"]["output_config"] == {"effort": "low"}


@pytest.fixture
def bedrock(
    server: ScriptedServer, clients: list[ProviderClient], monkeypatch: pytest.MonkeyPatch
) -> ProviderClient:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    made = ask_bedrock(server.url)
    clients.append(made)
    return made


def test_bedrock_streams_the_same_answer(server: ScriptedServer, bedrock: ProviderClient) -> None:
    server.faults.add([{"kind": "fixture", "text": "Grüße 😀 " * 50}])
    with bedrock.stream(REQUEST) as stream:
        pieces = list(stream)
    done = stream.completion()
    assert "".join(pieces) == done.text == "Grüße 😀 " * 50
    assert done.stop_reason == "end_turn"
    assert done.usage.cache_write_5m_tokens == 2002
    assert server.requests[0]["body"]["model"].startswith("global.anthropic.")


def test_bedrock_speaks_of_an_error_inside_the_stream(
    server: ScriptedServer, bedrock: ProviderClient
) -> None:
    server.faults.add(
        {
            "kind": "error_in_stream",
            "text": "x" * 100,
            "after_chars": 40,
            "error_type": "serviceUnavailableException",
        }
    )
    with bedrock.stream(REQUEST) as stream, pytest.raises(ModelOverloaded):
        list(stream)
    assert stream.completion().text == "x" * 40


def test_a_frame_of_bedrock_that_is_none_is_malformed(
    server: ScriptedServer, bedrock: ProviderClient
) -> None:
    server.faults._faults.append(Fault(kind="malformed_stream", text="x" * 100, after_chars=40))
    with bedrock.stream(REQUEST) as stream, pytest.raises(ModelStreamBroken) as caught:
        list(stream)
    assert caught.value.reason == "stream_malformed"
