"""Chat completions as a ModelProvider: for OpenAI, and for any server of its protocol.

The modules that plan, send and read a call are loaded by the first call, or by `warm`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from stepline.adapters.chat.family import CACHE_TOKENS, find_chat_refusals
from stepline.adapters.provider.wire import Transport, WireCall, WireProvider
from stepline.errors import ModelRefused
from stepline.ports.model import MediaKind, ModelRequest, RoleChoice

if TYPE_CHECKING:
    from stepline.adapters.chat.completion_fold import CompletionFold

OPENAI_URL: Final = "https://api.openai.com/v1"
_PATH: Final = "/chat/completions"


class ChatProvider(WireProvider):
    """OpenAI, or a server of its protocol."""

    default_model: str = "gpt-5.5"
    traced_as: str = "openai"

    def __init__(self, *, takes: Sequence[MediaKind] | None = None, **configured: Any) -> None:
        """Store the configuration; nothing is imported or sent.

        `takes` are the kinds of files that the server reads, None for those of each model's family. Of the others, see
        `WireProvider`; `base_url` is the address below which the server has `/chat/completions`.
        """
        super().__init__(**configured)
        self._takes = takes

    @property
    def plan(self) -> Callable[[ModelRequest, RoleChoice], Mapping[str, Any]]:
        from stepline.adapters.chat.call import plan_completion  # noqa: PLC0415 -- few functions call one

        return partial(plan_completion, takes=self._takes)

    def fold(self) -> CompletionFold:
        from stepline.adapters.chat.completion_fold import CompletionFold  # noqa: PLC0415 -- as above

        return CompletionFold()

    def call(self, request: ModelRequest, role: RoleChoice) -> ChatCall:
        return ChatCall(self, self.fold(), request, role)

    def find_refusals(self, role: RoleChoice) -> list[str]:
        return find_chat_refusals(role)

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        return next((tokens for prefix, tokens in own.items() if model.startswith(prefix)), CACHE_TOKENS)

    def connect(self) -> Transport:
        from stepline.adapters.chat.completion_fold import is_chunk, read_chunks  # noqa: PLC0415 -- as above
        from stepline.adapters.provider.http_transport import HttpTransport  # noqa: PLC0415 -- loads urllib3

        key, url = self.api_key(), completions_url(self._base_url)
        if not key and url.startswith(OPENAI_URL):
            raise ModelRefused("no API key for the model's provider", code="model_credentials")
        return HttpTransport(
            url=url,
            api_key=key,
            headers=self.headers(key),
            read=read_chunks,
            knows=is_chunk,
            timeouts=self.timeouts,
            guarded=self._guarded,
        )


class ChatCall(WireCall):
    """One completion."""

    def __init__(
        self, provider: ChatProvider, fold: CompletionFold, request: ModelRequest, role: RoleChoice
    ) -> None:
        super().__init__(provider, fold, request, role)
        self._completion = fold

    def send(self) -> None:
        try:
            super().send()
        except ModelRefused as error:
            if error.context.get("kind") != "content_filter":
                raise
            self._completion.decline(str(error))  # an answer, as a refusal in a stream is


def completions_url(base_url: str) -> str:
    """Return the address of completions below a base; one without a path has `/v1`."""
    base = (base_url or OPENAI_URL).rstrip("/").removesuffix(_PATH)
    return f"{base}{_PATH}" if urlsplit(base).path else f"{base}/v1{_PATH}"
