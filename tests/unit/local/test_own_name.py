"""The command's name as the shell of a user finds it."""

import sys
from pathlib import Path

import pytest

from stepline.local.own_name import own_command

BIN = Path(sys.prefix) / "bin"


@pytest.fixture(autouse=True)
def shell(monkeypatch):
    """Simulate a shell whose environment is not active, in another folder than the project's."""
    for name in ("VIRTUAL_ENV", "MAKELEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir("/")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PATH": f"{BIN}:/usr/bin"}, ["stepline"]),
        ({"PATH": f"{BIN}:/usr/bin", "MAKELEVEL": "1", "VIRTUAL_ENV": sys.prefix}, ["stepline"]),
        ({"PATH": f"{BIN}:/usr/bin", "MAKELEVEL": "1"}, [str(BIN / "stepline").lstrip("/")]),
        ({}, [str(BIN / "stepline").lstrip("/")]),
    ],
)
def test_the_command_is_a_path_where_the_shell_would_not_find_it(monkeypatch, variables, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert own_command() == words


def test_the_path_is_one_of_the_folder_that_the_user_is_in(monkeypatch):
    monkeypatch.chdir(Path(sys.prefix).parent)
    assert own_command() == [f"{Path(sys.prefix).name}/bin/stepline"]


def test_another_program_of_this_name_is_not_ours(monkeypatch, tmp_path):
    other = tmp_path / "stepline"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    assert own_command() != ["stepline"]
