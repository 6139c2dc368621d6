import re

from docs.build import errors
from stepline.local.page.page_build import WEB
from stepline.protocol.decision.notice import NOTICES
from tests.unit.docs import error_code


def test_every_class_has_its_fate_in_the_taxonomy():
    assert set(errors.fates()) == set(errors.CLASSES)


def test_every_code_of_the_source_is_listed():
    listed = error_code.listed_codes()
    assert {code: where for code, where in error_code.source_codes().items() if code not in listed} == {}


def test_every_listed_code_has_a_source():
    sources = error_code.source_codes().keys() | error_code.constants() | set(NOTICES)
    assert error_code.listed_codes() - sources == set()


def test_every_code_of_a_door_is_listed_and_uttered():
    modules = sorted((WEB / "packages").glob("*/**/*.ts"))
    code = re.compile(r'(?:ClientError|BodyRefusal)\(\s*"(\w+)"')
    uttered = {
        found
        for path in modules
        if "node_modules" not in path.parts
        for found in code.findall(path.read_text())
    }
    assert errors.DOORS.keys() == uttered - error_code.listed_codes()
