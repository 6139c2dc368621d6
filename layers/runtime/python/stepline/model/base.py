"""The base of every value."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


# Declared once here: type checkers treat every value as frozen, with keyword arguments.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An immutable value: equal by content, hashable where its fields are, JSON without its defaults.

    Unknown fields are ignored on reading, so that a function of the previous release can read what the next
    release wrote. The garbage collector skips values: they are frozen and built from their parts, so they
    cannot be part of a cycle, and a long log has tens of thousands of them. docs/adr/0003-dependencies.md
    compares them with pydantic.
    """


class Row(Value, array_like=True):
    """A value that JSON holds as an array of its fields, in order: for numbers in every batch.

    Fields are only ever appended, each with a default, and never change their meaning: for a shorter array of
    the previous release the defaults are used, and extra elements in a longer one of the next release are
    ignored.
    """
