"""Static embeddings: the mean of a text's token vectors, from weights that a package ships.

The weights and the tokenizer are files of `wordllama`: 32,000 vectors of 256 half floats, as plain safetensors. The
package is not imported, and nothing is downloaded. Source: pypi.org/project/wordllama; docs/adr/0003-dependencies.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMENSIONS: Final = 256
PACKAGE: Final = "wordllama"
WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_HEADER_BYTES: Final = 8


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return a vector of length 1 for each text, or zeros for a text without tokens."""
    made = np.zeros((len(texts), DIMENSIONS), np.float32)
    if not texts:
        return made
    tokenizer, weights = _model()
    clean = [text.encode(errors="replace").decode() for text in texts]
    for at, found in enumerate(tokenizer.encode_batch_fast(clean, add_special_tokens=False)):
        if found.ids:
            made[at] = weights[found.ids].sum(axis=0, dtype=np.float32)
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)
    return made


@cache
def _model() -> tuple[Any, NDArray[np.float16]]:
    """Return the tokenizer and the vectors of its tokens; the vectors are mapped, not read."""
    found = find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    from tokenizers import Tokenizer  # noqa: PLC0415 - loaded only by the first search

    folder = Path(found.origin).parent
    weights = folder / WEIGHTS
    with weights.open("rb") as file:
        header = int.from_bytes(file.read(_HEADER_BYTES), "little")
    vectors = np.memmap(weights, dtype=np.float16, mode="r", offset=_HEADER_BYTES + header)
    return Tokenizer.from_file(str(folder / TOKENIZER)), vectors.reshape(-1, DIMENSIONS)
