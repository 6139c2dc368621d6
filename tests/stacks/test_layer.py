"""The dependency layer as it goes to AWS; downloads wheels for the functions' platform on the first run."""

import io
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bench import layers
from bench.budget import BUDGETS, off_budget
from stepline_cdk.bytecode import MAGIC
from stepline_cdk.code import PYTHON_VERSION, RUNTIME, build_deps, render_bootstrap

LAYERS = Path(__file__).parents[2] / "layers"
AARCH64 = 183
MEBIBYTE = 1024 * 1024
LIMIT_BYTES = 250 * MEBIBYTE
"""What Lambda takes of a function and its layers, unzipped."""
BUDGET_BYTES = 120 * MEBIBYTE
"""What ours may come to: every cold start without a snapshot reads it."""


@pytest.fixture(scope="module")
def deps():
    return build_deps(LAYERS / "deps", PYTHON_VERSION) / "python"


@pytest.fixture(scope="module")
def memory():
    return build_deps(LAYERS / "memory", PYTHON_VERSION) / "python"


def total_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def zipped_bytes(folder):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder))
    return len(made.getvalue())


def test_both_layers_stay_far_below_the_limit_of_lambda(deps):
    unzipped = total_bytes(deps) + total_bytes(LAYERS / "runtime")
    print(f"layers: {unzipped / MEBIBYTE:.0f} MiB, dependencies zipped {zipped_bytes(deps) / MEBIBYTE:.0f}")  # noqa: T201 - for a run with -s
    assert unzipped < BUDGET_BYTES < LIMIT_BYTES / 2


def test_each_layer_keeps_its_budget():
    assert off_budget(layers.rows()) == []


def test_all_layers_fit_into_one_function():
    others = sum(BUDGETS[f"{name}_layer_mb"].most for name in ("memory", "mcp", "tracing"))
    assert others * 1_000_000 < LIMIT_BYTES - BUDGET_BYTES


def test_the_layer_of_memory_has_what_it_needs_alone(memory):
    assert {"numpy", "tokenizers", "wordllama"} <= {path.name for path in memory.iterdir()}
    assert not (memory / "huggingface_hub").exists()


def test_the_layer_of_servers_has_every_imported_package(deps):
    layer = build_deps(LAYERS / "mcp", PYTHON_VERSION) / "python"
    assert "mcp" in packages_in(layer)
    assert loaded_by("stepline.adapters.mcp.question") - packages_in(deps, layer) == {"stepline"}


def test_the_layer_of_the_authorizer_has_every_imported_package():
    layer = build_deps(LAYERS / "authorizer", PYTHON_VERSION) / "python"
    loaded = loaded_by("lambdas.authorizer", "stepline.adapters.oidc", "jwt.algorithms")
    assert {"botocore", "jwt", "cryptography"} <= loaded
    assert loaded - packages_in(layer) == {"stepline", "lambdas", "snapshot_restore_py"}


def packages_in(*folders):
    return {path.name.partition(".")[0] for folder in folders for path in folder.iterdir()}


def loaded_by(*modules):
    """The packages, but those of Python, that an interpreter loads to import these modules."""
    script = (
        f"import sys; before = set(sys.modules); import {', '.join(modules)}; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=LAYERS.parent,
        env={"PATH": "", "AWS_DEFAULT_REGION": "eu-west-1"},
    )
    return {name for name in done.stdout.split() if not name.startswith("_")}


def test_the_layer_of_traces_has_every_imported_package(deps):
    layer = build_deps(LAYERS / "tracing", PYTHON_VERSION) / "python"
    script = (
        "import sys; before = set(sys.modules)\n"
        "import opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.common.trace_encoder\n"
        "found = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(*found)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    there = {path.name.partition(".")[0] for folder in (deps, layer) for path in folder.iterdir()}
    assert {name for name in done.stdout.split() if not name.startswith("_")} - there == set()
    assert (layer / "opentelemetry/sdk").is_dir()


@pytest.mark.parametrize("layer", ["deps", "memory"])
def test_every_binary_is_for_the_functions_platform(layer, request):
    binaries = list(request.getfixturevalue(layer).rglob("*.so"))
    assert binaries
    for path in binaries:
        (machine,) = struct.unpack_from("<H", path.read_bytes()[:20], 18)
        assert machine == AARCH64, path
        if not path.parent.name.endswith(".libs"):  # a library of C, which knows no Python
            assert any(tag in path.name for tag in ("cp314", "cpython-314", "abi3")), path


def test_a_fresh_layer_is_not_built_again(deps):
    before = (deps / ".requirements.sha256").stat().st_mtime_ns
    build_deps(LAYERS / "deps", PYTHON_VERSION)
    assert (deps / ".requirements.sha256").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "package", ["anthropic", "aws_lambda_powertools", "boto3", "jwt", "msgspec", "pydantic"]
)
def test_packages_that_a_function_imports_are_in_the_layer(deps, package):
    assert (deps / package).is_dir()


@pytest.mark.parametrize("package", ["aws_cdk", "click", "pytest", "moto", "rich", "websockets"])
def test_packages_for_development_are_not_in_the_layer(deps, package):
    assert not (deps / package).exists()


def test_the_layer_is_for_the_declared_runtime_and_that_one_has_snapshots():
    assert RUNTIME.name == f"python{PYTHON_VERSION}"
    assert max(MAGIC) == PYTHON_VERSION
    assert RUNTIME.supports_snap_start


def test_the_bootstrap_runs_the_real_runtime_client():
    script = render_bootstrap("/some where/python", "abc")
    assert script.startswith("#!/bin/sh\n")
    assert '"/some where/python" -m awslambdaric "$_HANDLER"' in script
    assert "abc" in script
