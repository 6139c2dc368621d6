"""Bytecode of the functions: made by the runtime's own version, the same every time, and read from a read-only folder."""

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from stepline_cdk import bytecode
from stepline_cdk.bytecode import MAGIC, compile_folder, copy_sources, find_python, render_missing
from stepline_cdk.code import HANDLERS_AT, LAYER_AT, PYTHON_VERSION, Code
from stepline_cdk.stage import Stage
from tests.stacks.conftest import synthesise

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
OWN_MAGIC = int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little")
MODULE = "NAMES = {'b', 'a', 'c'}\n\n\ndef fail():\n    raise ValueError(NAMES)\n"


@pytest.fixture(autouse=True)
def own_version_is_one_of_lambdas(monkeypatch):
    """Let the interpreter of the tests be that of a runtime, whichever it is."""
    monkeypatch.setitem(MAGIC, VERSION, OWN_MAGIC)


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine on which nothing but this interpreter is found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(bytecode.sys, "executable", str(tmp_path / "none/python"))
    return tmp_path


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def compiled(folder, text=MODULE):
    (folder / "package").mkdir(parents=True)
    (folder / "package/module.py").write_text(text)
    compile_folder(Path(sys.executable), VERSION, folder, mounted_at=LAYER_AT, content="1")
    (found,) = folder.rglob("*.pyc")
    return found


def test_the_known_magic_number_is_that_of_a_released_interpreter():
    known = {"3.12": 3531, "3.13": 3571, "3.14": 3627}
    assert known.items() <= MAGIC.items()
    if VERSION in known and sys.version_info.releaselevel == "final":
        assert known[VERSION] == OWN_MAGIC


def test_an_interpreter_on_the_path_is_found_by_its_version(nowhere):
    python = script(nowhere / f"python{VERSION}", f'exec {Path(sys.prefix) / "bin/python"} "$@"')
    assert find_python(VERSION) == python


def test_one_of_pyenv_is_found(nowhere):
    python = script(
        nowhere / f"pyenv/versions/{VERSION}.1/bin/python", f'exec {Path(sys.prefix) / "bin/python"} "$@"'
    )
    assert find_python(VERSION) == python


def test_one_of_uv_is_found(nowhere):
    python = script(nowhere / "kept/python", f'exec {Path(sys.prefix) / "bin/python"} "$@"')
    script(nowhere / "uv", f'echo "{python}"')
    assert find_python(VERSION) == python


@pytest.mark.parametrize(
    "answer", ["exit 1", 'echo \'["pypy", "{version}", {magic}]\'', 'echo \'["cpython", "{version}", 1]\'']
)
def test_a_name_without_an_interpreter_another_one_and_a_pre_release_do_not_count(nowhere, answer):
    script(nowhere / f"python{VERSION}", answer.format(version=VERSION, magic=OWN_MAGIC))
    assert find_python(VERSION) is None


def test_the_warning_names_the_missing_version_and_the_one_at_hand(nowhere):
    python = script(nowhere / f"python{VERSION}", f'exec {Path(sys.prefix) / "bin/python"} "$@"')
    warning = render_missing("3.99")
    assert "Python 3.99" in warning
    assert f"-c python={VERSION}: {python}" in warning


def test_bytecode_is_not_checked_against_its_source_and_has_the_runtimes_magic_number(tmp_path):
    head = compiled(tmp_path).read_bytes()[:8]
    assert int.from_bytes(head[:2], "little") == OWN_MAGIC
    assert int.from_bytes(head[4:], "little") == 0b01


def test_two_builds_in_different_folders_are_equal(tmp_path):
    assert compiled(tmp_path / "one").read_bytes() == compiled(tmp_path / "another").read_bytes()


def test_a_read_only_folder_is_imported_by_its_bytecode_alone(tmp_path):
    compiled(tmp_path)
    (tmp_path / "package/module.py").write_text("this is not Python")
    said = subprocess.run(
        [sys.executable, "-B", "-c", "from package.module import fail; fail()"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ValueError" in said.stderr


def test_bytecode_names_its_source_as_lambda_mounts_it(tmp_path):
    code = marshal.loads(compiled(tmp_path).read_bytes()[16:])
    assert code.co_filename == f"{LAYER_AT}/package/module.py"


def test_compiled_sources_are_skipped_and_changed_ones_compiled(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "__pycache__").mkdir(parents=True)
    (source / "__pycache__/old.cpython-311.pyc").write_bytes(b"")
    (source / "module.py").write_text("A = 1\n")

    def build():
        content = copy_sources((source,), target)
        compile_folder(Path(sys.executable), VERSION, target, mounted_at=HANDLERS_AT, content=content)
        (found,) = target.rglob("*.pyc")
        return found

    first = build().stat().st_mtime_ns
    assert build().stat().st_mtime_ns == first
    (source / "module.py").write_text("A = 2\n")
    assert build().stat().st_mtime_ns != first


def test_handlers_library_and_dependencies_ship_with_their_bytecode(tmp_path):
    root = Path(__file__).parents[2]
    deps = tmp_path / "deps"
    (deps / "python").mkdir(parents=True)
    (deps / "python/.requirements.sha256").write_text("1")
    (deps / "python/dependency.py").write_text("A = 1\n")
    made = tmp_path / "project"
    for name in ("lambdas", "bundles", "layers"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).symlink_to(root / name)
    code = Code.for_aws(
        made, version=PYTHON_VERSION, compiler=Path(sys.executable), deps=deps, acting=(deps,)
    )
    assert code.compiled
    handlers, (library, dependencies) = code.folder, code.layers
    for folder in (handlers / "lambdas", library / "python/stepline/loop", dependencies / "python"):
        assert list(folder.glob("__pycache__/*.pyc")), folder
    assert not (library / "python/stepline/local").exists()
    assert (library / "python/stepline/bundle/skills/built_in/research/SKILL.md").exists()


def test_a_stage_may_choose_another_runtime(tmp_path_factory):
    functions = synthesise(tmp_path_factory, name="older", python="3.13").resources("AWS::Lambda::Function")
    assert {function["Runtime"] for function in functions.values()} == {"python3.13"}


def test_a_python_that_lambda_does_not_run_with_snapshots_is_refused():
    with pytest.raises(ValueError, match=r"python: got '3\.10', takes 3.12, 3.13, 3.14"):
        Stage(python="3.10")
