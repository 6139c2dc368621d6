"""Amazon S3 Vectors and Bedrock's embeddings on loopback: the documented behaviour, with its limits and errors.

It replaces a service that no test has: an answer has the shape that the documentation and botocore's model give it,
and an embedding is made of words alone, so that texts are near if they share some.

Source: Amazon S3 API Reference, "Amazon S3 Vectors"; Amazon S3 User Guide, "Limitations and restrictions" and "Metadata
filtering"; Amazon Bedrock User Guide, "Amazon Titan Embeddings Text".
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote

import pytest

from stepline.adapters.aws.client import session

BUCKET: Final = "arn:aws:s3vectors:us-east-1:111122223333:bucket/memory"
MODEL: Final = "amazon.titan-embed-text-v2:0"
PAYLOAD_MAX_BYTES: Final = 20 * 1024 * 1024
NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
STATUSES: Final = {
    "AccessDeniedException": 403,
    "ConflictException": 409,
    "ModelErrorException": 424,
    "NotFoundException": 404,
    "ServiceUnavailableException": 503,
    "ThrottlingException": 429,
    "TooManyRequestsException": 429,
}
COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": lambda found, wanted: wanted in found if isinstance(found, list) else found == wanted,
    "$in": lambda found, wanted: found in wanted,
    "$gte": lambda found, wanted: found >= wanted,
    "$lt": lambda found, wanted: found < wanted,
}
"""The operators that we use; the service knows more."""


class Refusal(Exception):  # noqa: N818 - the service's answer
    def __init__(self, code: str, message: str = "…") -> None:
        super().__init__(message)
        self.code = code


class VectorService:
    """The indexes of one vector bucket, every request, and the next refusals."""

    def __init__(self) -> None:
        self.indexes: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.heeds_filters = True
        self.embedding: Callable[[str, int], list[float]] = embed_words
        self._refusals: dict[str, list[str]] = defaultdict(list)
        self._lock = threading.Lock()
        self.before: dict[str, Callable[[], None]] = {}

    def refuse(self, operation: str, *codes: str) -> None:
        """Answer the next requests of this operation with these codes, then as usual."""
        self._refusals[operation] += codes

    def answer(self, operation: str, asked: dict[str, Any], length: int) -> dict[str, Any]:
        if hook := self.before.pop(operation, None):
            hook()
        with self._lock:
            self.asked[operation].append(asked)
            if length > PAYLOAD_MAX_BYTES:
                raise Refusal("ValidationException")
            if self._refusals[operation]:
                raise Refusal(self._refusals[operation].pop(0))
            return self.HANDLERS[operation](self, asked)

    def vectors(self) -> dict[str, dict[str, Any]]:
        """Every vector of every index, by its key."""
        return {key: one for index in self.indexes.values() for key, one in index["vectors"].items()}

    def _create(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["vectorBucketArn"] != BUCKET:
            raise Refusal("NotFoundException")
        if not NAME.fullmatch(asked["indexName"]) or not 1 <= asked["dimension"] <= 4096:
            raise Refusal("ValidationException")
        plain = asked.get("metadataConfiguration", {}).get("nonFilterableMetadataKeys", [])
        if len(plain) > 10:
            raise Refusal("ValidationException")
        arn = f"{BUCKET}/index/{asked['indexName']}"
        if arn in self.indexes:
            raise Refusal("ConflictException")
        self.indexes[arn] = {**asked, "plain": set(plain), "vectors": {}}
        return {"indexArn": arn}

    def _put(self, asked: dict[str, Any]) -> dict[str, Any]:
        index = self._index(asked)
        keys = [vector["key"] for vector in asked["vectors"]]
        if not 1 <= len(keys) <= 500 or len(set(keys)) < len(keys):
            raise Refusal("ValidationException")
        for vector in asked["vectors"]:
            check_vector(index, vector)
        index["vectors"] |= {vector["key"]: vector for vector in asked["vectors"]}
        return {}

    def _query(self, asked: dict[str, Any]) -> dict[str, Any]:
        index = self._index(asked)
        wanted = asked["queryVector"]["float32"]
        if not 1 <= asked["topK"] <= 100 or len(wanted) != index["dimension"]:
            raise Refusal("ValidationException")
        found = [
            {
                "key": key,
                "distance": single(1 - cosine(wanted, one["data"]["float32"])),
                "metadata": one["metadata"],
            }
            for key, one in index["vectors"].items()
            if matches(index, one["metadata"], asked.get("filter", {"$and": []})) or not self.heeds_filters
        ]
        found.sort(key=lambda one: (one["distance"], one["key"]))
        left = {"key"}
        left |= {"distance"} if asked.get("returnDistance") else set()
        left |= {"metadata"} if asked.get("returnMetadata") else set()
        nearest = [{name: one[name] for name in left} for one in found[: asked["topK"]]]
        return {"vectors": nearest, "distanceMetric": index["distanceMetric"]}

    def _list(self, asked: dict[str, Any]) -> dict[str, Any]:
        """List vectors by key; a page has the requested number, and its token is the last key."""
        most = asked.get("maxResults", 500)
        if not 1 <= most <= 1000:
            raise Refusal("ValidationException")
        found = sorted(self._index(asked)["vectors"].items())
        rest = [(key, one) for key, one in found if key > asked.get("nextToken", "")]
        metadata = {"metadata"} if asked.get("returnMetadata") else set()
        page = [{"key": key, **{name: one[name] for name in metadata}} for key, one in rest[:most]]
        return {"vectors": page, **({"nextToken": page[-1]["key"]} if len(rest) > most else {})}

    def _delete(self, asked: dict[str, Any]) -> dict[str, Any]:
        index = self._index(asked)
        if not 1 <= len(asked["keys"]) <= 500:
            raise Refusal("ValidationException")
        for key in asked["keys"]:
            index["vectors"].pop(key, None)
        return {}

    def _index(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["indexArn"] not in self.indexes:
            raise Refusal("NotFoundException")
        return self.indexes[asked["indexArn"]]

    def _embed(self, asked: dict[str, Any]) -> dict[str, Any]:
        text, size = asked["inputText"], asked.get("dimensions", 1024)
        if asked["model"] != MODEL or not 0 < len(text) <= 50_000 or size not in (256, 512, 1024):
            raise Refusal("ValidationException")
        vector = self.embedding(text, size)
        return {
            "embedding": vector,
            "inputTextTokenCount": len(text.split()),
            "embeddingsByType": {"float": vector},
        }

    HANDLERS: Final = {
        "CreateIndex": _create,
        "PutVectors": _put,
        "QueryVectors": _query,
        "ListVectors": _list,
        "DeleteVectors": _delete,
        "InvokeModel": _embed,
    }


def check_vector(index: dict[str, Any], vector: dict[str, Any]) -> None:
    metadata = vector.get("metadata", {})
    filtered = {name: value for name, value in metadata.items() if name not in index["plain"]}
    if (
        len(vector["data"]["float32"]) != index["dimension"]
        or len(vector["key"]) > 1024
        or len(metadata) > 50
        or size_of(filtered) > 2 * 1024
        or size_of(metadata) > 40 * 1024
        or not all(isinstance(value, str | int | float | bool | list) for value in metadata.values())
    ):
        raise Refusal("ValidationException")


def size_of(metadata: dict[str, Any]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False).encode())


def matches(index: dict[str, Any], metadata: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Judge a filter; one by a key that is declared unfilterable is refused, as the service does."""
    if "$and" in wanted:
        return all(matches(index, metadata, one) for one in wanted["$and"])
    ((name, conditions),) = wanted.items()
    if name in index["plain"]:
        raise Refusal("ValidationException")
    return all(
        name in metadata and COMPARED[operator](metadata[name], value)
        for operator, value in conditions.items()
    )


