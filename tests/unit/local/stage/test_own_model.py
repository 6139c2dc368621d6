"""The model that `stepline up` uses: by variables, by its name, or by the address of its server; and what doctor says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from stepline.adapters.chat.served_models import list_models
from stepline.errors import ModelRefused, ModelUnreachable
from stepline.local.check import Check
from stepline.local.command import doctor
from stepline.local.scripted.server import ScriptedServer
from stepline.local.stage.lifecycle import choose_model, model_variables


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(token_delay_ms=0) as running:
        yield running


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def everywhere(model: str) -> str:
    return json.dumps({"*": model})


def test_an_address_is_a_server_without_a_key_and_its_first_model_serves_every_role(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of another server")
    url = f"{server.url}/v1"
    variables = model_variables(tmp_path, print, url)
    assert variables == {"OPENAI_BASE_URL": url}
    chosen = choose_model(variables, url, {"model_roles": everywhere("another")})
    assert chosen == {"model_provider": "openai", "model_roles": everywhere("scripted")}


def test_a_key_of_openai_chooses_it(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    variables = model_variables(tmp_path, print)
    assert choose_model(variables) == {"model_provider": "openai"}
    assert choose_model(variables, "gpt-5.5")["model_roles"] == everywhere("gpt-5.5")


def test_a_key_of_anthropic_comes_first_and_roles_that_are_chosen_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk")
    variables = model_variables(tmp_path, print)
    assert choose_model(variables) == {}
    roles = {"model_roles": everywhere("openai:gpt-5.5")}
    assert choose_model(variables, "", roles) == roles


def test_a_server_without_models_is_refused_in_one_sentence(server: ScriptedServer) -> None:
    with pytest.raises(ModelRefused, match="lists no models"):
        list_models(f"{server.url}/elsewhere")
    with pytest.raises(ModelUnreachable, match="no model server"):
        list_models("http://127.0.0.1:9/v1")


def checked() -> list[Check]:
    return list(doctor._models())


def test_doctor_sends_each_model_a_request_for_one_token(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked() == []
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    (found,) = checked()
    assert found.ok
    assert found.detail.startswith("scripted answers as scripted, and counted ")
    assert len(server.requests) == 1
    monkeypatch.setenv("STEPLINE_MODEL_ROLES", '{"*": "own:m", "gate.simple": "scripted"}')
    monkeypatch.setenv("STEPLINE_MODEL_PROVIDERS", json.dumps({"own": {"base_url": server.url}}))
    assert [check.ok for check in checked()] == [False, True]
    monkeypatch.setenv(
        "STEPLINE_MODEL_PROVIDERS", json.dumps({"own": {"base_url": server.url, "private": True}})
    )
    assert [check.ok for check in checked()] == [True, True]


def test_doctor_asks_rows_and_fallbacks_without_a_key_of_a_known_provider(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"base_url": server.url, "private": True}
    role = {"model": "own:m", "fallback": "other:n"}
    monkeypatch.setenv("STEPLINE_MODEL_PROVIDERS", json.dumps({"own": row, "other": row, "idle": row}))
    monkeypatch.setenv("STEPLINE_MODEL_ROLES", json.dumps({"*": "claude-haiku-5-5", "gate.simple": role}))
    assert [(check.mark, check.detail.split()[0]) for check in checked()] == [
        ("ok", "other:n"),
        ("ok", "own:m"),
        ("warn", "idle:"),
    ]
    assert len(server.requests) == 2


def test_doctor_sends_nothing_for_choices_that_a_model_refuses(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("STEPLINE_MODEL_ROLES", json.dumps({"*": {"model": "o3-mini", "effort": "max"}}))
    (found,) = checked()
    assert not found.ok
    assert "effort" in found.detail
    assert not server.requests


def test_doctor_says_in_one_sentence_that_a_provider_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    monkeypatch.setenv("STEPLINE_MODEL_ROLES", everywhere("own:m"))
    (found,) = checked()
    assert not found.ok
    assert found.detail.startswith("bad_setting: STEPLINE_MODEL_ROLES names the provider own")
