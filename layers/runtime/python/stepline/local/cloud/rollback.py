"""`stepline rollback`: return to the versions of functions that served before the last deployment.

Aliases move, and nothing else. The templates do not know about it: the next deployment moves the aliases again.
Source: docs/how-to/deploy.md#roll-back.
"""

from __future__ import annotations

from collections.abc import Mapping

from botocore.exceptions import BotoCoreError, ClientError

from stepline.errors import DependencyError
from stepline.local.cloud.account import AwsAccount
from stepline.local.cloud.deploy import Desk, Order, find_deployment
from stepline.local.cloud.deployment import Deployment
from stepline.local.cloud.former_versions import LIVE, PREVIOUS, versions_named
from stepline.local.cloud.health import find_resources, find_stacks

_ALIAS = "AWS::Lambda::Alias"


def roll_stage_back(order: Order, desk: Desk) -> dict[str, str]:
    """Let the recorded versions serve at once, and return them by the functions that changed.

    It may be repeated: a function that returned to its version stays there.

    Raises:
        AuthError, InputError: `cloud_account`, as for a deployment.
        DependencyError: `cloud_deploy`, no other version is recorded, not confirmed, or refused by AWS.
    """
    account, known = find_deployment(order, desk, in_any_app=True)
    try:
        plan = _plan(account, known)
        for function, (live, version) in plan.items():
            desk.say(f"{function}: version {live} → {version}")
        if not desk.confirm(f"roll stage {order.stage} back?"):
            raise DependencyError("nothing was rolled back", code="cloud_deploy")
        for function, (_, version) in plan.items():
            account.client("lambda").update_alias(
                FunctionName=function,
                Name=LIVE,
                FunctionVersion=version,
                RoutingConfig={"AdditionalVersionWeights": {}},
            )
    except (BotoCoreError, ClientError) as error:
        raise DependencyError(
            f"the stage is not rolled back, or in part: {error}; run the command again, which needs"
            " cloudformation:DescribeStacks, ListStackResources, lambda:GetAlias and UpdateAlias",
            code="cloud_deploy",
        ) from error
    return {function: version for function, (_, version) in plan.items()}


def _plan(account: AwsAccount, known: Deployment) -> Mapping[str, tuple[str, str]]:
    """Return the version that serves and the recorded one, of each function for which they differ."""
    stacks = find_stacks(account, known.stage, known)
    aliases = [one.physical_id for one in find_resources(account, stacks) if one.type == _ALIAS]
    functions = [arn.split(":")[6] for arn in aliases]
    client = account.client("lambda")
    previous = versions_named(client, functions, PREVIOUS)
    live = versions_named(client, previous, LIVE)
    changed = {name: (live[name], version) for name, version in previous.items() if version != live[name]}
    if not changed:
        found = (
            "the recorded versions serve already" if previous else "no version is recorded that served before"
        )
        raise DependencyError(f"{found}: to go back, deploy an earlier release", code="cloud_deploy")
    return changed