def embed_words(text: str, size: int) -> list[float]:
    """Return a vector of length 1 with a dimension for each word."""
    counts = Counter(
        int(hashlib.sha256(word.encode()).hexdigest(), 16) % size
        for word in re.findall(r"\w+", text.casefold())
    )
    length = math.sqrt(sum(count * count for count in counts.values()))
    return [counts[place] / length for place in range(size)]


def cosine(one: list[float], other: list[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))


def single(number: float) -> float:
    """Return the nearest number of 32 bits, which is what the service answers."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


class _Handler(BaseHTTPRequestHandler):
    service: VectorService

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked = json.loads(self.rfile.read(length))
        operation = self.path.strip("/")
        if found := re.fullmatch(r"/model/([^/]+)/invoke", self.path):
            operation, asked["model"] = "InvokeModel", unquote(found[1])
        assert self.headers["Authorization"].startswith("AWS4-HMAC-SHA256")
        try:
            self._send(200, self.service.answer(operation, asked, length))
        except Refusal as refusal:
            self._send(STATUSES.get(refusal.code, 400), {"message": str(refusal)}, refusal.code)

    def _send(self, status: int, body: dict[str, Any], code: str = "") -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if code:
            self.send_header("x-amzn-ErrorType", code)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def vector_service() -> Iterator[VectorService]:
    """Let this process's clients of both services reach a fake one."""
    service = VectorService()
    handler = type("Handler", (_Handler,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3VECTORS", url)
        patch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", url)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "fake")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "fake")
        session.cache_clear()
        yield service
    session.cache_clear()
    server.shutdown()
    thread.join()
    server.server_close()
