"""A small stack of one function, deployed by the emulator's CloudFormation as a stage's functions are: version, then alias."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from botocore.exceptions import WaiterError

STACK: Final = "stepline-back-loop"
FUNCTION: Final = "stepline-back-decide"
ROLE: Final = "stepline-back-role"
ABSENT: Final = "stepline-back-absent"
"""A function that does not exist."""
_TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


class ReleaseStack:
    """The stack; `policies` are those of a version in the templates of the app."""

    def __init__(self, client: Any, policies: Mapping[str, str]) -> None:
        """`client` returns the client of a service on the emulator."""
        self._formation, self._functions, self._roles = (
            client(name) for name in ("cloudformation", "lambda", "iam")
        )
        self._policies = policies

    @contextmanager
    def deployed(self) -> Iterator[None]:
        """Have the stack, with release 1."""
        self._roles.create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(_TRUST))
        try:
            self._formation.create_stack(StackName=STACK, TemplateBody=self._template(1))
            self._formation.get_waiter("stack_create_complete").wait(
                StackName=STACK, WaiterConfig={"Delay": 1}
            )
            yield
        finally:
            self._formation.delete_stack(StackName=STACK)
            self._formation.get_waiter("stack_delete_complete").wait(
                StackName=STACK, WaiterConfig={"Delay": 1}
            )
            self._roles.delete_role(RoleName=ROLE)

    def update(self, release: int, *, failing: bool = False) -> bool:
        """Deploy a release, and report whether the update succeeded; a failing one names a function that does not exist, last."""
        self._formation.update_stack(StackName=STACK, TemplateBody=self._template(release, failing=failing))
        try:
            self._formation.get_waiter("stack_update_complete").wait(
                StackName=STACK, WaiterConfig={"Delay": 1}
            )
        except WaiterError:
            return False
        return True

    def served(self) -> int:
        """Return the release that callers reach."""
        answer = self._functions.invoke(FunctionName=FUNCTION, Qualifier="live")
        return int(json.loads(answer["Payload"].read()))

    def versions(self) -> list[str]:
        listed = self._functions.list_versions_by_function(FunctionName=FUNCTION)["Versions"]
        return [one["Version"] for one in listed if one["Version"] != "$LATEST"]

    def _template(self, release: int, *, failing: bool = False) -> str:
        role = {"Fn::Sub": f"arn:aws:iam::${{AWS::AccountId}}:role/{ROLE}"}
        function = {
            "FunctionName": FUNCTION,
            "Runtime": "python3.12",
            "Handler": "index.handler",
            "Role": role,
            "Code": {"ZipFile": f"def handler(event, context):\n    return {release}\n"},
        }
        version = f"Version{release}"
        alias = {
            "FunctionName": {"Ref": "Decide"},
            "FunctionVersion": {"Fn::GetAtt": [version, "Version"]},
            "Name": "live",
        }
        resources: dict[str, Any] = {
            "Decide": {"Type": "AWS::Lambda::Function", "Properties": function},
            version: {
                "Type": "AWS::Lambda::Version",
                "Properties": {"FunctionName": {"Ref": "Decide"}},
                **self._policies,
            },
            "Live": {"Type": "AWS::Lambda::Alias", "Properties": alias},
        }
        if failing:
            broken = {"TargetFunctionArn": ABSENT, "AuthType": "AWS_IAM"}
            resources["Broken"] = {"Type": "AWS::Lambda::Url", "Properties": broken, "DependsOn": "Live"}
        return json.dumps({"Resources": resources})
