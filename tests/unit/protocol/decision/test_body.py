import msgspec

from stepline.model.decision import ParsedDecision
from stepline.protocol.decision.body import DECISION_FIELDS


def test_the_page_names_every_field_of_a_decision() -> None:
    assert [name for name, _, _ in DECISION_FIELDS] == [
        one.name for one in msgspec.structs.fields(ParsedDecision)
    ]
