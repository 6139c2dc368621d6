"""An agent in a stack of an app of the user's, found in the account by the stack's outputs.

The construct `stepline_cdk.Agent` writes them. Source: docs/how-to/own-app.md#commands.
"""

from __future__ import annotations

from collections.abc import Mapping

from botocore.exceptions import BotoCoreError, ClientError

from stepline.errors import AuthError, DependencyError, InputError
from stepline.local.cloud.account import AwsAccount
from stepline.local.cloud.deployment import Deployment, check_stage
from stepline.local.cloud.health import find_stack, own_outputs
from stepline.local.cloud.readiness import account_id, check_identity
from stepline.local.install.agent_words import AGENT_OUTPUT


def find_deployed_agent(account: AwsAccount, name: str, agent: str, now: str) -> Deployment:
    """Return the deployment of the stack's agent, or of that at a path within the stack; `now` is the time, in ISO 8601.

    Raises:
        AuthError: `cloud_account`, the credentials are missing.
        InputError: `agent_not_found`, there is none, or several and no path.
        DependencyError: `cloud_account`, the stack cannot be read.
    """
    identity = check_identity(account)
    if not identity.ok:
        raise AuthError(f"{identity.detail}; {identity.remedy}", code="cloud_account")
    try:
        stack = find_stack(account, name)
    except (BotoCoreError, ClientError) as error:
        raise DependencyError(
            f"the stack {name} cannot be read: {error}; this needs cloudformation:DescribeStacks",
            code="cloud_account",
        ) from error
    outputs = stack.outputs if stack else {}
    prefix = _choose(name, outputs, agent)
    own = own_outputs(outputs, prefix)
    return Deployment(
        stage=check_stage(own[AGENT_OUTPUT]),
        account=account_id(account),
        region=account.region,
        profile=account.profile,
        outputs=own,
        deployed_at=now,
        stack=name,
        prefix=prefix,
    )


def _choose(stack: str, outputs: Mapping[str, str], agent: str) -> str:
    """Return the beginning of the ids of the agent's outputs. Raises InputError."""
    prefixes = [key.removesuffix(AGENT_OUTPUT) for key in outputs if key.endswith(AGENT_OUTPUT)]
    wanted = "".join(filter(str.isalnum, agent))
    found = [prefix for prefix in prefixes if wanted in ("", prefix)]
    if len(found) == 1:
        return found[0]
    if not prefixes:
        said = f"the stack {stack} has no agent, a construct stepline_cdk.Agent"
    else:
        said = f"the stack {stack} has the agents {', '.join(prefixes)}: name one of them with --agent"
    raise InputError(said, code="agent_not_found")
