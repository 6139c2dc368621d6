"""Bedrock's Converse as a ModelProvider. The modules that plan, send and read a call are loaded by the first one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.provider.wire import Transport, WireProvider
from stepline.ports.model import MediaKind, ModelRequest, RoleChoice

if TYPE_CHECKING:
    from stepline.adapters.converse.converse_fold import ConverseFold

CACHE_TOKENS: Final = 1024
"""The shortest prompt that most of its models cache."""


class ConverseProvider(WireProvider):
    """The models of Bedrock, of any maker. It needs no key: the process's role signs requests."""

    default_model: str = "global.amazon.nova-2-lite-v1:0"
    traced_as: str = "aws.bedrock"

    def __init__(self, *, takes: Sequence[MediaKind] | None = None, **configured: Any) -> None:
        """Store the configuration, see `WireProvider`; `takes` are the kinds of files that its models read, None for all."""
        super().__init__(**configured)
        self._takes = takes

    @property
    def plan(self) -> Callable[[ModelRequest, RoleChoice], Mapping[str, Any]]:
        from stepline.adapters.converse.call import plan_converse  # noqa: PLC0415 -- few functions call one

        return partial(plan_converse, takes=self._takes)

    def fold(self) -> ConverseFold:
        from stepline.adapters.converse.converse_fold import ConverseFold  # noqa: PLC0415 -- as above

        return ConverseFold()

    def renew(self, refused: Transport | None) -> bool:
        return False

    def find_refusals(self, role: RoleChoice) -> list[str]:
        found = []
        if isinstance(role.thinking, str):
            found.append(
                f"{role.named} takes no thinking {role.thinking} over Converse, only a number of tokens"
            )
        if role.effort:
            found.append(f"{role.named} takes no effort over Converse")
        return found

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        return next((tokens for prefix, tokens in own.items() if model.startswith(prefix)), CACHE_TOKENS)

    def connect(self) -> Transport:
        from stepline.adapters.converse.botocore_transport import ConverseTransport  # noqa: PLC0415 -- as above

        return ConverseTransport(endpoint=self._base_url, timeouts=self.timeouts, guarded=self._guarded)
