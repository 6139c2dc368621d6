"""The names of a stage's resources: one table has all of them."""

import re

from stepline_cdk.names import NAMES
from stepline_cdk.stage import Stage
from tests.stacks.conftest import ROOT

SPELLED = re.compile(r"(?<!python/)stepline[-/]\{")
"""A name that is put together."""
NAMED = re.compile(r"\w*Name$")
OF_OTHERS = ("AttributeName", "IndexName", "MetricName", "PolicyName", "StageName", "TagName")
"""What is named within a resource, or made by the CDK."""


def names(node):
    """Every text that begins with our name and is the name of something."""
    match node:
        case dict():
            for key, value in node.items():
                if NAMED.search(key) and key not in OF_OTHERS and isinstance(value, str):
                    yield value
                yield from names(value)
        case list():
            for item in node:
                yield from names(item)


def test_no_other_module_of_the_app_spells_a_name():
    modules = (ROOT / "stepline_cdk").rglob("*.py")
    assert {path.name for path in modules if SPELLED.search(path.read_text())} == {"names.py"}


def test_each_name_in_a_template_is_one_of_the_table(every_stage):
    stage = every_stage.stage.name
    patterns = [re.compile(re.escape(one.render(stage, "·")).replace("·", ".*")) for one in NAMES.values()]
    found = {name for document in every_stage.documents().values() for name in names(document["Resources"])}
    ours = {name for name in found if stage in name and "stepline" in name}
    assert len(ours) > 20
    assert {name for name in ours if not any(one.fullmatch(name) for one in patterns)} == set()


def test_a_stage_that_leaves_names_to_cloudformation_has_those_with_a_reason_alone():
    class Nameless(Stage):
        @property
        def has_all_names(self):
            return False

    named = {kind for kind in NAMES if Nameless().optional_name(kind, "part")}
    assert named == {kind for kind, name in NAMES.items() if name.needed}
    assert {"function", "machine"} < named
    assert {"log", "queue", "users", "stack"} & named == set()
