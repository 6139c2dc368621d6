"""Blocks that the code of a bundle puts on the timeline: read strictly, and named so that putting them twice is once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.errors import InputError, PathError
from stepline.model.block import Block, Produced
from stepline.model.path import FilePath, TurnPath, parse_path
from stepline.tools.context import Resolver

BlockLike: TypeAlias = Produced | Mapping[str, Any]
"""A block, or a mapping with its fields: `text`, and `type`, `path`, `mime`, `body`, `author`, `meta` if they matter."""

TYPE: Final = "bundle.note"
AUTHOR: Final = "bundle"
OWN_NAME: Final = "system.message."
"""What a bundle's block of a turn may be called; the other names are the runtime's."""


def read_blocks(blocks: Iterable[BlockLike]) -> tuple[Produced, ...]:
    """Return the blocks. Raises InputError `bad_block` for a mapping that is none."""
    return tuple(_read(block) for block in blocks)


def place_blocks(blocks: Iterable[Produced], turn: str) -> tuple[Produced, ...]:
    """Return the blocks, each with a path in this turn; one without gets a name made of what it says.

    Raises InputError `bad_block` for a path that is not a file's of this turn, nor `ar:<turn>.system.message.<name>`.
    """
    return tuple(_placed(block, turn) for block in blocks)


def missing_blocks(blocks: Iterable[Produced], timeline: Resolver) -> tuple[Produced, ...]:
    """Return the blocks that do not stand at their paths already, as they are."""
    return tuple(
        block for block in blocks if not any(_same(block, there) for there in timeline.resolve(block.path))
    )


def _read(block: BlockLike) -> Produced:
    if isinstance(block, Produced):
        return block
    if unknown := sorted(block.keys() - set(Produced.__struct_fields__)):
        raise InputError(f"a block has no {', '.join(unknown)[:120]}", code="bad_block")
    try:
        return msgspec.convert({"type": TYPE, "author": AUTHOR, **block}, Produced)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(f"this is no block: {error}", code="bad_block") from error


def _placed(block: Produced, turn: str) -> Produced:
    if not block.path:
        digest = hashlib.sha256(f"{block.type}\0{block.text}".encode("utf-8", "surrogatepass")).hexdigest()[
            :12
        ]
        return replace(block, path=f"ar:{turn}.{OWN_NAME}bundle_{digest}")
    try:
        path = parse_path(block.path)
    except PathError as error:
        raise InputError(f"{block.path[:120]!r} is no path", code="bad_block") from error
    match path:
        case FilePath(turn=own) if own == turn:
            return replace(block, path=str(path))
        case TurnPath(turn=own, name=name) if own == turn and name.startswith(OWN_NAME):
            return replace(block, path=str(path))
        case _:
            raise InputError(f"{block.path[:120]} is not a bundle's to write in this turn", code="bad_block")


def _same(block: Produced, there: Block) -> bool:
    return (block.type, block.text, block.body) == (there.type, there.text, there.body)
