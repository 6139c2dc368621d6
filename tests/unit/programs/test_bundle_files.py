"""The files of a bundle that its programs may read."""

import sys
from types import ModuleType

import pytest

from stepline.errors import ToolError
from stepline.programs.bundle_files import BUNDLE_MAX_BYTES, BUNDLE_MAX_FILES, read_bundle_files
from tests.support.bundle_on_disk import BUNDLE, READABLE, bundle_on_disk


@pytest.fixture
def package():
    with bundle_on_disk() as found:
        yield found


def test_secrets_descriptors_hidden_files_caches_and_links_are_left_out(package):
    assert (package / "linked/plain.txt").is_file()
    assert read_bundle_files(BUNDLE) == READABLE


def test_a_name_that_is_no_text_is_left_out(package):
    (package / "\udcff.txt").write_text("x")
    assert read_bundle_files(BUNDLE) == READABLE


def test_a_bundle_within_a_package_has_its_own_files_only(package):
    (package / "shop").mkdir()
    (package / "shop/__init__.py").write_text("")
    assert read_bundle_files(f"{BUNDLE}.shop") == {"__init__.py": b""}


def test_a_bundle_of_one_module_has_this_file_and_none_beside_it(package):
    (package.parent / "tulips.py").write_text("PETALS = 6\n")
    assert read_bundle_files("tulips") == {"tulips.py": b"PETALS = 6\n"}


@pytest.mark.parametrize("module", ["", "lilies", "lilies.shop", "made_up"])
def test_without_a_package_there_are_no_files(package, monkeypatch, module):
    monkeypatch.setitem(sys.modules, "made_up", ModuleType("made_up"))
    assert read_bundle_files(module) == {}


def test_the_files_are_those_of_the_code_that_runs(package):
    found = read_bundle_files(BUNDLE)
    (package / "guide/roses.md").write_text("edited meanwhile")
    assert read_bundle_files(BUNDLE) == found == READABLE


def test_more_bytes_than_programs_are_given_are_refused(package):
    with (package / "model.bin").open("wb") as file:
        file.truncate(BUNDLE_MAX_BYTES)
    with pytest.raises(ToolError) as caught:
        read_bundle_files(BUNDLE)
    assert caught.value.reason == "bundle_too_large"


def test_more_files_than_programs_are_given_are_refused(package):
    (package / "many").mkdir()
    for number in range(BUNDLE_MAX_FILES - len(READABLE)):
        (package / f"many/{number}").touch()
    assert len(read_bundle_files(BUNDLE)) == BUNDLE_MAX_FILES
    read_bundle_files.cache_clear()
    (package / "many/one-more").touch()
    with pytest.raises(ToolError) as caught:
        read_bundle_files(BUNDLE)
    assert caught.value.reason == "bundle_too_large"
