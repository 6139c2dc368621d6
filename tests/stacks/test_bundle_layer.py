"""The layer of a bundle's packages: built from their lock, for those functions that load the bundle, and none without."""

import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import app
from stepline.errors import InputError
from stepline.local.install import requirement_lock
from stepline.local.install.requirement_lock import (
    LIMIT_BYTES,
    SHARED,
    check_size,
    find_requirements,
    lock_requirements,
)
from stepline_cdk.code import ACTING, AUTHORIZER, PYTHON_VERSION, Code, build_deps
from stepline_cdk.deployment import Deployment
from stepline_cdk.stage import Stage
from tests.stacks.conftest import CONTEXT, PAGE, Template, cdk
from tests.support.local_index import LocalIndex

ROOT = Path(__file__).parents[2]
FUNCTIONS = "AWS::Lambda::Function"
LOADING = {"act", "close", "decide"}
LAYERS_MAX = 5
"""How many Lambda takes of a function."""


@pytest.fixture
def index(tmp_path, monkeypatch):
    made = LocalIndex(tmp_path / "index", monkeypatch)
    made.add("prices", "1.0", requires=["rates"])
    made.add("rates", "2.0")
    return made


def locked(folder, text="prices\n"):
    """The folder with the lock of a bundle below `folder`, beside the real layers of the functions."""
    file = folder / "bundles/shop/requirements.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return lock_requirements(
        find_requirements(folder, ["bundles.shop"]), folder / "packages", root=ROOT, version=PYTHON_VERSION
    ).lock


def code_of(folder, *, shared=()):
    """The code of a stage whose own dependencies are empty."""
    for name in ("deps", "memory", "mcp"):
        (folder / name / "python").mkdir(parents=True, exist_ok=True)
    return Code.for_aws(
        ROOT,
        deps=folder / "deps",
        acting=(folder / "memory", folder / "mcp"),
        bundle=locked(folder),
        shared=shared,
        requirements=("bundles/shop/requirements.txt",),
    )


def synthesised(folder, code, **fields):
    """The template of each stack, and the folder of all."""
    app = cdk.App(outdir=str(folder / "cdk.out"), context=CONTEXT)
    stage = Stage(name="dev", bundle="bundles.shop", exec_image="none", **fields)
    stacks = Deployment(app, stage, code=code, packages=()).stacks
    templates = {stack.stack_name: Template.from_stack(stack) for stack in stacks.values()}
    return templates, Path(app.synth().directory)


def having(templates, word):
    """The functions that have the one layer whose name begins with the word, once."""
    found = set()
    for template in templates.values():
        for function in template.find_resources(FUNCTIONS).values():
            layers = [one["Ref"] for one in function["Properties"].get("Layers", [])]
            assert len(layers) == len(set(layers)) <= LAYERS_MAX
            if any(layer.startswith(word) for layer in layers):
                found.add(function["Properties"]["Handler"].split(".")[1])
    return found


def test_the_functions_that_load_the_bundle_have_its_packages_and_no_other_has(tmp_path, index):
    templates, folder = synthesised(tmp_path, code_of(tmp_path))
    assert having(templates, "LayerBundle") == LOADING
    assert having(templates, "LayerMemory") == {"act", "search"}
    assert having(templates, "LayerMcp") == {"act"}
    (packages,) = {path.parents[1] for path in folder.glob("asset.*/python/prices")}
    assert (packages / "python/rates/__init__.py").read_text().startswith("VERSION = '2.0'")
    assert [path.name for path in packages.iterdir()] == ["python"]


def test_packages_in_the_layer_of_memory_are_loaded_from_it(tmp_path, index):
    templates, _ = synthesised(tmp_path, code_of(tmp_path, shared=("memory",)))
    assert having(templates, "LayerBundle") == LOADING
    assert having(templates, "LayerMemory") == {*LOADING, "search"}
    assert having(templates, "LayerMcp") == {"act"}


def test_a_layer_that_shares_its_packages_is_one_of_those_there_are():
    assert {*SHARED, AUTHORIZER} == set(ACTING)


def test_a_bundle_without_requirements_has_no_layer(prod):
    assert not [name for name in prod.entries("AWS::Lambda::LayerVersion") if "Bundle" in name]


def test_the_same_requirements_make_the_same_bytes_in_any_folder(tmp_path, index):
    def built(folder):
        packages = build_deps(locked(folder), PYTHON_VERSION) / "python"
        return {
            path.relative_to(packages).as_posix(): path.read_bytes()
            for path in packages.rglob("*")
            if path.is_file()
        }

    first = built(tmp_path / "one")
    assert first == built(tmp_path / "two")
    assert "prices/__init__.py" in first
    record = first["prices-1.0.dist-info/RECORD"].decode()
    assert "bin/" not in record
    assert "prices/__init__.py" in record


def test_an_unchanged_bundle_is_not_built_again_and_gives_the_same_template(tmp_path, index):
    before, _ = synthesised(tmp_path / "one", code_of(tmp_path))
    shutil.rmtree(index.folder)
    after, _ = synthesised(tmp_path / "two", code_of(tmp_path))
    for name, template in before.items():
        assert template.to_json() == after[name].to_json()


def test_packages_with_which_a_function_is_too_large_are_refused(tmp_path, index):
    room = LIMIT_BYTES - code_of(tmp_path).bundle_bytes()[1]
    large = tmp_path / "memory/python/weights.bin"
    for free, fits in ((2**20, True), (0, False)):
        with large.open("wb") as file:
            file.truncate(room - free)
        own, other = code_of(tmp_path).bundle_bytes()
        assert 0 < own < 2**20
        with nullcontext() if fits else pytest.raises(InputError) as caught:
            check_size(own, other, [Path("bundles/shop/requirements.txt")])
    assert caught.value.reason == "requirements_too_large"
    assert "bundles/shop/requirements.txt" in str(caught.value)


def test_without_packages_of_a_bundle_there_is_nothing_to_refuse():
    check_size(0, LIMIT_BYTES + 1, [])


def test_the_lock_is_for_the_functions_python_unless_a_stage_has_another():
    assert requirement_lock.PYTHON == PYTHON_VERSION


@pytest.mark.parametrize(
    ("requirement", "code"),
    [
        ("urllib3<1", "requirements_conflict"),
        ("no_such_prices", "requirements_unresolved"),
        ("-e .", "requirements_invalid"),
    ],
)
def test_packages_that_cannot_be_deployed_end_the_synthesis(tmp_path, index, monkeypatch, requirement, code):
    """In this process: one that only runs the app loads the CDK for it, which tests/stacks/test_bundle_check.py does once."""
    index.add("urllib3", "0.9")
    for name in ("lambdas", "layers", "web"):
        (tmp_path / name).symlink_to(ROOT / name)
    package = tmp_path / "shop_of_wishes"
    package.mkdir()
    (package / "__init__.py").write_text("from stepline import BaseWorkflow as WORKFLOW\n")
    (package / "requirements.txt").write_text(requirement)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    monkeypatch.setattr(app, "app_root", lambda: tmp_path)
    context = {"stage": "dev", "bundle": package.name, "bytecode": "false", "page_folder": str(PAGE)}
    asked = cdk.App(outdir=str(tmp_path / "cdk.out"), context=context)
    with pytest.raises(SystemExit) as ended:
        app.main(asked)
    assert str(ended.value).startswith(f"error: {code}: ")
