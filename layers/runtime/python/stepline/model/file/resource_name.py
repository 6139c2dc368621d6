"""Resource names: a file's name beyond its conversation, which grants nothing.

    ef:<tenant>:<project>:chatbot:<stage>:<user>:<conversation>:<turn>:<role>:<tail>

    attachment   user       attachments/<name>, external/<kind>/attachments/<message>/<name>
    file         artifact   files/<rel>, outputs/<rel>

The tail is the file's physical path below its turn. User and tail are percent-encoded (RFC 3986; a slash stays), so that
no part holds a colon. A file has exactly one name: any other encoding is refused.
Source: docs/concepts/http-api.md#files.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn
from urllib.parse import quote, unquote

from stepline.errors import InputError, PathError
from stepline.model.base import Value
from stepline.model.ids import SEGMENT, TURN, Lane, is_user
from stepline.model.path import AttachmentPath, FilePath, from_physical, physical

NAME_MAX_CHARS: Final = 4_096
_NAME: Final = re.compile(
    rf"ef:(?P<tenant>{SEGMENT.pattern}):(?P<project>{SEGMENT.pattern}):chatbot:(?P<stage>[a-z]{{1,16}})"
    rf":(?P<user>[^:]{{1,768}}):(?P<conversation>{SEGMENT.pattern}):(?P<turn>{TURN.pattern})"
    r":(?P<role>[a-z]{1,16}):(?P<tail>[^:]+)"
)


class ResourceName(Value):
    """A file of one turn of a user's conversation."""

    lane: Lane
    user: str
    path: FilePath | AttachmentPath

    def __str__(self) -> str:
        lane = self.lane
        stage, role = ("file", "artifact") if isinstance(self.path, FilePath) else ("attachment", "user")
        prefix = f"ef:{lane.tenant}:{lane.project}:chatbot:{stage}:{quote(self.user, safe='')}"
        return f"{prefix}:{lane.conversation}:{self.path.turn}:{role}:{quote(self.tail)}"

    @property
    def tail(self) -> str:
        """The file's path below its turn, not encoded."""
        return (physical(self.path) or "").removeprefix(f"{self.path.turn}/")


def parse_resource_name(text: str) -> ResourceName:
    """Parse a resource name. Raises InputError `bad_rn`."""
    found = _NAME.fullmatch(text) if len(text) <= NAME_MAX_CHARS else None
    if found is None:
        _refuse("it is not of the form ef:<tenant>:<project>:chatbot:<stage>:<user>:<conversation>:…")
    try:
        path = from_physical(f"{found['turn']}/{unquote(found['tail'], errors='strict')}")
        user = unquote(found["user"], errors="strict")
    except (PathError, UnicodeDecodeError):
        _refuse("its end names no file")
    lane = Lane(tenant=found["tenant"], project=found["project"], conversation=found["conversation"])
    name = ResourceName(lane=lane, user=user, path=path)
    if not is_user(user) or str(name) != text:
        _refuse("a part of it is no valid one, or is encoded in another way than ours")
    return name


def _refuse(why: str) -> NoReturn:
    raise InputError(f"this is no resource name: {why}", code="bad_rn")
