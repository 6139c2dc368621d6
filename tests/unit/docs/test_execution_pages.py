from msgspec.structs import fields

from stepline.bundle.runtime_profile import FARGATE, KEYS, LIMITS
from stepline.model.program.execution import Isolation, Limits
from stepline.programs.outcome import Envelope
from tests.unit.docs import execution_page, protocol_page


def names(value):
    return {field.name for field in fields(value)}


def test_every_key_of_a_profile_is_explained():
    assert execution_page.PROFILE.keys() | FARGATE.keys() | LIMITS.keys() == KEYS.keys()


def test_every_limit_is_explained():
    assert execution_page.LIMIT.keys() == names(Limits)


def test_every_field_of_an_envelope_is_explained():
    assert execution_page.ENVELOPE.keys() == names(Envelope)


def test_every_field_of_a_hello_is_explained():
    assert protocol_page.FOUND.keys() == names(Isolation)


def test_the_pages_are_what_the_source_says():
    for page in (execution_page, protocol_page):
        assert page.PAGE.read_text() == page.render(), "run: python -m tests.unit.docs"
