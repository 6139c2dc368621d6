from stepline.protocol.decision.notice import NOTICES
from tests.unit.docs import error_page


def test_every_class_has_its_fate_in_the_taxonomy():
    assert set(error_page.fates()) == set(error_page.CLASSES)


def test_every_code_of_the_source_is_listed():
    listed = error_page.listed_codes()
    assert {code: where for code, where in error_page.source_codes().items() if code not in listed} == {}


def test_every_listed_code_has_a_source():
    sources = error_page.source_codes().keys() | error_page.constants() | set(NOTICES)
    assert error_page.listed_codes() - sources == set()


def test_the_page_is_what_the_source_says():
    assert error_page.PAGE.read_text() == error_page.render(), "run: python -m tests.unit.docs"
