"""A memory index in Amazon S3 Vectors: one vector index per project of a tenant, created with its first row.

Each row is one vector. The fields that a search filters by are filterable metadata, which queries are billed for; the
row itself is one non-filterable text. According to AWS, writes are strongly consistent, so a search misses no rows.

Source: Amazon S3 User Guide, "Limitations and restrictions", "Vector indexes" and "Metadata filtering" of S3 Vectors;
"Amazon Titan Embeddings Text"; Bedrock API Reference, "InvokeModel".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import INDEX_ABSENT, INDEX_EXISTS, mapped, tolerated
from stepline.errors import DependencyError, ToolError
from stepline.metering.ledger import Ledger
from stepline.model.memory_row import MEMORY_TEXT_CHARS, MemoryRow, MemoryScope
from stepline.ports.memory_index import Forgotten, MemoryHit, MemoryHits, MemoryQuery

DIMENSIONS: Final = 512
"""Of 256, 512 and 1,024: 99 percent of the accuracy of 1,024 (AWS News Blog, "Amazon Titan Text V2") at half the bytes."""
ATTEMPTS: Final = 5
"""Bedrock limits an embedding model by calls per minute, and the end of a turn makes several at once."""
CALLERS: Final = 8
"""Texts embedded at once, one call each; fewer than the connections that a client keeps open."""


class _Embedded(msgspec.Struct):
    embedding: list[float]


_EMBEDDED: Final = msgspec.json.Decoder(_Embedded)


class BedrockEmbedding:
    """One model; vectors have length 1, so that their product is the cosine."""

    def __init__(self, model: str, *, ledger: Ledger | None = None) -> None:
        """Use `model`, by its id on Bedrock; with a `ledger`, calls are counted there."""
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
        """Return the vectors in the order of the texts. Raises DependencyError if a text has none."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only the end of a turn embeds several

        self.client  # noqa: B018 - created once, before the threads use it
        pool = ThreadPoolExecutor(min(CALLERS, len(texts)), thread_name_prefix="embed")
        try:
            return list(pool.map(self.embed, texts))
        finally:
            pool.shutdown(cancel_futures=True)


ROWS_PER_PUT: Final = 250
"""Half the maximum of a put: 500 of the largest rows would exceed its 20 MiB."""
VECTORS_PER_LIST: Final = 500
"""The maximum that one request deletes."""
TOP_K_MAX: Final = 100
SPARE: Final = 2
"""Requested rows per wanted row: the nearest rows are approximate, and equal ones must be sorted."""
COVERS_MAX: Final = 500
"""The number of newest turns kept of a range summary; with its text they fit into the 40 KB of a vector's metadata."""
ROW: Final = "row"
_ROW: Final = msgspec.json.Decoder(MemoryRow)
_WORD: Final = re.compile(r"\w")


