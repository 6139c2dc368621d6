from pathlib import Path

import msgspec

from stepline.model.decision import ParsedDecision
from stepline.protocol.decision.body import DECISION_FIELDS
from stepline.protocol.page import render_reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "channels.md"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference()


def test_the_page_names_every_field_of_a_decision() -> None:
    assert [name for name, _, _ in DECISION_FIELDS] == [
        one.name for one in msgspec.structs.fields(ParsedDecision)
    ]
