"""The metadata of the packages that `make dist` builds."""

import json
import tomllib

import pytest

from tests.unit.docs.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {path.parent: json.loads(path.read_text()) for path in ROOT.glob("web/packages/*/package.json")}
LOCKED = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]


def test_a_release_has_the_python_package_and_three_of_npm():
    assert {package["name"] for package in PACKAGES.values()} == {
        "@stepline/ag-ui",
        "@stepline/ai-sdk",
        "@stepline/client",
    }


def test_the_changelog_has_the_version():
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_an_npm_package_has_the_version_of_the_python_package(folder):
    version = PROJECT["version"]
    assert PACKAGES[folder]["version"] == LOCKED[f"packages/{folder.name}"]["version"]
    assert PACKAGES[folder]["version"] == version
    assert f"\n## {version}\n" in (folder / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_an_npm_package_says_what_it_is_and_where_it_is_from(folder):
    package = PACKAGES[folder]
    assert package["license"] == PROJECT["license"]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / "README.md").read_text().startswith(f"# {package['name']}\n")
    assert package["repository"]["directory"] == folder.relative_to(ROOT).as_posix()
    assert package["description"]
    assert package["engines"] == {"node": ">=22"}
    entry = package["exports"]["."]
    assert entry["types"] == package["types"] == entry["default"].removesuffix(".js") + ".d.ts"
