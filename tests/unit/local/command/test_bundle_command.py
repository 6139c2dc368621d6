"""`stepline bundle check`: the selected bundle, the output, and the exit code."""

import json

import pytest
from click.testing import CliRunner

from stepline.errors import InputError
from stepline.local.command.bundle import find_bundle
from stepline.local.command.cli import main
from stepline.local.command.new import write_bundle


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_bundle("shop", tmp_path)
    return tmp_path


def check(*words):
    return CliRunner().invoke(main, ["bundle", "check", *words])


def code_of(named, here):
    with pytest.raises(InputError) as caught:
        find_bundle(named, here)
    return caught.value.reason


def test_a_bundle_is_named_by_its_module_its_package_its_folder_or_not_at_all(folder):
    project = folder / "shop"
    for named, here in (("shop", project), ("shop/shop", folder), ("shop", folder), (".", project)):
        assert find_bundle(named, here) == ("shop", project)


def test_a_package_below_bundles_has_both_names(folder):
    package = folder / "bundles/store"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from bundles.default import WORKFLOW\n")
    assert find_bundle("bundles/store", folder) == ("bundles.store", folder)
    assert find_bundle(".", folder) == ("bundles.store", folder)
    assert find_bundle("bundles.store", folder) == ("bundles.store", folder)


def test_a_folder_without_a_bundle_and_one_with_several_are_errors(folder):
    (folder / "empty").mkdir()
    assert code_of("empty", folder) == "bundle_not_found"
    for name in ("a", "b"):
        (folder / "empty" / name).mkdir()
        (folder / "empty" / name / "__init__.py").write_text("WORKFLOW = None\n")
    assert code_of("empty", folder) == "bundle_ambiguous"


def test_a_good_bundle_is_one_line_and_exit_code_0(folder):
    result = check("shop")
    assert (result.exit_code, result.stdout) == (0, "shop: nothing would fail\n")


def test_each_problem_has_its_code_location_and_remedy(folder):
    tools = folder / "shop/shop/tools.py"
    tools.write_text(
        tools.read_text().replace("from typing import Any", "from typing import Any\n\nimport boto3")
    )
    result = check("shop")
    assert result.exit_code == 1
    first, remedy = result.stdout.splitlines()
    assert first.startswith("import_forbidden: ")
    assert first.endswith("(shop/tools.py, line 6)")
    assert remedy.startswith("  → ")
    report = json.loads(check("shop", "--json").stdout)
    assert (report["bundle"], [problem["code"] for problem in report["problems"]]) == (
        "shop",
        ["import_forbidden"],
    )


def test_a_missing_module_is_a_problem_like_any_other(folder):
    result = check("shpo", "--json")
    assert result.exit_code == 1
    (problem,) = json.loads(result.stdout)["problems"]
    assert problem["code"] == "bundle_not_found"
    assert problem["remedy"]
