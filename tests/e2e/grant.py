"""What the deployed roles allow, one grant at a time, as the emulator's IAM holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from stepline.local.stage.deployed import LocalStage, client
from tests.e2e.service import ROLE, read_outputs

PREFIX = "stepline-local-"


class Grant(NamedTuple):
    """A function, or a service, may do one action on one resource; `role` and `policy` say where that is written."""

    function: str
    action: str
    resource: str
    role: str
    policy: str

    def __str__(self) -> str:
        return f"{self.function} {self.action} {self.place}"

    @property
    def place(self) -> str:
        """Return the kind of the resource, the prefix of an object's key, the index of a table, or the name of a function."""
        what = self.resource.split(":", maxsplit=5)[5]
        if ":s3:" in self.resource:
            return what.partition("/")[2]
        if ":lambda:" in self.resource:
            return what.split(":")[1].rpartition("-")[2]
        table, _, index = what.partition("/index/")
        return index or re.split("[/:]", table)[0]


def read_grants(stage: LocalStage) -> list[Grant]:
    """Return every grant of every function, and of services, in a stable order."""
    return sorted(
        Grant(function, action, resource, role, policy)
        for function, role in _roles(stage).items()
        for policy, document in _policies(stage, role)
        for statement in document["Statement"]
        for action in _many(statement["Action"])
        for resource in _many(statement["Resource"])
    )


@contextmanager
def without(stage: LocalStage, grant: Grant) -> Iterator[None]:
    """Take a grant away and give it back."""
    iam = client("iam", stage)
    names = {"RoleName": grant.role, "PolicyName": grant.policy}
    before = iam.get_role_policy(**names)["PolicyDocument"]
    left = [kept for statement in before["Statement"] for kept in _less(statement, grant)]
    assert left != before["Statement"], grant
    iam.put_role_policy(**names, PolicyDocument=json.dumps({**before, "Statement": left}))
    try:
        yield
    finally:
        iam.put_role_policy(**names, PolicyDocument=json.dumps(before))


def _less(statement: dict[str, Any], grant: Grant) -> list[dict[str, Any]]:
    """Return the statements that allow what this one does, but for the grant."""
    actions, resources = _many(statement["Action"]), _many(statement["Resource"])
    if grant.action not in actions or grant.resource not in resources:
        return [statement]
    others = [action for action in actions if action != grant.action]
    elsewhere = [resource for resource in resources if resource != grant.resource]
    return [
        *([{**statement, "Action": others}] if others else []),
        *([{**statement, "Action": grant.action, "Resource": elsewhere}] if elsewhere else []),
    ]


def _roles(stage: LocalStage) -> dict[str, str]:
    """Return the name of the role of each of our functions, and of the one for services that submit events."""
    pages = client("lambda", stage).get_paginator("list_functions").paginate()
    functions = {
        function["FunctionName"].removeprefix(PREFIX): function["Role"].rpartition("/")[2]
        for page in pages
        for function in page["Functions"]
        if function["FunctionName"].startswith(PREFIX)
    }
    return {**functions, "events": read_outputs(stage)[ROLE].rpartition("/")[2]}


def _policies(stage: LocalStage, role: str) -> list[tuple[str, dict[str, Any]]]:
    iam = client("iam", stage)
    assert iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"] == [], role
    names = iam.list_role_policies(RoleName=role)["PolicyNames"]
    found = [(name, iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]) for name in names]
    effects = {statement["Effect"] for _, document in found for statement in document["Statement"]}
    assert effects == {"Allow"}, role
    return found


def _many(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
