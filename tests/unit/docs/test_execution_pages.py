import yaml
from msgspec.structs import fields

from docs.build import execution, executor_protocol
from stepline.bootstrap.runtime_profile import FARGATE, LIMITS, PROFILE_KEYS, resolve_runtime
from stepline.model.program.execution import Isolation, RunLimits, RuntimeProfile
from stepline.programs.outcome import Envelope
from tests.support.guide import blocks_of
from tests.unit.docs.source import DOCS


def names(value):
    return {field.name for field in fields(value)}


def test_every_key_of_a_profile_is_explained():
    assert execution.PROFILE.keys() | FARGATE.keys() | LIMITS.keys() == PROFILE_KEYS.keys()


def test_every_limit_is_explained():
    assert execution.LIMIT.keys() == names(RunLimits)


def test_every_field_of_an_envelope_is_explained():
    assert execution.ENVELOPE.keys() == names(Envelope)


def test_every_field_of_a_hello_is_explained():
    assert executor_protocol.FOUND.keys() == names(Isolation)


def test_the_profile_of_the_guide_is_read():
    (said,) = [block.text for block in blocks_of(DOCS / "how-to/run-programs.md") if block.language == "yaml"]
    profile, limits = resolve_runtime(yaml.safe_load(said), {}, RuntimeProfile(backend="process"))
    assert (profile.backend, profile.name) == ("docker", "careful")
    assert limits.timeout_s == 120


def test_the_declaration_of_the_guide_is_a_bundles():
    blocks = blocks_of(DOCS / "how-to/run-programs.md")
    (said,) = [block.text for block in blocks if "ProgramCalls" in block.text]
    made = {"__name__": "shop"}
    exec(said, made)
    calls = made["Shop"].program_calls
    assert (calls.roles, calls.limits.model_calls) == (("shop.classify",), 20)
    assert "mcp.crm.*" in calls.tools
