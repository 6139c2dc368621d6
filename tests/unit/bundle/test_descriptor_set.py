import base64
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.bundle.descriptor_set import (
    FORMS,
    MAX_BYTES,
    decode_payload,
    encode_payload,
    parse_descriptor,
    parse_descriptors,
    scope_texts,
)
from stepline.errors import InputError, ToolError

SECRET = "hunter2-never-seen"  # what must be in no message
TEXTS = {
    "assembly": "ai: {react: {max_iterations: 9}}\nempty:\n",
    "bundles": """
bundles:
  default_bundle_id: reports
  items:
    - {id: reports, config: {react: {max_iterations: 4}, units: [km, mi]}}
    - {id: other, props: {colour: blue}}
""",
    "gateway": "cors: {allow: '*'}",
    "secrets": f"db: {{password: {SECRET}}}",
    "bundles.secrets": f"""
bundles:
  items:
    - {{id: reports, secrets: {{crm: {{token: {SECRET}-of-reports}}}}}}
    - {{id: other, secrets: {{crm: {{token: {SECRET}-of-other}}}}}}
""",
}


def refused(call, *args, **kwargs):
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    assert caught.value.reason == "bad_descriptor"
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_a_tool_reads_settings_by_path():
    read = parse_descriptors(TEXTS)
    assert read.get_settings() == {"ai": {"react": {"max_iterations": 9}}, "empty": None}
    assert read.get_plain("ai.react.max_iterations") == 9
    assert read.get_plain("ai.react") == {"max_iterations": 9}
    assert read.get_plain("b:units") == ["km", "mi"]
    assert read.gateway == {"cors": {"allow": "*"}}


@pytest.mark.parametrize(
    "path", ["gone", "ai.gone", "ai.react.max_iterations.gone", "empty", "b:gone", "db.password"]
)
def test_a_missing_path_has_the_default(path):
    assert parse_descriptors(TEXTS).get_plain(path, "default") == "default"


def test_a_tool_reads_secrets_by_path():
    read = parse_descriptors(TEXTS)
    assert read.get_secret("db.password") == SECRET
    assert read.get_secret("b:crm.token") == f"{SECRET}-of-reports"


@pytest.mark.parametrize("path", ["gone", "db", "db.password.x", "b:gone", "b:db.password", "crm.token", ""])
def test_a_missing_secret_is_an_error_for_the_tool(path):
    with pytest.raises(ToolError) as caught:
        parse_descriptors(TEXTS).get_secret(path)
    assert caught.value.reason == "secret_missing"
    assert SECRET not in str(caught.value)


def test_the_active_bundle_is_the_given_one_or_the_default():
    assert parse_descriptors(TEXTS).bundle_id == "reports"
    other = parse_descriptors(TEXTS, bundle_id="other")
    assert (other.get_plain("b:colour"), other.get_secret("b:crm.token")) == ("blue", f"{SECRET}-of-other")


def test_a_bundle_without_an_entry_has_no_properties():
    unknown = parse_descriptors(TEXTS, bundle_id="unknown")
    assert (unknown.bundle_id, dict(unknown.config), dict(unknown.bundle_secrets)) == ("unknown", {}, {})


def test_absent_descriptors_are_empty():
    read = parse_descriptors({})
    assert (read.bundle_id, read.get_settings(), read.get_plain("a", 1)) == ("", {}, 1)


def test_printed_descriptors_show_no_secret():
    read = parse_descriptors(TEXTS)
    assert SECRET not in f"{read!r} {read} {[read]}"


@pytest.mark.parametrize(
    "text",
    [
        f"- {SECRET}",
        SECRET,
        f"password: '{SECRET}",
        f"password: {SECRET}: {SECRET}",
        f"password: !!python/object/apply:os.system ['{SECRET}']",
        f"? [{SECRET}]\n: 1",
        f"password: &a {SECRET}\nother: *b",
        f"day: 2026-99-99 {SECRET}\nother: 2026-99-99",
        f"password: {SECRET}\n--- \nb: 1",
        f"password: {SECRET}\x07",
        f"password: {SECRET}\npassword: other",
        f"db:\n  password: other\n  password: {SECRET}",
        f"password: {'x' * MAX_BYTES}{SECRET}",
        "[" * 3000 + SECRET,
        f"db: &db {{password: {SECRET}, again: [*db]}}",
    ],
)
def test_an_invalid_descriptor_is_refused_without_showing_it(text):
    message = refused(parse_descriptor, "secrets", text)
    assert message.startswith("secrets ")


