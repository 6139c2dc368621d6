"""Several roles that get the same rights by one grant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jsii
from aws_cdk import aws_iam as iam


@jsii.implements(iam.IPrincipal)
class SharedGrantee:
    """A grantee that passes each statement on to all of its roles."""

    def __init__(self, roles: Sequence[iam.Role]) -> None:
        """Use these roles, of one account."""
        self._roles = tuple(roles)

    @property
    def grant_principal(self) -> Any:
        return self

    @property
    def assume_role_action(self) -> str:
        return self._roles[0].assume_role_action

    @property
    def principal_account(self) -> str | None:
        return self._roles[0].principal_account

    @property
    def policy_fragment(self) -> iam.PrincipalPolicyFragment:
        return iam.PrincipalPolicyFragment({"AWS": [role.role_arn for role in self._roles]})

    @jsii.member(jsii_name="addToPrincipalPolicy")
    def add_to_principal_policy(self, statement: iam.PolicyStatement) -> iam.AddToPrincipalPolicyResult:
        """Add a statement to each role."""
        *_, last = [role.add_to_principal_policy(statement) for role in self._roles]
        return last
