"""`stepline new`: a folder that works, for every name that a package can have."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from stepline.errors import InputError
from stepline.local.command.cli import main
from stepline.local.command.new import check_package_name, render_template, write_bundle
from stepline.local.stage.bundle_code import check_bundle
from stepline.local.stage.deployed import install_environment


@pytest.fixture(params=[False, True], ids=["bundle", "app"])
def shop(tmp_path, request):
    write_bundle("shop", tmp_path, is_app=request.param)
    return tmp_path / "shop"


def refused(name, folder):
    with pytest.raises(InputError) as caught:
        write_bundle(name, folder)
    return caught.value.reason


def test_the_folder_has_a_tool_a_skill_a_document_a_test_and_a_page(shop):
    found = {path.relative_to(shop).as_posix() for path in shop.rglob("*") if path.is_file()}
    assert {
        "Makefile",
        "README.md",
        "test_shop.py",
        "shop/tools.py",
        "shop/skills/refund/SKILL.md",
        "shop/knowledge/delivery.md",
    } <= found


def test_a_new_bundle_has_no_problem(shop):
    assert check_bundle("shop", project=shop).problems == ()


def test_its_code_is_formatted_and_has_no_lint(shop):
    for words in (["check", "--select", "E,F,I,B,UP"], ["format", "--check"]):
        command = [
            sys.executable,
            "-m",
            "ruff",
            *words,
            "--isolated",
            "--no-cache",
            "--line-length",
            "110",
            ".",
        ]
        done = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_every_file_that_its_page_names_exists(shop):
    rows = [
        row.split("|")[1].strip() for row in (shop / "README.md").read_text().splitlines() if ".py`" in row
    ]
    assert rows
    assert [row for row in rows if not (shop / row.strip("`")).is_file()] == []


@pytest.mark.parametrize("is_app", [False, True])
def test_its_name_replaces_every_placeholder(is_app):
    for place, text in render_template("kum_quat", is_app=is_app).items():
        assert not re.search("NAME|STACK", place + text)
        assert not place.endswith(".txt")


def test_an_app_has_its_stack_and_passes_its_own_tests(tmp_path):
    write_bundle("shop_2", tmp_path, is_app=True)
    assert 'AgentStack(app, "shop-2")' in (tmp_path / "shop_2/app.py").read_text()
    done = subprocess.run(
        ["make", "-s", "test", f"PYTHON={sys.executable}"],
        cwd=tmp_path / "shop_2",
        env=install_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 5 tests" in done.stderr


def test_an_app_whose_bundle_would_hide_its_module_is_refused(tmp_path):
    with pytest.raises(InputError, match="beside the module of its CDK app"):
        write_bundle("app", tmp_path, is_app=True)


def test_the_command_prints_the_next_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(main, ["new", "shop"]).stdout
    assert said.endswith("next: cd shop && make test && make chat\n")
    printed = json.loads(CliRunner().invoke(main, ["new", "store", "--json"]).stdout)
    assert printed["path"] == str(tmp_path / "store")
    assert "store/tools.py" in printed["files"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Shop",
        "my-shop",
        "1shop",
        "a/b",
        "../shop",
        "class",
        "json",
        "click",
        "stepline",
        "bundles",
        "s" * 33,
    ],
)
def test_an_invalid_package_name_is_refused(tmp_path, name):
    assert refused(name, tmp_path) == "bad_bundle_name"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x", "shop_2", "s" * 32])
def test_a_valid_package_name_is_accepted(name):
    check_package_name(name)


def test_an_existing_folder_is_left_unchanged(tmp_path):
    (tmp_path / "shop").mkdir()
    assert refused("shop", tmp_path) == "folder_exists"
    assert not any((tmp_path / "shop").iterdir())
