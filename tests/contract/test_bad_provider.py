"""A row of a provider that is wrong: a sentence with a code at synthesis, from doctor, and at the first turn, which ends with it."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import pytest

from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.wire import Retry
from stepline.bootstrap.choice import provider_of
from stepline.bootstrap.memory_wiring import in_memory
from stepline.errors import InputError, ModelOverloaded, ModelRefused, ModelStreamBroken, SteplineError
from stepline.local.command import doctor
from stepline.local.scripted.server import ScriptedServer
from stepline.loop.close import MESSAGES
from stepline.ports.model import DEFAULT_ROLE, ModelRequest, Part, RoleChoice
from stepline.settings import Settings
from stepline_cdk.stage import Stage
from tests.support.certificate import write_certificate
from tests.support.served_conversation import ServedConversation

WIRES: Final = ("chat", "messages", "converse")
JSON: Final = "application/json"
REFUSED, UNREACHABLE, BROKEN = "model_refused", "model_unreachable", "model_stream_broken"


class Website(ThreadingHTTPServer):
    """A server of another kind: it answers every request alike; `asked` counts them."""

    def __init__(
        self, status: int = 200, mime: str = "text/html", body: bytes = b"<p>Hi</p>", tls: Path | None = None
    ) -> None:
        self.answer, self.asked = (status, mime, body), 0
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.place = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Log no handshake that a client broke off."""


class _Handler(BaseHTTPRequestHandler):
    server: Website

    def do_POST(self) -> None:
        self.server.asked += 1
        status, mime, body = self.server.answer
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(status)
        self.send_header("content-type", mime)
        self.send_header("location", "http://127.0.0.1:9/elsewhere")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate that no client trusts, and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


class Wrong(NamedTuple):
    """An address: `scheme` before that of the website, or a whole URL; the ends of a turn, and its most requests."""

    codes: tuple[str, ...]
    requests: int
    scheme: str = "http"
    url: str = ""
    site: tuple[Any, ...] = ()
    tls: bool = False


ADDRESSES: Final[dict[str, Wrong]] = {
    "a website": Wrong((REFUSED,), 1),
    "a website without such a page": Wrong((REFUSED,), 1, site=(404,)),
    "a redirect": Wrong((REFUSED,), 1, site=(307,)),
    "a moved address": Wrong((REFUSED,), 1, site=(301, "text/plain", b"")),
    "an answer without content": Wrong((REFUSED,), 1, site=(204, "text/plain", b"")),
    "the API of another service": Wrong((REFUSED,), 1, site=(200, JSON, b'{"hello": "world"}')),
    "an empty object": Wrong((REFUSED,), 1, site=(200, JSON, b"{}")),
    "an object of many lines": Wrong((REFUSED,), 1, site=(200, JSON, b'{\n "a": 1,\n "b": [2]\n}\n')),
    "objects in lines": Wrong((REFUSED,), 1, site=(200, JSON, b'{"done": false}\n{"done": true}\n')),
    "an empty answer": Wrong((REFUSED,), 1, site=(200, JSON, b"")),
    "a list": Wrong((REFUSED,), 1, site=(200, JSON, b"[]")),
    "a text": Wrong((REFUSED,), 1, site=(200, "text/plain", b"ok")),
    "a website by another name": Wrong((REFUSED,), 1, site=(200, "text/plain", b"\n<!doctype html>\n<p>Hi")),
    "a server without the model": Wrong(
        (REFUSED,), 1, site=(404, JSON, b'{"error": {"message": "model m not found"}}')
    ),
    "a server without the model, as Ollama": Wrong(
        (REFUSED,), 1, site=(404, JSON, b'{"error": "model m not found, try pulling it first"}')
    ),
    "a certificate that is not trusted": Wrong((REFUSED,), 0, "https", tls=True),
    "TLS where none is spoken": Wrong((REFUSED,), 0, "https"),
    "no TLS where it is spoken": Wrong((UNREACHABLE, BROKEN), 0, tls=True),
    "a closed port": Wrong((UNREACHABLE,), 0, url="http://127.0.0.1:9/v1"),
    "a host that does not exist": Wrong((UNREACHABLE,), 0, url="http://model.invalid/v1"),
}


def chosen(row: object, model: str = "own:m") -> dict[str, str]:
    return {
        "STEPLINE_MODEL_PROVIDERS": json.dumps({"own": row}),
        "STEPLINE_MODEL_ROLES": json.dumps({"*": model}),
    }


