"""A bundle's hooks: functions that take one object, the same in a process and in deployed functions.

Source: docs/how-to/write-a-bundle.md#hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from stepline.bundle.browser import (
    BlockLike,
    ConversationStore,
    fetch,
    missing_blocks,
    place_blocks,
    read_blocks,
)
from stepline.errors import InputError
from stepline.loop.agent import Hook, HookCall
from stepline.model.block import Produced
from stepline.model.decision import Reaction
from stepline.model.entry import Closed, Feedback, HookName, Inbound
from stepline.model.ids import Lane
from stepline.ports.descriptor import SecretReader, SettingsReader
from stepline.ports.model import ModelClient
from stepline.tools.context import URL_S

if TYPE_CHECKING:
    from stepline.model.file.served_form import Disposition

HookFunction: TypeAlias = Callable[["HookContext"], Any]
"""Takes the turn's facts; its result is ignored. A coroutine function is awaited."""


class HookContext:
    """The facts of a turn and the services that a hook may use."""

    def __init__(self, call: HookCall) -> None:
        """Serve one run of a hook."""
        self._call = call
        self._context = call.context
        self.added: list[Produced] = []

    @property
    def hook(self) -> HookName:
        """The hook's name."""
        return self._call.hook

    @property
    def lane(self) -> Lane:
        """The conversation."""
        return self._context.lane

    @property
    def user(self) -> str:
        """The user whose conversation it is."""
        return self._call.user

    @property
    def turn(self) -> str:
        """The id of the turn."""
        return self._context.turn

    @property
    def round(self) -> int:
        """The number of the round that begins, from 0; after the close, that of the last one."""
        return self._context.iteration

    @property
    def messages(self) -> tuple[Inbound, ...]:
        """The events of the turn so far, the first of them opened it: `text`, `event`, `payload`, `attachments`."""
        return self._call.messages

    @property
    def closed(self) -> Closed | None:
        """The turn's end in `post_run_hook`: `outcome`, `code`, `answer`, `usage`, `rounds`; None before."""
        return self._call.closed

    @property
    def settings(self) -> SettingsReader:
        """The deployment's settings, by path (`get_plain`)."""
        return self._context.settings

    @property
    def secrets(self) -> SecretReader:
        """The deployment's secrets, by path (`get_secret`)."""
        return self._context.secrets

    @property
    def model(self) -> ModelClient | None:
        """The model; None where there is none. The turn pays for its calls."""
        return self._context.model

    @property
    def store(self) -> ConversationStore:
        """The conversation's turns, timeline and artifacts, and the user's values: `store` of a workflow, at this point."""
        return ConversationStore(lambda: self._context)

    def contribute(self, blocks: Iterable[BlockLike]) -> tuple[str, ...]:
        """Add blocks to the turn once the hook has ended; return their paths. The model reads them from then on.

        Blocks that exist already, unchanged, are not added again. Raises InputError: `turn_not_open` after the
        close, `bad_block`.
        """
        if self.closed is not None:
            raise InputError("the turn has ended, and nothing is added to it", code="turn_not_open")
        placed = place_blocks(read_blocks(blocks), self.turn)
        there = {(block.path, block.type, block.text, block.body) for block in self.added}
        self.added += [
            block
            for block in missing_blocks(placed, self._context.timeline)
            if (block.path, block.type, block.text, block.body) not in there
        ]
        return tuple(block.path for block in placed)

    def rate(self, text: str, *, confidence: float, reaction: Reaction | None = None, turn: str = "") -> None:
        """Give a machine's feedback on the turn that has ended, or on an earlier one; it replaces the machine's earlier one.

        `confidence` is 0.7 to 1. The user's own feedback remains unchanged, and the model reads both.

        Raises:
            InputError: `turn_open`, the turn has not ended, as in every hook but `post_run_hook`; `bad_feedback`, the text is
                empty or the confidence too low.
            NotFoundError: `turn_not_found`.
            LimitError: the text is longer than 1,000 characters.
            BusyError, DependencyError, UnknownOutcome: temporary.
        """
        from stepline.ingress.feedback import submit_feedback  # noqa: PLC0415 - most hooks rate nothing

        if self.closed is None:
            raise InputError("the turn has not ended", code="turn_open")
        said = Feedback(
            turn=turn or self.turn,
            at="",
            reaction=reaction,
            text=text,
            origin="machine",
            confidence=confidence,
        )
        submit_feedback(self._call.ports, self._call.history, self.lane, said, user=self.user)

    def fetch(self, ref: str) -> dict[str, Any]:
        """Return the whole content at a logical path: `path`, and either `ret` or `err`, as `ctx_client.fetch_ctx`."""
        return fetch(ref, self._context)

    def artifact_url(self, path: str, *, disposition: Disposition = "download", ttl_s: int = URL_S) -> str:
        """Return a URL of a file, as `ToolContext.artifact_url`. Secret."""
        return self._context.artifact_url(path, disposition=disposition, ttl_s=ttl_s)

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send an event to the user's clients, once the hook's end is in the log."""
        self._context.emit(kind, data)


def hook_of(function: HookFunction) -> Hook:
    """Return the hook that runs a bundle's function, which must not be a coroutine function."""

    def run(call: HookCall) -> tuple[Produced, ...]:
        context = HookContext(call)
        function(context)
        return tuple(context.added)

    return run
