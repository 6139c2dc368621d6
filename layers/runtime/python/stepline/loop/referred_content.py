"""The references of one round: the content that a parameter `ref:<path>` may refer to, and is bound to.

    while the decision is validated   a path leads to content of this conversation that the model can see
    before it is put                  `pin`: the content is stored, and the action names it by its hash
    when the action runs              its parameters get that content, the same on every try

Only the conversation's own log is read: no other conversation, no folder, and no data of a bundle.
Source: docs/reference/tools.md#references.
"""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec.structs import replace

from stepline.errors import ToolError
from stepline.model.block import Body
from stepline.model.decision import Action
from stepline.model.file.mime import is_text
from stepline.model.ids import TURN
from stepline.model.path import LogicalPath, PlanPath, SourcesPath, from_physical, out_key, parse_path
from stepline.protocol.decision.call_check import Referred, binds, find_references
from stepline.timeline.fold import Timeline
from stepline.tools.content import READABLE, PathContent, check_body_size, load_content
from stepline.tools.context import ToolContext

_SHORT: Final = ("files", "outputs", "attachments")
"""The first segments of a path below the current turn."""


class References:
    """Resolves the references of a round in the timeline that the model was shown."""

    def __init__(self, timeline: Timeline, context: ToolContext) -> None:
        self._timeline = timeline
        self._context = context
        self.found: dict[str, PathContent] = {}
        """The content at each referenced path."""

    def refer(self, written: str) -> Referred:
        """Return the target of a path: logical, physical, or below the current turn.

        Raises:
            PathError: it is not a path.
            ToolError: `ref_not_visible`, `ref_not_text`, `content_too_large`.
        """
        path = self._parse(written)
        name = str(path)
        if not isinstance(path, (SourcesPath, *READABLE)):
            raise ToolError("only what stands in the conversation can be referred to", code="ref_not_visible")
        try:
            content = load_content(path, self._context)
        except ToolError as missing:
            raise ToolError(str(missing), code="ref_not_visible") from missing
        if not self._is_visible(path) or content.block.meta.get("missing_sids"):
            raise ToolError("it is not in view; react.read shows it", code="ref_not_visible")
        if not is_text(content.mime):
            raise ToolError(f"{content.mime} is no text", code="ref_not_text")
        if content.body is not None:
            check_body_size(content.body)
        self.found[name] = content
        return Referred(path=name, internal=content.block.meta.get("visibility") == "internal")

    def pin(self, action: Action, *, runs_code: bool) -> Action:
        """Return the action with the content of each of its references, stored.

        Raises DependencyError if it cannot be stored now.
        """
        if not binds(action.tool_id, runs_code=runs_code):
            return action
        paths = dict.fromkeys(path for _, path in find_references(action.params))
        return replace(action, bound={path: self._stored(self.found[path]) for path in paths})

    def _parse(self, written: str) -> LogicalPath:
        head = written.partition("/")[0]
        if head in _SHORT:
            return from_physical(f"{self._context.turn}/{written}")
        return from_physical(written) if TURN.fullmatch(head) else parse_path(written)

    def _is_visible(self, path: LogicalPath) -> bool:
        """Return True if the model can see the path now: in the timeline, among the open plans, in the pool."""
        if isinstance(path, SourcesPath) or not self._context.layout.shows_timeline:
            return True  # the journal shows every block by its path, and none in full
        if isinstance(path, PlanPath) and self._timeline.plans[path.plan].is_open():
            return True
        name = str(path)
        return any(
            piece.text and (piece.path == name or name in piece.text) for piece in self._timeline.pieces
        )

    def _stored(self, content: PathContent) -> Body:
        if content.body is not None:
            return content.body
        context, data = self._context, content.written.encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        key = out_key(context.lane, context.turn, digest)
        context.artifacts.put(key, data, mime=content.mime)
        return Body(key=key, sha256=digest, size_bytes=len(data), mime=content.mime)
