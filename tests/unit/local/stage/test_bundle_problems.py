"""The check of a bundle: everything that would fail is reported at once, with its code, location and remedy."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from textwrap import dedent

import pytest

from stepline.local.stage import bundle_check
from stepline.local.stage.bundle_check import check_contracts, find_imports
from stepline.local.stage.bundle_code import check_bundle
from stepline.tools.spec import ToolSpec
from tests.support.local_index import LocalIndex
from tests.unit.docs.source import ROOT

SHOP = """
    from stepline import BaseWorkflow


    class Shop(BaseWorkflow):
        {parts}


    WORKFLOW = Shop
"""
SPEC = ToolSpec(
    tool_id="shop.price",
    purpose="Look up what something costs.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "properties": {"name": {"type": "string", "description": "what to look up"}},
    },
    returns="the price",
    effect="pure",
    read_only=True,
)


@pytest.fixture
def project(tmp_path, checks, installs):
    def write(files, *parts):
        package = {"shop/__init__.py": SHOP.format(parts="\n        ".join(parts) or "pass"), **files}
        for name, text in package.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return check_bundle("shop", project=tmp_path, locks=tmp_path / "locks")

    return write


def codes(report):
    return [problem.code for problem in report.problems]


def flaws(**changes):
    return [problem.code for problem in check_contracts([replace(SPEC, **changes)])]


def schema(**changes):
    return {**SPEC.schema, **changes}


def test_a_good_bundle_has_no_problem_and_leaves_no_files(project, tmp_path):
    report = project({})
    assert report.problems == ()
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_all_problems_are_reported_at_once(project):
    tools = """
        from stepline import Tool, ToolSpec

        def spec(tool_id):
            return ToolSpec(tool_id=tool_id, purpose="p", schema={"type": "array"}, returns="r", effect="pure", read_only=True)

        TOOLS = (Tool(spec=spec("react.read"), run=print),)
    """
    report = project(
        {"shop/tools.py": tools, "shop/requirements.txt": "# ours\nmsgspec>=0.1\nno-such-package==1\n"},
        'tools_module = "shop.tools"',
        'skills_module = "shop.skills"',
        "def knowledge_read_fn(self, path): return None",
        "resolvers = [print]",
    )
    assert codes(report) == [
        "tool_id_taken",
        "tool_schema_invalid",
        "skills_module_not_found",
        "resolver_invalid",
        "bundle_not_deployable",
        "requirement_missing",
    ]
    assert all(problem.remedy for problem in report.problems)
    assert "no-such-package" in report.problems[-1].message
    assert report.problems[-1].where == " (shop/requirements.txt, line 3)"


def test_a_package_in_the_wrong_version_is_reported(project):
    report = project({"shop/requirements.txt": "msgspec<0.1\n"})
    assert codes(report) == ["requirement_unmet"]
    assert "msgspec" in report.problems[0].message


def test_a_requirement_for_another_platform_need_not_be_here(project, tmp_path, monkeypatch):
    LocalIndex(tmp_path / "index", monkeypatch)
    assert project({"shop/requirements.txt": "no-such; sys_platform == 'win32'\n"}).problems == ()


def test_an_invalid_requirement_is_reported_with_its_line(project):
    report = project({"shop/requirements.txt": "msgspec\n-e .\n"})
    assert codes(report) == ["requirements_invalid"]
    assert "line 2" in report.problems[0].message
    assert report.problems[0].remedy
    assert codes(project({"shop/requirements.txt": "msgspec==\n"})) == ["requirements_invalid"]


def test_installed_packages_that_functions_cannot_have_are_reported(project, tmp_path, monkeypatch):
    LocalIndex(tmp_path / "index", monkeypatch).add_source("pytest", pytest.__version__)
    report = project({"shop/requirements.txt": "pytest\n"})
    assert codes(report) == ["requirement_without_wheel"]


def test_a_bundle_that_fails_to_load_is_reported_with_its_location(project):
    report = project({"shop/__init__.py": "import json\n\njson.loads('no')\n"})
    assert codes(report) == ["bundle_failed"]
    assert report.problems[0].where == " (shop/__init__.py, line 3)"
    assert codes(project({"shop/__init__.py": "import os\n\nos._exit(3)\n"})) == ["bundle_failed"]


def test_a_module_that_is_no_bundle_is_reported(project, tmp_path):
    assert codes(project({"shop/__init__.py": "WORKFLOW = 1\n"})) == ["bundle_invalid"]
    assert codes(check_bundle("shpo", project=tmp_path)) == ["bundle_not_found"]
    for name in ("./shop", "stepline.shop"):
        (problem,) = check_bundle(name, project=tmp_path).problems
        assert problem.code in ("bundle_not_found", "bundle_invalid")
        assert problem.remedy


def test_an_import_inside_a_function_is_reported_by_the_check(project):
    tools = """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            import no_types

        try:
            import no_matter
        except ImportError:
            no_matter = None


        def run(params, context):
            import boto3
            import no_such_module
            from shop import prices


        TOOLS = ()
    """
    files = {
        "shop/tools.py": tools,
        "shop/prices.py": "from . import deeper\n",
        "shop/deeper.py": "import redis\n",
    }
    report = project(files, 'tools_module = "shop.tools"')
    assert [(problem.code, problem.where) for problem in report.problems] == [
        ("import_forbidden", " (shop/tools.py, line 14)"),
        ("import_missing", " (shop/tools.py, line 15)"),
        ("import_forbidden", " (shop/deeper.py, line 1)"),
    ]


def test_a_file_for_programs_that_no_module_imports_may_import_anything(project):
    assert project({"shop/report.py": "import no_such_module\n"}).problems == ()


def test_a_module_with_a_syntax_error_is_reported_before_its_import(project):
    tools = "def run(params, context):\n    import shop.broken\n\n\nTOOLS = ()\n"
    report = project({"shop/tools.py": tools, "shop/broken.py": "x = (\n"}, 'tools_module = "shop.tools"')
    assert [(problem.code, problem.where) for problem in report.problems] == [
        ("bundle_failed", " (shop/broken.py, line 1)")
    ]


def test_relative_imports_are_followed_from_their_package(tmp_path):
    (tmp_path / "shop/deep").mkdir(parents=True)
    (tmp_path / "shop/__init__.py").write_text("")
    (tmp_path / "shop/deep/__init__.py").write_text("from .near import x\nfrom ..far import y\n")
    (tmp_path / "shop/deep/near.py").write_text("")
    (tmp_path / "shop/far.py").write_text("import csv\n")
    found = [one.name for one in find_imports(tmp_path, ["shop.deep"])]
    assert found == ["shop.deep.near.x", "shop.far.y", "csv"]


def test_the_forbidden_imports_equal_the_import_rules():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rule,) = [one for one in contracts if one.get("source_modules") == ["bundles", "examples"]]
    assert sorted(rule["forbidden_modules"]) == sorted(bundle_check.FORBIDDEN)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tool_id": "price"}, "tool_invalid"),
        ({"tool_id": "shop.price\nx"}, "tool_invalid"),
        ({"effect": "often"}, "tool_invalid"),
        ({"schema": {"type": "string"}}, "tool_schema_invalid"),
        ({"schema": schema(additionalProperties=True)}, "tool_schema_invalid"),
        (
            {"schema": schema(properties={"name": {"type": "text", "description": "x"}})},
            "tool_schema_invalid",
        ),
        ({"schema": schema(properties=None)}, "tool_schema_invalid"),
        ({"schema": schema(required=["nam"])}, "tool_schema_invalid"),
        ({"key_order": ("nam",)}, "tool_schema_invalid"),
        ({"examples": ({"name": 1},)}, "tool_example_invalid"),
        ({"requests": ("What is a lamp?",)}, "tool_example_invalid"),
    ],
    ids=str,
)
def test_a_tool_that_the_model_could_not_call_is_reported(changes, code):
    assert flaws(**changes) == [code]


def test_a_good_tool_has_no_flaw_and_two_of_one_name_have():
    assert flaws() == []
    assert flaws(examples=({"name": "lamp"},), key_order=("name",)) == []
    assert [problem.code for problem in check_contracts([SPEC, SPEC])] == ["tool_id_taken"]
    assert flaws(tool_id="react.write") == ["tool_id_taken"]
