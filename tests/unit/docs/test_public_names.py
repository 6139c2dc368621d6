"""The rule of deprecations, and that the page of public names has all of them."""

import re
import tomllib

import pytest

import stepline
from docs.build import public_face
from docs.build.versions import DEPRECATED, Deprecation, faults_of
from stepline import errors
from tests.unit.docs.source import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_no_deprecated_name_is_due_or_has_less_time_than_the_rule_gives():
    assert faults_of(DEPRECATED, VERSION) == []


@pytest.mark.parametrize(
    ("since", "removed_in", "release", "faults"),
    [
        ("0.3.0", "0.5.0", "0.4.9", []),
        ("0.3.0", "0.5.0", "0.5.0", ["old: is due"]),
        ("0.3.0", "0.4.0", "0.3.0", ["old: is removed too early"]),
        ("0.9.0", "0.11.0", "0.10.0", []),
        ("0.9.0", "1.0.0", "0.9.0", []),
        ("1.2.0", "1.4.0", "1.2.0", ["old: is removed too early"]),
        ("1.2.0", "2.0.0", "1.9.0", []),
    ],
)
def test_a_removal_that_is_due_or_too_early_is_found(since, removed_in, release, faults):
    assert faults_of((Deprecation("old", "new", since, removed_in),), release) == faults


def test_the_page_lists_every_public_name_of_the_library():
    grouped = {name for names in public_face.GROUPS.values() for name in names}
    kinds = {name for name in stepline.__all__ if hasattr(errors, name)}
    assert grouped | kinds == set(stepline.__all__)


def test_the_page_of_the_construct_has_a_row_for_each_prop_that_is_no_choice_of_a_stage():
    part = (ROOT / "docs/how-to/own-app.md").read_text().partition("\n## Props\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    own, choices = public_face.construct_props()
    assert set(own) <= listed
    assert listed <= {*own, *choices}


def test_exports_are_followed_through_modules(tmp_path):
    (tmp_path / "index.ts").write_text(
        'export * from "./a.ts";\nexport type * from "./b.ts";\nexport {\n  type C,\n  d,\n} from "./c.ts";\n'
    )
    (tmp_path / "a.ts").write_text("export const one = 1;\nexport interface Two {}\nconst hidden = 3;\n")
    (tmp_path / "b.ts").write_text("export const four = 4;\nexport type Five = 5;\n")
    assert public_face.exports_of(tmp_path / "index.ts") == ({"one", "d"}, {"Two", "Five", "C"})
