from msgspec.structs import fields

from docs.build import execution, executor_protocol
from stepline.bootstrap.runtime_profile import FARGATE, KEYS, LIMITS
from stepline.model.program.execution import Isolation, Limits
from stepline.programs.outcome import Envelope


def names(value):
    return {field.name for field in fields(value)}


def test_every_key_of_a_profile_is_explained():
    assert execution.PROFILE.keys() | FARGATE.keys() | LIMITS.keys() == KEYS.keys()


def test_every_limit_is_explained():
    assert execution.LIMIT.keys() == names(Limits)


def test_every_field_of_an_envelope_is_explained():
    assert execution.ENVELOPE.keys() == names(Envelope)


def test_every_field_of_a_hello_is_explained():
    assert executor_protocol.FOUND.keys() == names(Isolation)
