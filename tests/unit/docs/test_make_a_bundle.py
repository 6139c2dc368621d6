"""docs/how-to/make-a-bundle.md, followed to the letter by a new user; what needs a stage is in tests/e2e/test_new_bundle.py."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/make-a-bundle.md"
NEEDS_A_STAGE = "make chat"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


class Shell:
    """A user's shell: `cd` stays, and the environment of `stepline` is active."""

    def __init__(self, folder):
        self.folder = folder
        home = {"HOME": str(folder), "STEPLINE_HOME": str(folder / ".home")}
        self.environment = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", **home}

    def __call__(self, line):
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
            return None
        done = subprocess.run(
            line,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """What each command of the page said, and the folder at the end."""
    shell = Shell(tmp_path_factory.mktemp("user"))
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert NEEDS_A_STAGE in lines
    return {line: shell(line) for line in lines if line != NEEDS_A_STAGE}, shell.folder


def test_the_new_bundles_tests_pass(followed):
    said, _ = followed
    assert re.search(r"Ran \d+ tests in .*\n\nOK\n", said["make test"].stderr)


def test_nothing_would_fail_in_it(followed):
    said, _ = followed
    assert "shop: nothing would fail" in said["make check"].stdout
    assert said["stepline bundle check"].stdout == "shop: nothing would fail\n"
    told = json.loads(said["stepline bundle check shop --json"].stdout)
    assert told == {"bundle": "shop", "problems": []}


def test_its_makefile_lists_its_targets(followed):
    _, folder = followed
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["help", "test", "check", "chat"]


def test_the_code_of_the_page_runs_in_the_new_folder(followed):
    _, folder = followed
    code = "\n".join(blocks("python"))
    assert code.count("assert ") >= 4
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def test_the_page_names_every_code_of_the_check_and_of_a_new_folder():
    from docs.build.errors import BUNDLE, LOCAL

    told = {code: means for group in (BUNDLE, LOCAL) for code, means in group.items()}
    ours = {
        code for code, means in told.items() if re.match(r"`stepline( new|\.testing| bundle check)`", means)
    }
    asked_for = {"tool_not_called", "bundle_ambiguous"}  # their messages say all
    assert ours - asked_for - set(re.findall(r"`(\w+)`", PAGE.read_text())) == set()
