"""The port of stored secrets, over the twin and Secrets Manager."""

import json

import pytest

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.secret import FRESH_S, StoredSecrets
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.secret import MemorySecrets
from stepline.bundle.descriptor_set import parse_descriptors, parse_stored, render_stored
from stepline.errors import DependencyError, InputError, ToolError
from stepline.ports.descriptor import DEPLOYMENT, name_stage_secret
from tests.support.aws import moto

TEXTS = {
    DEPLOYMENT: '{"search": {"api_key": "k"}}',
    "default": '{"token": "t"}',
    "shop": '{"token": "of-shop"}',
}


@pytest.fixture(params=["memory", "aws"])
def stored(request):
    if request.param == "memory":
        yield MemorySecrets(TEXTS)
        return
    with moto():
        for bundle, text in TEXTS.items():
            connect("secretsmanager", read_timeout_s=1).create_secret(
                Name=name_stage_secret("prod", bundle), SecretString=text
            )
        yield StoredSecrets("prod", MemoryClock())


def test_each_bundle_reads_its_own_secrets_and_those_of_the_deployment(stored):
    default, shop = (
        parse_descriptors({}, stored=stored),
        parse_descriptors({}, bundle_id="shop", stored=stored),
    )
    assert (default.get_secret("b:token"), shop.get_secret("b:token")) == ("t", "of-shop")
    assert default.get_secret("search.api_key") == shop.get_secret("search.api_key") == "k"
    for path in ("token", "b:gone", "search", "b:token.more"):
        with pytest.raises(ToolError) as missing:
            default.get_secret(path)
        assert missing.value.reason == "secret_missing"


def test_a_bundle_without_secrets_has_none(stored):
    assert stored.read("gone") == ""
    with pytest.raises(ToolError):
        parse_descriptors({}, bundle_id="gone", stored=stored).get_secret("b:token")


def test_a_descriptors_own_secret_counts_first(stored):
    texts = {"secrets": "search: {api_key: own}"}
    assert parse_descriptors(texts, stored=stored).get_secret("search.api_key") == "own"


@pytest.mark.parametrize("bundle", ["", "shop"])
def test_a_supervisor_without_rights_reads_the_same_from_its_descriptors(stored, bundle):
    name = bundle or "default"
    handed = parse_descriptors(render_stored(stored, {name: name}, name), bundle_id=bundle)
    here = parse_descriptors({}, bundle_id=bundle, stored=stored)
    for path in ("search.api_key", "b:token"):
        assert handed.get_secret(path) == here.get_secret(path)


def test_secrets_with_any_character_pass_through_descriptors():
    text = 'a"b\\c\n\t: {} # ✓ 😀'
    stored = MemorySecrets({"default": json.dumps({"token": text})})
    handed = render_stored(stored, {"default": "crm"}, "crm")
    assert parse_descriptors(handed).get_secret("b:token") == text


@pytest.mark.parametrize("text", ["hunter2", '["hunter2"]', '{"a": 7}', '{"a": ["hunter2"]}'])
def test_a_stored_secret_of_another_shape_is_refused_and_not_repeated(text):
    with pytest.raises(InputError) as refused:
        parse_stored(text)
    assert refused.value.reason == "bad_descriptor"
    assert "hunter2" not in str(refused.value)


def test_a_changed_secret_is_read_within_five_minutes_and_not_at_each_use():
    with moto():
        client, clock = connect("secretsmanager", read_timeout_s=1), MemoryClock()
        stored, name = StoredSecrets("prod", clock), name_stage_secret("prod", "default")
        assert stored.read("default") == ""
        client.create_secret(Name=name, SecretString="{}")
        assert stored.read("default") == ""
        clock.pause(FRESH_S)
        assert stored.read("default") == "{}"
        client.delete_secret(SecretId=name)
        clock.pause(FRESH_S)
        assert stored.read("default") == ""


def test_a_refusal_is_an_error_and_no_missing_secret(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(DependencyError) as refused:
        StoredSecrets("prod", MemoryClock()).read("")
    assert refused.value.reason == "secret_unreadable"
