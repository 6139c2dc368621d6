"""Embeddings of texts by Amazon Titan Text Embeddings V2 on Amazon Bedrock.

Source: Amazon Bedrock User Guide, "Amazon Titan Embeddings Text"; Bedrock API Reference, "InvokeModel".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.errors import DependencyError
from stepline.ports.tenancy.ledger import Ledger

DIMENSIONS: Final = 512
"""Of 256, 512 and 1,024: 99 percent of the accuracy of 1,024 (AWS News Blog, "Amazon Titan Text V2") at half the bytes."""
ATTEMPTS: Final = 5
"""Bedrock limits an embedding model by calls a minute, and the end of a turn makes several at once."""
CALLERS: Final = 8
"""Texts embedded at once, each by a call of its own; fewer than the connections that a client keeps open."""


class _Embedded(msgspec.Struct):
    embedding: list[float]


_EMBEDDED: Final = msgspec.json.Decoder(_Embedded)


class BedrockEmbedding:
    """One model; vectors have length 1, so that their product is the cosine."""

    def __init__(self, model: str, *, ledger: Ledger | None = None) -> None:
        """Ask `model`, by its id on Bedrock; with a `ledger`, calls are counted there."""
        self._model = model
        self._ledger = ledger

    @cached_property
    def client(self) -> Any:
        """The client, created on first use."""
        return connect("bedrock-runtime", read_timeout_s=5, attempts=ATTEMPTS, ledger=self._ledger)

    def embed(self, text: str) -> list[float]:
        """Return the text's vector of `DIMENSIONS` numbers. Raises DependencyError."""
        asked = {"inputText": text, "dimensions": DIMENSIONS, "normalize": True}
        with mapped():
            answer = self.client.invoke_model(
                modelId=self._model,
                body=msgspec.json.encode(asked),
                contentType="application/json",
                accept="application/json",
            )
            body: bytes = answer["body"].read()
        try:
            found = _EMBEDDED.decode(body).embedding
        except msgspec.DecodeError as error:
            raise DependencyError("the embedding model's answer holds no embedding") from error
        if len(found) != DIMENSIONS:
            raise DependencyError(f"the embedding model answered {len(found)} dimensions, not {DIMENSIONS}")
        return found

    def embed_all(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors in the texts' order. Raises DependencyError if one text has none."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only the end of a turn embeds several

        self.client  # noqa: B018 - made once, before threads ask for it
        pool = ThreadPoolExecutor(min(CALLERS, len(texts)), thread_name_prefix="embed")
        try:
            return list(pool.map(self.embed, texts))
        finally:
            pool.shutdown(cancel_futures=True)
