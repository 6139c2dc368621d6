"""docs/reference/deploy-rights.md: the rights of the caller of the commands on a stage in AWS."""

from __future__ import annotations

from typing import Final

from docs.build import DOCS
from stepline.local.cloud.role.caller_rights import EVERYTHING, RESOURCES, RIGHTS, StagePlace
from stepline.local.cloud.role.ci_role import TOKENS

PATH: Final = DOCS / "reference/deploy-rights.md"

_HEAD: Final = """\
# Rights of the caller

Generated from `stepline/local/cloud/role/caller_rights.py` by `make docs`; a test compares them. Another test deploys a stage
and compares each request with these rights.

`stepline deploy --print-ci-role` prints [a role for CI](../how-to/deploy.md#from-ci) with those of `deploy`. Without the right to
a check the command continues, and its line says `unknown`.

| command | may | on | for |
|---|---|---|---|"""

_TARGETS: Final = """
For stage `prod` with the bootstrap's own names, a secret, and no user pool yet:

| on | resources |
|---|---|"""

_CI: Final = """
## Services of CI

| service | `--repository` | may be limited to | audience of its tokens |
|---|---|---|---|"""


def render() -> str:
    """Return the page."""
    return "\n".join(
        [
            _HEAD,
            *(
                f"| {right.commands} | `{right.service}:` {_listed(right.actions)} | {right.on} | {right.why} |"
                for right in RIGHTS
            ),
            _TARGETS,
            *(f"| {on} | {', '.join(f'`{arn}`' for arn in arns)} |" for on, arns in _examples().items()),
            _CI,
            *(
                f"| `{name}` | `{one.form}` | {_limits(one.branch, one.environment)} | `{one.audience}` |"
                for name, one in TOKENS.items()
            ),
            "",
        ]
    )


def _listed(actions: str) -> str:
    return ", ".join(f"`{action}`" for action in actions.split())


def _limits(branch: str, environment: str) -> str:
    return " or ".join([*(["`--branch`"] if branch else []), *(["`--environment`"] if environment else [])])


def _examples() -> dict[str, list[str]]:
    """Return the resources of each target, without the pseudo parameters; of those with many, the first."""
    place = StagePlace(stage="prod", context={"model_secret_arn": "MODEL_SECRET_ARN"})
    found = {}
    for on, list_arns in RESOURCES.items():
        arns = [_short(arn) for arn in list_arns(place)]
        if arns and on != EVERYTHING:
            found[on] = arns if len(arns) <= 6 else [*arns[:2], "…"]
    return found


def _short(arn: str) -> str:
    return (
        arn.rpartition("${AWS::AccountId}:")[2]
        .replace("${AWS::AccountId}", "ACCOUNT")
        .replace("${AWS::Region}", "REGION")
    )
