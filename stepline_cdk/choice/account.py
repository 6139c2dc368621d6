"""The choices that an account asks of a stage: the boundary of its roles, and the tags of its resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from stepline_cdk.choice.declare import Choices, choice, like

TAGS_MOST: Final = 50
TAG_NAME: Final = re.compile(r"(?!aws:)[\w .:/=+@-]{1,128}", re.IGNORECASE)
TAG_VALUE: Final = re.compile(r"[\w .:/=+@-]{0,256}")
"""Source: docs.aws.amazon.com/tag-editor, "Tag naming limits and requirements"."""
DEPLOY: Final = "../how-to/deploy.md"


class AccountChoices(Choices):
    """Demands of the account."""

    permissions_boundary_arn: Annotated[
        str, like(r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+", "the ARN of a policy", empty=True)
    ] = choice(
        "",
        f"Policy that is the [boundary]({DEPLOY}#boundary-and-tags) of the rights of each role",
        guarded=True,
    )
    tags: Mapping[str, str] = choice(
        {}, f"[Tags]({DEPLOY}#boundary-and-tags) of the stacks and of each resource that takes tags"
    )
