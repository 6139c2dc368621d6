"""The names of a stage's resources in its account: one table, which also says which of them CloudFormation could make as well.

A stage of our own app has all of them, so that a person finds them. An agent in an app of someone else has those only that
have a reason in the table; its stage's name, of which they are made, is unique in the account. The names of secrets and
the dimension of metrics are no resources of a template: they have the stage's name too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Name(NamedTuple):
    """A name by its pattern, and the reason why CloudFormation cannot make it; "" if it can."""

    pattern: str
    needed: str = ""

    def render(self, stage: str, part: str) -> str:
        """Return the name in a stage."""
        return self.pattern.format(stage=stage, part=part)


_CIRCLE: Final = "functions, machine and tasks refer to each other in circles, which references cannot"
_CLOUDFRONT: Final = "CloudFront takes no policy, access control or function without one"

NAMES: Final[Mapping[str, Name]] = {
    "function": Name("stepline-{stage}-{part}", _CIRCLE),
    "machine": Name("stepline-{stage}-loop", _CIRCLE),
    "tasks": Name("stepline-{stage}-exec", _CIRCLE),
    "edge": Name("stepline-{stage}-{part}", _CLOUDFRONT),
    "api": Name("stepline-{stage}{part}", "API Gateway takes none without one; several may have the same"),
    "sign-in": Name("stepline-{stage}-{part}", "Cognito takes no domain without one"),
    "alarm": Name("stepline-{stage}-{part}", "a release by parts names alarms of a later part"),
    "delivered log": Name(
        "/aws/vendedlogs/stepline/{stage}/{part}",
        "the policy by which AWS services deliver logs covers this prefix, and is full after some tens of other names",
    ),
    "choices": Name("/stepline/{stage}/choices"),
    "dashboard": Name("stepline-{stage}"),
    "image project": Name("stepline-{stage}-exec-image"),
    "image repository": Name("stepline-{stage}-exec"),
    "log": Name("/stepline/{stage}/{part}"),
    "queue": Name("stepline-{stage}-{part}-undelivered"),
    "stack": Name("stepline-{stage}-{part}"),
    "shift": Name("stepline-{stage}-{part}-shift"),
    "users": Name("stepline-{stage}"),
}
"""The names by the kind of resource; `part` is a function, a part of the app, an alarm, a region, or what follows."""
