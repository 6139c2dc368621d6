"""An attachment that a conversation has already, named by its path: a message with files is sent again in a fork.

The log says which conversation has the bytes: of a fork, the origin whose batch admitted the message.
Source: docs/concepts/forks.md#what-it-has.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepline.errors import InputError, PathError
from stepline.log.bindings import Ports
from stepline.log.journal import Journal, fork_of, lane_of
from stepline.log.owned_tail import owned_tail
from stepline.log.timeline_cache import History
from stepline.model.entry import Inbound
from stepline.model.file.attachment import Attachment
from stepline.model.ids import Lane
from stepline.model.path import AttachmentPath, parse_path


def find_attachment(ports: Ports, lane: Lane, user: str, path: str) -> Attachment:
    """Return the attachment at a path of a user's conversation, or else of those that it was made in, also after its point.

    Raises InputError `attachment_missing`; NotFoundError, an origin is not the user's; DependencyError.
    """
    if not _names_attachment(path):
        raise _missing(path)
    searched = lane
    while (found := _find(ports, searched, user, path)) is None:
        first = fork_of(ports.log, searched)
        if first is None:
            raise _missing(path)
        searched = replace(lane, conversation=first.counter)
    file, n = found
    home = lane_of(ports.log, searched, n).conversation
    return file if file.home or home == lane.conversation else replace(file, home=home)


def _names_attachment(path: str) -> bool:
    try:
        return isinstance(parse_path(path), AttachmentPath)
    except PathError:
        return False


def _find(ports: Ports, lane: Lane, user: str, path: str) -> tuple[Attachment, int] | None:
    """Return the attachment at a path of one conversation, and the batch that admitted it; None if there is none."""
    journal = Journal(ports, lane, "admit")
    tail = owned_tail(journal, user)
    timeline = History().load(journal, segment=tail.state.segment, consistent=True)
    block = next((one for one in reversed(timeline.resolve(path)) if one.body is not None), None)
    if block is None or block.body is None:
        return None
    turn = next(one for one in timeline.history if one.id == block.turn_id)
    for batch in timeline.since(min(turn.opened, *turn.prompts) - 1, turn.closed or timeline.n):
        for entry in batch.entries:
            if isinstance(entry, Inbound):
                for file in entry.attachments:
                    if file.sha256 == block.body.sha256:
                        return file, batch.n
    return None


def _missing(path: str) -> InputError:
    return InputError(f"this conversation has no attachment {path[:200]}", code="attachment_missing")
