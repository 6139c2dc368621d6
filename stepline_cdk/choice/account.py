"""The choices that an account asks of a stage: its key, the boundary of its roles, and the tags of its resources."""

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

    kms_key_arn: Annotated[
        str,
        like(
            r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})",
            "the ARN of a key, not of an alias",
            empty=True,
        ),
    ] = choice(
        "",
        "[Key](../concepts/security.md#a-key-of-yours) of KMS that encrypts what the stage stores",
        said="keys of AWS",
        cost="1 USD a month for the key, and 0.03 for 10,000 requests",
        guarded=True,
    )
    permissions_boundary_arn: Annotated[
        str, like(r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+", "the ARN of a policy", empty=True)
    ] = choice(
        "",
        f"Policy that is the [boundary]({DEPLOY}#boundary-tags-and-key) of the rights of each role",
        guarded=True,
    )
    tags: Mapping[str, str] = choice(
        {}, f"[Tags]({DEPLOY}#boundary-tags-and-key) of the stacks and of each resource that takes tags"
    )
