"""Check the references of documents: names of files in backticks that do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from stepline.local.knowledge.knowledge_config import KINDS, KnowledgeConfig
from stepline.local.knowledge.scan_document import Document

FOLDERS: Final = (*KINDS, "deployment", "ui")
"""First folders of what is taken for a reference, beside the roots."""

_QUOTED: Final = re.compile(r"`([^`\s]{1,300})`")
_PLACEHOLDER: Final = re.compile(r"[<>*{}…$?]|\.\.\.")
_LINE: Final = re.compile(r":\d+(?:-\d+)?$")


class Missing(NamedTuple):
    """A reference to nothing, and the document that has it."""

    path: str
    reference: str


def check_references(
    documents: Iterable[Document],
    config: KnowledgeConfig,
    known: Collection[str],
    has: Callable[[str], bool],
) -> tuple[int, list[Missing]]:
    """Return the number of references in Markdown, and those that lead to nothing.

    A reference is the path of a file or folder in the source, or of a document (`known`) without its `ks:`.
    """
    folders = {f"{name}/" for name in FOLDERS} | {f"{root}/" for _, root in config.roots if root != "."}
    first = tuple(sorted(folders))
    total = 0
    missing: list[Missing] = []
    for document in documents:
        if not document.is_markdown:
            continue
        for reference in dict.fromkeys(_QUOTED.findall(document.text)):
            path = strip_reference(reference)
            if not path.startswith(first) or _PLACEHOLDER.search(path):
                continue
            total += 1
            if not (f"ks:{path}" in known or has(path) or _is_folder(path, known)):
                missing.append(Missing(document.path, reference))
    return total, missing


def strip_reference(reference: str) -> str:
    """Return the path in a reference, without what it names in the file: `#L10`, `::test`, `:123`."""
    path = reference.removeprefix("ks:").partition("#")[0].partition("::")[0]
    return _LINE.sub("", path).rstrip("/.,;:")


def _is_folder(path: str, known: Collection[str]) -> bool:
    return any(one.startswith(f"ks:{path}/") for one in known)
