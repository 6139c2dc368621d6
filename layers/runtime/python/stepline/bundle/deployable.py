"""The parts of a workflow that deployed functions cannot run: they read the class, and create no workflow.

Source: docs/how-to/write-a-bundle.md#what-runs-where.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

from stepline.bundle.namespaces.namespace_resolver import NamespaceResolver
from stepline.bundle.workflow import BaseWorkflow, load_workflow
from stepline.errors import InputError

NOT_DEPLOYABLE: Final = "bundle_not_deployable"

_CALLED: Final = {
    "on_bundle_load": ("services",),
    "pre_run_hook": ("hook",),
    "before_round": ("hook",),
    "post_run_hook": ("hook",),
    "knowledge_space_fn": ("query", "limit"),
    "knowledge_read_fn": ("path",),
}
"""The functions of a workflow, with the arguments that deployed functions pass."""

_NOT_CALLED: Final = {
    BaseWorkflow.__init__: "make what it prepares in on_bundle_load, or where a hook or a tool needs it",
    BaseWorkflow.build_react: "name the parts as attributes of the class",
    BaseWorkflow.process: "move its work before the turn into pre_run_hook, and its work after the turn into post_run_hook",
}
"""Methods that only a turn in a process calls, each with the alternative for deployed functions."""


def check_deployable(workflow: type[BaseWorkflow]) -> list[str]:
    """Return a sentence for each part of a workflow that deployed functions would leave out; none if it is fine."""
    overridden = [
        f"{workflow.__name__}.{method.__name__} is overridden, and deployed functions never call it: {instead}"
        for method, instead in _NOT_CALLED.items()
        if getattr(workflow, method.__name__) is not method
    ]
    bound = [
        f"{workflow.__name__}.{name} cannot be called with ({', '.join(arguments)}): deployed functions create no"
        f" workflow, so write it as a @staticmethod def {name}({', '.join(arguments)})"
        for name, arguments in _CALLED.items()
        if not _fits(getattr(workflow, name), arguments)
    ]
    declared: Sequence[object] = workflow.parts().resolvers
    resolving = [
        f"the resolver of {one.namespace}: cannot be called with (path, scope): write it as a plain function"
        for one in declared
        if isinstance(one, NamespaceResolver) and not _fits(one.resolve, ("path", "scope"))
    ]
    return [*overridden, *bound, *resolving]


def load_deployable(name: str) -> type[BaseWorkflow]:
    """Return the workflow of the bundle `name`, if deployed functions can run all of it.

    Raises:
        InputError: `bundle_not_deployable`, with every problem; the errors of `load_workflow`.
    """
    workflow = load_workflow(name)
    if problems := check_deployable(workflow):
        raise InputError(f"{name} cannot be deployed: {'; '.join(problems)}", code=NOT_DEPLOYABLE)
    return workflow


def _fits(function: Any, arguments: tuple[str, ...]) -> bool:
    if function is None:
        return True
    if not callable(function):
        return False
    try:
        signature = inspect.signature(function)
    except ValueError:  # a C function without a signature
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True