def test_a_duplicate_key_is_reported_with_its_line():
    assert refused(parse_descriptor, "assembly", "a: 1\nb: 2\na: 3\n") == "assembly at line 3: duplicate key"


def test_a_default_may_be_merged_and_overridden():
    read = parse_descriptor("assembly", "base: &base {a: 1, b: 2}\nmine:\n  <<: *base\n  b: 3\n")
    assert read["mine"] == {"a": 1, "b": 3}


@pytest.mark.parametrize("value", ["0123", "no", "1.5", "[a, b]", "2026-11-22"])
@pytest.mark.parametrize("name", ["secrets", "bundles.secrets"])
def test_a_secret_that_yaml_reads_as_another_type_must_be_quoted(name, value):
    """Otherwise 0123 would become 83, and the cause of the failed login would be invisible."""
    texts = {
        "secrets": f"db: {{password: {value}}}",
        "bundles.secrets": f"bundles: {{items: [{{id: reports, secrets: {{db: {{password: {value}}}}}}}]}}",
    }
    message = refused(parse_descriptors, {name: texts[name]}, bundle_id="reports")
    assert message.endswith("db.password is not text; put it into quotes")
    quoted = {name: texts[name].replace(value, f"'{value}'")}
    prefix = "b:" if name == "bundles.secrets" else ""
    assert parse_descriptors(quoted, bundle_id="reports").get_secret(f"{prefix}db.password") == value


@pytest.mark.parametrize(
    "bundles",
    [
        "bundles: [reports]",
        "bundles: {items: {reports: {}}}",
        "bundles: {items: [reports]}",
        "bundles: {items: [{config: {}}]}",
        "bundles: {items: [{id: 7}]}",
        "bundles: {items: [{id: reports}, {id: reports}]}",
        "bundles: {items: [{id: reports, config: 7}]}",
        "bundles: {items: [{id: reports, config: {a: 1}, props: {b: 1}}]}",
        "bundles: {default_bundle_id: [reports]}",
    ],
)
def test_a_descriptor_of_bundles_of_another_shape_is_refused(bundles):
    texts = {"bundles": bundles} if "default" in bundles else {"bundles": bundles + "\nrest: 1"}
    options = {} if "default" in bundles else {"bundle_id": "reports"}
    assert refused(parse_descriptors, texts, **options).startswith("bundles: ")


def test_only_the_active_bundle_is_sent_to_a_remote_supervisor():
    scoped = scope_texts(TEXTS, "active_bundle", "reports")
    assert scoped.keys() == TEXTS.keys()
    assert {name: scoped[name] for name in ("assembly", "gateway", "secrets")} == {
        name: TEXTS[name] for name in ("assembly", "gateway", "secrets")
    }
    assert parse_descriptors(scoped) == parse_descriptors(TEXTS)
    assert "other" not in scoped["bundles"] + scoped["bundles.secrets"]


def test_a_bundle_without_an_entry_sends_no_other_bundle():
    scoped = scope_texts(TEXTS, "active_bundle", "unknown")
    assert parse_descriptor("bundles", scoped["bundles"])["bundles"]["items"] == []
    assert SECRET not in scoped["bundles.secrets"]


def test_no_bundle_is_sent_without_an_active_one():
    assert scope_texts(TEXTS, "active_bundle", "").keys() == {"assembly", "gateway", "secrets"}


def test_all_bundles_are_sent_with_the_full_scope():
    assert scope_texts(TEXTS, "all", "reports") == TEXTS
    assert scope_texts(TEXTS, "all", "") == TEXTS


@given(st.dictionaries(st.sampled_from([form.name for form in FORMS]), st.text()))
def test_a_payload_carries_the_texts_unchanged(texts):
    assert decode_payload(encode_payload(texts)) == {name: text for name, text in texts.items() if text}


def test_a_payload_has_the_published_variables():
    assert encode_payload(TEXTS).keys() == {
        f"STEPLINE_RUNTIME_{name}_YAML_B64"
        for name in ("ASSEMBLY", "BUNDLES", "GATEWAY", "SECRETS", "BUNDLES_SECRETS")
    }


@pytest.mark.parametrize("payload", [f"{SECRET}!", base64.b64encode(b"\xff" + SECRET.encode()).decode(), "é"])
def test_a_payload_that_cannot_be_read_is_refused_by_its_variable(payload):
    message = refused(decode_payload, {"STEPLINE_RUNTIME_SECRETS_YAML_B64": payload})
    assert "STEPLINE_RUNTIME_SECRETS_YAML_B64" in message
