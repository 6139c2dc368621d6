"""Parts of a bundle that deployed functions would leave out are reported before the deployment, with the alternative."""

import pkgutil
import sys
from types import ModuleType

import pytest

import bundles
from bundles.default import WORKFLOW
from stepline.bundle.deployable import check_deployable, load_deployable
from stepline.bundle.workflow import BaseWorkflow
from stepline.errors import InputError


class Fine(BaseWorkflow):
    """Has every function, each in a form that needs no workflow."""

    knowledge_space_fn = staticmethod(lambda query, limit: [(query, limit)])
    on_bundle_load = print

    @staticmethod
    async def pre_run_hook(hook):
        pass

    @classmethod
    def before_round(cls, hook):
        pass


class Own(BaseWorkflow):
    """Overrides what only a turn in a process calls."""

    def __init__(self, runtime, lane, *, user):
        super().__init__(runtime, lane, user=user)

    async def process(self, payload):
        return await super().process(payload)


class Bound(BaseWorkflow):
    """Needs a workflow for its functions."""

    before_round = "no function"

    def pre_run_hook(self, hook):
        pass

    def knowledge_read_fn(self, path):
        pass


@pytest.mark.parametrize("workflow", [BaseWorkflow, WORKFLOW, Fine])
def test_parts_that_deployed_functions_run_are_accepted(workflow):
    assert check_deployable(workflow) == []


def test_each_part_is_named_with_the_way_to_write_it():
    assert [problem.partition(" ")[0] for problem in check_deployable(Own)] == ["Own.__init__", "Own.process"]
    assert "into pre_run_hook, and its work after the turn into post_run_hook" in check_deployable(Own)[1]
    first, *others = check_deployable(Bound)
    assert "write it as a @staticmethod def pre_run_hook(hook)" in first
    assert [problem.partition(" ")[0] for problem in others] == [
        "Bound.before_round",
        "Bound.knowledge_read_fn",
    ]


def test_a_bundle_with_a_part_that_functions_would_skip_is_refused(monkeypatch):
    module = ModuleType("half_deployable")
    module.WORKFLOW = Own
    monkeypatch.setitem(sys.modules, "half_deployable", module)
    with pytest.raises(InputError) as caught:
        load_deployable("half_deployable")
    assert caught.value.reason == "bundle_not_deployable"
    assert all(name in str(caught.value) for name in ("Own.__init__", "Own.process"))
    assert load_deployable("bundles.default") is WORKFLOW


@pytest.mark.parametrize("name", [found.name for found in pkgutil.iter_modules(bundles.__path__)])
def test_a_bundle_that_ships_can_be_deployed(name):
    load_deployable(f"bundles.{name}")
