"""The files of both clients equal the behaviour of the Python client. Vitest runs them in web/tests/client."""

from __future__ import annotations

import json

import pytest

from tests.unit.local.client.client_vectors import CLIENT, FILES, render

BYTES_MAX = 1_000_000


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_vectors_is_what_the_client_does(name: str) -> None:
    written = (CLIENT / f"{name}.json").read_text(encoding="utf-8")
    assert written == render(FILES[name]()), "make docs"
    assert json.loads(written)


def test_the_files_of_vectors_are_small() -> None:
    assert sum(path.stat().st_size for path in CLIENT.iterdir()) < BYTES_MAX
