"""Every package of the library has the walls that the import rules promise: an import planted across one is found."""

from copy import deepcopy
from itertools import pairwise, permutations, product
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

ROOT = Path(__file__).parents[2]
LAYERS, SIBLINGS, CORE = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"][:3]
KINDS = {
    "layers": LayersContract,
    "acyclic_siblings": AcyclicSiblingsContract,
    "forbidden": ForbiddenContract,
}
FLOORS = [floor.split(" | ") for floor in LAYERS["layers"]]
CROSSINGS = [
    *(pair for higher, lower in pairwise(FLOORS) for pair in product(lower, higher)),
    *(pair for floor in FLOORS for pair in permutations(floor, 2)),
]
"""Pairs of packages of which the first may not import the second: it is one floor below, or beside."""
SESSION = {"root_packages": ["stepline"], "include_external_packages": "True"}
ABOVE_THE_CORE = {"__main__", "local", "testing", "replay", "bootstrap", "adapters"}


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("stepline", include_external_packages=True, cache_dir=None)


def is_kept(rule, graph):
    options = {key: value for key, value in rule.items() if key not in {"name", "type"}}
    contract = KINDS[rule["type"]](rule["name"], SESSION, options)
    return contract.check(deepcopy(graph), verbose=False).kept  # it removes imports that it ignores


def catches(rule, graph, importer, imported):
    """Return True if an import breaks a rule that holds without it."""
    graph.add_import(importer=importer, imported=imported)
    try:
        return not is_kept(rule, graph)
    finally:
        graph.remove_import(importer=importer, imported=imported)


def a_module_of(graph, package):
    """Return the last module of a package, which is as far inside as one can be."""
    return max({f"stepline.{package}", *graph.find_descendants(f"stepline.{package}")})


def test_the_library_keeps_its_rules(graph):
    assert [rule["name"] for rule in (LAYERS, SIBLINGS, CORE) if not is_kept(rule, graph)] == []


def test_the_floors_are_the_packages_of_the_library(graph):
    packages = [f"stepline.{package}" for floor in FLOORS for package in floor]
    assert sorted(packages) == sorted(graph.find_children("stepline"))


def test_every_package_below_the_adapters_is_in_the_core():
    below = {package for floor in FLOORS for package in floor} - ABOVE_THE_CORE
    assert set(CORE["source_modules"]) == {f"stepline.{package}" for package in below}


@pytest.mark.parametrize("package", CORE["source_modules"])
@pytest.mark.parametrize("foreign", ["botocore", "httpx2", "anthropic"])
def test_a_foreign_import_in_the_core_is_found(graph, package, foreign):
    assert catches(CORE, graph, a_module_of(graph, package.removeprefix("stepline.")), foreign)


@pytest.mark.parametrize(("importer", "imported"), CROSSINGS)
def test_an_import_from_above_or_from_beside_is_found(graph, importer, imported):
    assert catches(LAYERS, graph, a_module_of(graph, importer), a_module_of(graph, imported))


def test_a_package_without_a_floor_is_found(graph):
    graph.add_module("stepline.cellar")
    try:
        assert not is_kept(LAYERS, graph)
    finally:
        graph.remove_module("stepline.cellar")


def test_siblings_that_import_each_other_are_found(graph):
    assert graph.direct_import_exists(importer="stepline.loop.decide", imported="stepline.loop.agent")
    assert catches(SIBLINGS, graph, "stepline.loop.agent", "stepline.loop.decide")
