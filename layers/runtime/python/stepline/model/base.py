"""The base of every value."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


# Told once here, type checkers know for every value that it is frozen and built by keyword.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An immutable value: equal by content, hashable where its fields are, JSON without its defaults.

    Unknown fields are ignored on reading, so that a function of the release before can read what the
    release after wrote. The garbage collector does not look at values: they are frozen and built from their
    parts, so they cannot be part of a cycle, and a long log has ten thousands of them. Measured against pydantic in docs/adr/0003-dependencies.md.
    """


class Row(Value, array_like=True):
    """A value that JSON holds as an array of its fields, in their order: numbers that stand in every batch.

    Fields are only ever appended, each with a default, and never renamed into another meaning: a shorter array
    of the release before then gets the defaults, and what a longer one of the release after has beyond ours is
    ignored.
    """