class S3VectorsMemoryIndex:
    """Rows of many users in one index; each query filters by the user, and each answer is checked."""

    reads_logs = False

    def __init__(self, bucket_arn: str, model: str, *, ledger: Ledger | None = None) -> None:
        """Keep indexes in this vector bucket; `model` makes the vectors, and another model needs other indexes.

        With a `ledger`, searches and embeddings are counted there.
        """
        self._ledger = ledger
        self._bucket_arn = bucket_arn
        self._model = model
        self._embedding = BedrockEmbedding(model, ledger=ledger)

    @cached_property
    def client(self) -> Any:
        """The client, created on first use."""
        return connect("s3vectors", read_timeout_s=5, ledger=self._ledger)

    def add(self, scope: MemoryScope, rows: Sequence[MemoryRow]) -> None:
        """Add rows, in several puts if needed; a row without words could not be found and is skipped."""
        latest = {_key(scope, row): row for row in rows if _WORD.search(row.text)}
        for keys in _batches(list(latest)):
            vectors = self._embedding.embed_all([latest[key].text for key in keys])
            self._put(
                self._name(scope),
                [
                    {"key": key, "data": {"float32": vector}, "metadata": _metadata(scope, latest[key])}
                    for key, vector in zip(keys, vectors, strict=True)
                ],
            )

    def _put(self, index: str, vectors: list[dict[str, Any]]) -> None:
        """Put vectors, into a new index if there is none. Another process may create it at the same time."""
        put = {"indexArn": self._arn(index), "vectors": vectors}
        with mapped(), tolerated(INDEX_ABSENT):
            self.client.put_vectors(**put)
            return
        with mapped(), tolerated(INDEX_EXISTS):
            self.client.create_index(
                vectorBucketArn=self._bucket_arn,
                indexName=index,
                dataType="float32",
                dimension=DIMENSIONS,
                distanceMetric="cosine",
                metadataConfiguration={"nonFilterableMetadataKeys": [ROW]},
            )
        with mapped(), tolerated(INDEX_ABSENT):
            self.client.put_vectors(**put)
            return
        raise DependencyError("an index of memory that was just made is not there yet")

    def search(self, query: MemoryQuery) -> MemoryHits:
        text = (
            query.text[:MEMORY_TEXT_CHARS].encode(errors="replace").decode()
        )  # half a surrogate pair cannot be encoded as JSON
        if not _WORD.search(text) or query.limit < 1:
            return MemoryHits()
        asked = {
            "indexArn": self._arn(self._name(query.scope)),
            "queryVector": {"float32": self._embedding.embed(text)},
            "topK": min(query.limit * SPARE, TOP_K_MAX),
            "filter": _filter(query),
            "returnMetadata": True,
            "returnDistance": True,
        }
        answer: dict[str, Any] = {"vectors": []}
        with mapped(), tolerated(INDEX_ABSENT):
            answer = self.client.query_vectors(**asked)
        user = _user(query.scope)
        hits = [_hit(found) for found in answer["vectors"] if found["metadata"]["user"] == user]
        hits.sort(key=lambda hit: (-hit.score, hit.row.conversation, -hit.row.n, hit.row.path, hit.row.part))
        return MemoryHits(hits=tuple(hits[: query.limit]))

    def forget(self, scope: MemoryScope, conversation: str) -> Forgotten:
        """Delete the vectors of a conversation. This lists the whole index, because queries are approximate."""
        user, index = _user(scope), self._arn(self._name(scope))
        asked: dict[str, Any] = {"indexArn": index, "returnMetadata": True, "maxResults": VECTORS_PER_LIST}
        removed = 0
        with mapped(), tolerated(INDEX_ABSENT):
            while True:
                page = self.client.list_vectors(**asked)
                keys = [
                    found["key"]
                    for found in page["vectors"]
                    if (found["metadata"]["user"], found["metadata"]["conversation"]) == (user, conversation)
                ]
                if keys:
                    self.client.delete_vectors(indexArn=index, keys=keys)
                    removed += len(keys)
                if not page.get("nextToken"):
                    break
                asked["nextToken"] = page["nextToken"]
        return Forgotten(rows=removed)

    def _name(self, scope: MemoryScope) -> str:
        """Return the index's name: a hash, because index names allow no capital letters and no underscores."""
        return f"memory-{_hash(scope.tenant, scope.project, self._model, str(DIMENSIONS))}"

    def _arn(self, index: str) -> str:
        return f"{self._bucket_arn}/index/{index}"


def _batches(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), ROWS_PER_PUT):
        yield keys[start : start + ROWS_PER_PUT]


def _key(scope: MemoryScope, row: MemoryRow) -> str:
    """Return the vector's key: adding the same row of the same user again replaces it."""
    return _hash(scope.tenant, scope.project, scope.user, row.conversation, row.path, str(row.part))


def _user(scope: MemoryScope) -> str:
    """Return the user's hash for the metadata, which holds no name."""
    return _hash(scope.tenant, scope.project, scope.user)


def _hash(*parts: str) -> str:
    """Return 40 hex digits; JSON keeps the parts apart."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:40]


def _metadata(scope: MemoryScope, row: MemoryRow) -> dict[str, Any]:
    kept = replace(row, covers=row.covers[-COVERS_MAX:])
    return {
        "user": _user(scope),
        "conversation": row.conversation,
        "kind": row.kind,
        "at": _epoch_s(row.at),
        ROW: msgspec.json.encode(kept).decode(),
    }


def _filter(query: MemoryQuery) -> dict[str, Any]:
    wanted: list[dict[str, Any]] = [{"user": {"$eq": _user(query.scope)}}]
    if query.conversation:
        wanted.append({"conversation": {"$eq": query.conversation}})
    if query.kinds:
        wanted.append({"kind": {"$in": list(query.kinds)}})
    if query.since:
        wanted.append({"at": {"$gte": _epoch_s(query.since)}})
    if query.before:
        wanted.append({"at": {"$lt": _epoch_s(query.before)}})
    return {"$and": wanted}


def _epoch_s(at: str) -> float:
    """Return a time in seconds, because metadata has no type for times. Raises ToolError `bad_params`."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError as error:
        raise ToolError("a time is not ISO-8601", code="bad_params") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _hit(found: dict[str, Any]) -> MemoryHit:
    similarity = max(
        -1.0, min(1.0, 1.0 - found["distance"])
    )  # a 32-bit distance may slightly exceed the range
    return MemoryHit(row=_ROW.decode(found["metadata"][ROW]), score=similarity, similarity=similarity)
