"""`import stepline`: what authors of bundles, services and clients may use, and what loading it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stepline


@pytest.mark.parametrize("name", stepline.__all__)
def test_every_name_of_the_public_face_can_be_had(name):
    assert getattr(stepline, name) is not None


def test_type_checkers_read_the_same_names_that_are_loaded():
    tree = ast.parse(Path(stepline.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    named = {
        alias.name: str(node.module).removeprefix("stepline.")
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert named == stepline._HOMES
    assert sorted(named) == sorted(stepline.__all__)


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'Journal'"):
        _ = stepline.Journal


def test_importing_it_loads_nothing_of_it():
    code = "import stepline, sys; sys.exit(any(name.startswith('stepline.') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)