def end_turns(variables: dict[str, str]) -> str:
    """Return the code with which a turn ends, after the next one over a good server has answered with it in its history."""
    served = ServedConversation(variables)
    closed = served.ask("Hello.")
    assert closed.message == MESSAGES[closed.code]
    served.provider.close()
    with ScriptedServer(token_delay_ms=0) as good:
        repaired = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": good.url}
        served.provider = in_memory(Settings.from_env(repaired)).provider_model()
        assert served.ask("And now?", "m2").outcome == "completed"
        assert "Hello." in json.dumps(good.requests[-1])
        served.provider.close()
    return str(closed.code)


def check(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what doctor says of the one model that variables choose."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (found,) = doctor._models()
    assert not found.ok
    assert "\n" not in found.detail
    return found.detail


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("wrong", ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_that_is_no_such_server_ends_the_turn_with_a_code(
    wire: str, wrong: Wrong, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Website(*wrong.site, **({"tls": certificate} if wrong.tls else {}))
    try:
        url = wrong.url or f"{wrong.scheme}://{site.place}/v1"
        variables = chosen({"wire": wire, "base_url": url, "private": True})
        assert end_turns(variables) in wrong.codes
        assert site.asked <= wrong.requests
        said = check(variables, monkeypatch)
        assert said.startswith("own:m: ")
        assert site.place in said or not site.asked or site.answer[0] != 200
    finally:
        site.shutdown()
        site.server_close()


STREAM: Final = "text/event-stream"
ANSWERS: Final[dict[str, tuple[str, bytes, type[SteplineError], int]]] = {
    "a refusal": (JSON, b'{"error": {"type": "invalid_request_error", "message": "no"}}', ModelRefused, 1),
    "an overload": (JSON, b'{"error": {"type": "overloaded_error", "message": "no"}}', ModelOverloaded, 3),
    "an object that is cut": (JSON, b'{"content": [{"type": "text", "text": "He', ModelStreamBroken, 3),
    "a stream without an event": (STREAM, b"", ModelStreamBroken, 3),
    "a stream cut after a comment": ("", b": ping\n\n", ModelStreamBroken, 3),
    "a stream cut in its first event": ("", b'event: message_start\ndata: {"cho', ModelStreamBroken, 3),
}


@pytest.mark.parametrize("wire", ["chat", "messages"])
@pytest.mark.parametrize(("mime", "body", "kind", "requests"), ANSWERS.values(), ids=ANSWERS)
def test_an_error_keeps_its_meaning_and_a_cut_answer_is_requested_again(
    wire: str, mime: str, body: bytes, kind: type[SteplineError], requests: int
) -> None:
    site = Website(200, mime, body)
    row = {"wire": wire, "base_url": f"http://{site.place}/v1", "private": True}
    settings = Settings.from_env(chosen(row))
    client = ProviderClient(
        provider_of(settings), roles={DEFAULT_ROLE: RoleChoice(model="own:m")}, retry=Retry(base_s=0)
    )
    asked = ModelRequest(role=DEFAULT_ROLE, system=(), content=(Part(text="Hello."),), max_tokens=9)
    try:
        with client.stream(asked) as stream, pytest.raises(kind):
            list(stream)
        assert site.asked == requests
    finally:
        client.close()
        site.shutdown()
        site.server_close()


ROWS: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "OpenAI without a key": ({}, REFUSED, "model_credentials"),
    "Anthropic without a key": ({"wire": "messages"}, REFUSED, "model_credentials"),
    **{
        f"{wire} at an address that is not public": (
            {"wire": wire, "base_url": "http://127.0.0.1/v1"},
            REFUSED,
            "model_refused",
        )
        for wire in WIRES
    },
    **{
        f"{wire} at a port of no website": (
            {"wire": wire, "base_url": "https://models.example.com:8443/v1"},
            REFUSED,
            "model_refused",
        )
        for wire in WIRES
    },
}


@pytest.mark.parametrize(("row", "code", "reason"), ROWS.values(), ids=ROWS)
def test_a_row_that_cannot_be_called_sends_nothing(
    row: dict[str, Any], code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert end_turns(chosen(row)) == code
    assert check(chosen(row), monkeypatch).startswith(f"own:m: {reason}: ")


SETTINGS: Final = {
    "an unknown provider": ("{}", '{"*": "own:m"}', "names the provider own"),
    "an unknown provider of a fallback": (
        "{}",
        '{"*": {"model": "x", "fallback": "own:m"}}',
        "names the provider own",
    ),
    "a window of 0": ('{"own": {"window_tokens": 0}}', "{}", "window_tokens"),
    "no address": ('{"own": "127.0.0.1:11434"}', "{}", "base_url"),
    "an address with a password": ('{"own": "https://me:secret@h/v1"}', "{}", "base_url"),
    "an unknown wire": ('{"own": {"wire": "telex"}}', "{}", "wire"),
    "an unknown field": ('{"own": {"url": "http://h/v1"}}', "{}", "url"),
    "a header over two lines": ('{"own": {"headers": {"a": "b\\nc: d"}}}', "{}", "header"),
    "a name with a colon": ('{"own:x": "http://h/v1"}', "{}", "key"),
    "a secret of Converse": ('{"own": {"wire": "converse", "secret_arn": "arn:x"}}', "{}", "signed"),
    "a time before no fallback": ("{}", '{"*": {"model": "m", "fallback_after_s": 3}}', "fallback"),
    "a negative time": (
        "{}",
        '{"*": {"model": "m", "fallback": "n", "fallback_after_s": -1}}',
        "fallback_after_s",
    ),
}


@pytest.mark.parametrize(("rows", "roles", "words"), SETTINGS.values(), ids=SETTINGS)
def test_settings_that_mean_nothing_are_refused_when_a_function_starts_and_by_doctor(
    rows: str, roles: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"STEPLINE_MODEL_PROVIDERS": rows, "STEPLINE_MODEL_ROLES": roles}
    with pytest.raises(InputError, match=words) as caught:
        in_memory(Settings.from_env(variables))
    assert caught.value.reason == "bad_setting"
    assert "\n" not in str(caught.value)
    assert "secret@" not in str(caught.value)
    said = check({**variables, "ANTHROPIC_API_KEY": "key"}, monkeypatch)
    assert said.startswith("bad_setting: ")


def test_a_role_of_a_known_provider_without_a_key_is_refused_at_synthesis() -> None:
    roles = {"*": RoleChoice(model="openai:gpt-5.5")}
    with pytest.raises(ValueError, match="model_roles: got 'openai:…', takes a row openai"):
        Stage(name="prod", exec_image="none", model_roles=roles)
    assert (
        Stage(name="prod", exec_image="none", model_roles=roles, model_provider="openai").model_provider
        == "openai"
    )


def test_the_key_of_the_stage_is_not_sent_to_another_known_provider() -> None:
    settings = Settings.from_env(
        {
            "STEPLINE_MODEL_SECRET_ARN": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:key",
            "STEPLINE_MODEL_ROLES": '{"*": "openai:gpt-5.5"}',
        }
    )
    served = provider_of(settings)
    assert vars(served)["_providers"]["openai"].api_key() == ""


KEYS: Final = ("sk-ключ", "sk-a\nb", "sk-\x00")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_key_that_no_header_can_have_is_refused_with_its_own_code(provider: str, key: str) -> None:
    variables = {f"{provider.upper()}_API_KEY": key, "STEPLINE_MODEL_PROVIDER": provider}
    assert end_turns(variables) == REFUSED


class Echoing(Website):
    """A server that repeats the key that it refuses."""

    said: ClassVar[bytes] = (
        b'{"error": {"message": "Incorrect API key provided: sk-0123456789", "type": "x"}}'
    )


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_key_is_in_no_line_and_no_stored_byte_though_a_server_repeats_it(
    wire: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    site = Echoing(401, JSON, Echoing.said)
    try:
        variables = {
            f"{wire.upper()}_API_KEY": "sk-0123456789",
            f"{wire.upper()}_BASE_URL": f"http://{site.place}/v1",
            "STEPLINE_MODEL_PROVIDER": wire,
            "STEPLINE_MODEL_ROLES": '{"*": "m"}',
        }
        served = ServedConversation(variables)
        assert served.ask("Hello.").code == REFUSED
        said = check(variables, monkeypatch)
        stored = [str(batch) for batch in served.batches()]
    finally:
        site.shutdown()
        site.server_close()
    assert site.asked
    assert stored
    lines = [f"{one.getMessage()} {vars(one)} {one.exc_text}" for one in caplog.records]
    assert "sk-0123456789" not in "\n".join([*lines, *stored, said])


def test_a_space_around_a_key_is_not_sent() -> None:
    with ScriptedServer(token_delay_ms=0) as server:
        server.key = "right"
        variables = {"ANTHROPIC_API_KEY": " right\n", "ANTHROPIC_BASE_URL": server.url}
        assert ServedConversation(variables).ask("Hello.").outcome == "completed"
