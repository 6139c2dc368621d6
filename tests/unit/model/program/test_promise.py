"""A contract, read before it is checked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.program.promise import read_promises

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["filename", "filepath", "description", "x"]), inner)
    ),
)


@pytest.mark.parametrize(
    ("raw", "promises"),
    [
        (
            [{"filename": "a.csv", "description": "d", "more": 1}, 7],
            [{"filename": "a.csv", "description": "d"}],
        ),
        (
            [{"filepath": "a.csv", "visibility": "internal"}],
            [{"filename": "a.csv", "visibility": "internal"}],
        ),
        ([{"filename": "a", "filepath": "b"}], [{"filename": "a"}]),
        ([{"filename": 1}], [{}]),
        ('[{"filename": "a.csv"}]', [{"filename": "a.csv"}]),
        ("no json", []),
        ("[" * 100_000, []),
        (None, []),
        ({"filename": "a.csv"}, []),
    ],
)
def test_readable_promises_of_a_contract_are_kept(raw, promises):
    assert read_promises(raw) == promises


@given(VALUES)
def test_a_contract_reads_the_same_as_json_text(raw):
    promises = read_promises(raw)
    assert read_promises(json.dumps(raw)) == promises or isinstance(raw, str)
    assert all(isinstance(text, str) for promise in promises for text in promise.values())
