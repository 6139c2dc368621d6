"""The size of items and the units they use, by DynamoDB's rules.

Source: DynamoDB developer guide, "Item sizes and formats" and "Read and write operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WRITE_BYTES: Final = 1024
READ_BYTES: Final = 4096


def item_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return an item's size: names and texts in UTF-8, bytes unchanged, numbers by their digits."""
    return sum(len(name.encode()) + value_bytes(value) for name, value in item.items())


def value_bytes(value: Mapping[str, Any]) -> int:
    """Return the size of an attribute's value."""
    kind, content = next(iter(value.items()))
    match kind:
        case "S":
            size = len(content.encode("utf-8", "surrogatepass"))
        case "B":
            size = len(content)
        case "N":
            digits = content.lstrip("-").replace(".", "").strip("0")
            size = (len(digits) + 1) // 2 + 1 + content.startswith("-")
        case "BOOL" | "NULL":
            size = 1
        case "M":
            size = 3 + sum(1 + len(name.encode()) + value_bytes(one) for name, one in content.items())
        case "L":
            size = 3 + sum(1 + value_bytes(one) for one in content)
        case _:  # a set
            size = sum(value_bytes({kind[0]: one}) for one in content)
    return size


def write_units(size_bytes: int) -> int:
    """Return the units of one write, at least one."""
    return max(1, -(-size_bytes // WRITE_BYTES))


def read_units_x2(size_bytes: int, *, consistent: bool) -> int:
    """Return twice the units of one read, at least those of an absent item."""
    return max(1, -(-size_bytes // READ_BYTES)) * (2 if consistent else 1)
