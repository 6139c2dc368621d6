"""The lock of the packages that bundles require: for the functions' platform, without their own, made once."""

import hashlib
import re

import pytest

from stepline.errors import DependencyError, InputError
from stepline.local.install import requirement_lock
from stepline.local.install.requirement_lock import find_requirements, lock_requirements, read_requirements
from tests.support.local_index import LocalIndex


class Project:
    """A checkout whose functions have two packages, and bundles with requirements."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.index = folder, LocalIndex(folder / "index", monkeypatch)
        self.write(
            requirement_lock.RUNTIME, "held==1.4 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via x\n"
        )
        self.write(requirement_lock.SHARED["memory"], "numbers==2.0\n")
        self.write(requirement_lock.SHARED["mcp"], "letters==3.0\n")
        self.index.add("held", "1.4")
        self.index.add("held", "1.5")
        self.index.add("numbers", "2.0")
        self.index.add("numbers", "2.1")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def lock(self, **bundles):
        for name, text in bundles.items():
            self.write(f"bundles/{name}/requirements.txt", text)
        files = find_requirements(self.folder, [f"bundles.{name}" for name in bundles])
        return lock_requirements(files, self.folder / "home", root=self.folder)

    def pins(self, **bundles):
        lock = (self.lock(**bundles).lock / "requirements.txt").read_text()
        return re.findall(r"^\S+==\S+", lock, re.MULTILINE)

    def refused(self, **bundles):
        with pytest.raises(InputError) as caught:
            self.lock(**bundles)
        return caught.value.reason, str(caught.value)


@pytest.fixture
def project(tmp_path, monkeypatch, installs):
    return Project(tmp_path, monkeypatch)


def test_dependencies_are_locked_except_those_that_the_functions_have(project):
    project.index.add("prices", "1.0", requires=["held>=1", "numbers", "deep_prices"])
    project.index.add("deep_prices", "3.0")
    assert project.pins(shop="prices  # ours\n") == ["deep-prices==3.0", "prices==1.0"]
    assert project.lock(shop="prices  # ours\n").shared == ("memory",)


def test_packages_of_the_memory_layer_are_not_locked_twice(project):
    project.index.add("prices", "1.0")
    assert project.lock(shop="prices").shared == ()
    assert project.lock(shop="numbers") == (None, ("memory",))


def test_every_file_in_the_lock_has_its_hash(project):
    project.index.add("prices", "1.0")
    (wheel,) = project.index.folder.glob("prices-*")
    lock = (project.lock(shop="prices").lock / "requirements.txt").read_text()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert lock == f"prices==1.0 \\\n    --hash=sha256:{digest}\n"


def test_bundles_of_one_stage_are_resolved_together(project):
    for version in ("1.0", "2.0"):
        project.index.add("prices", version)
    assert project.pins(shop="prices", desk="prices<2") == ["prices==1.0"]
    code, said = project.refused(shop="prices>=2", desk="prices<2")
    assert code == "requirements_unresolved"
    assert "prices" in said


def test_a_version_that_appears_later_changes_nothing_until_the_requirements_do(project):
    project.index.add("prices", "1.0")
    first = project.lock(shop="prices")
    project.index.add("prices", "2.0")
    assert project.lock(shop="prices") == first
    assert project.pins(shop="prices") == ["prices==1.0"]
    assert project.pins(shop="prices>=1") == ["prices==2.0"]


def test_another_runtime_makes_another_lock(project):
    project.index.add("prices", "1.0", requires=["numbers==2.0"])
    project.index.add("prices", "2.0", requires=["numbers==2.1"])
    assert project.pins(shop="prices") == ["prices==1.0"]
    project.write(requirement_lock.SHARED["memory"], "numbers==2.1\n")
    assert project.pins(shop="prices") == ["prices==2.0"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "held\n"])
def test_a_bundle_that_needs_nothing_more_has_no_lock(project, text):
    assert project.lock(shop=text) == (None, ())


def test_a_lock_next_to_the_requirements_limits_the_allowed_files(project):
    project.index.add("prices", "1.0")
    project.index.add("prices", "2.0")
    project.write("bundles/shop/requirements.lock", "prices==1.0 --hash=sha256:" + "1" * 64)
    assert project.refused(shop="prices")[0] == "requirements_unresolved"
    (wheel,) = project.index.folder.glob("prices-1.0-*")
    named = hashlib.sha256(wheel.read_bytes()).hexdigest()
    project.write("bundles/shop/requirements.lock", f"prices==1.0 \\\n    --hash=sha256:{named}\n")
    assert project.pins(shop="prices") == ["prices==1.0"]


def test_a_version_that_contradicts_the_runtimes_own_is_refused_at_any_depth(project):
    project.index.add("prices", "1.0", requires=["held>=1.5"])
    code, said = project.refused(shop="prices")
    assert code == "requirements_conflict"
    assert "held" in said


def test_a_package_that_would_have_to_be_built_is_refused(project):
    project.index.add_source("prices", "1.0")
    assert project.refused(shop="prices")[0] == "requirement_without_wheel"


def test_a_package_for_another_platform_is_refused(project):
    project.index.add("prices", "1.0", tag="cp314-cp314-manylinux_2_28_x86_64")
    assert project.refused(shop="prices")[0] == "requirement_without_wheel"
    project.index.add("prices", "1.0", tag="cp314-cp314-manylinux_2_28_aarch64")
    assert project.pins(shop="prices") == ["prices==1.0"]


def test_a_missing_package_is_reported(project):
    code, said = project.refused(shop="no_such_prices==1")
    assert code == "requirements_unresolved"
    assert "no-such-prices" in said


def test_an_index_that_does_not_answer_is_no_mistake_of_the_bundle(project, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(DependencyError) as caught:
        project.lock(shop="prices")
    assert caught.value.reason == "local_install"


@pytest.mark.parametrize(
    "line",
    [
        "-r other.txt",
        "--index-url https://user:word@index.example/simple",
        "-e .",
        "./wheels/prices-1.0-py3-none-any.whl",
        "prices @ https://example.com/prices-1.0-py3-none-any.whl",
        "git+https://example.com/prices.git",
        "prices==1.0 --config-settings x=y",
    ],
)
def test_a_line_that_holds_on_one_machine_only_is_refused_with_its_number(project, line):
    code, said = project.refused(shop=f"# ours\nheld\n{line}\n")
    assert code == "requirements_invalid"
    assert "requirements.txt, line 3" in said
    assert "word" not in said


@pytest.mark.parametrize("line", ["prices one two", "prices==", "prices; word == 'x'"])
def test_a_line_that_is_no_requirement_is_refused(project, line):
    assert project.refused(shop=f"{line}\n")[0] == "requirements_invalid"


def test_a_requirement_is_read_over_several_lines(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text(
        "Deep_Prices[fast]==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n\nheld #x\n"
    )
    first, second = read_requirements(file)
    assert (first.name, first.hashes, first.line, first.conditional) == (
        "deep-prices",
        {"sha256:aa", "sha256:bb"},
        1,
        True,
    )
    assert (second.name, second.line, second.conditional) == ("held", 5, False)
