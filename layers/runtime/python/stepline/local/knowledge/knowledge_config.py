"""`knowledge.yaml`: the location of a bundle's documents, and the folders of it that are indexed.

Source: docs/how-to/knowledge.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import yaml

from stepline.errors import InputError, PathError
from stepline.local.safe_text import without_credentials
from stepline.model.base import Value
from stepline.model.traversal import check_relative

KNOWLEDGE_FILE: Final = "knowledge.yaml"
INVALID: Final = "knowledge_config_invalid"
KINDS: Final = ("docs", "src", "deploy", "tests")
"""Kinds of documents; each is the first folder of its paths, as in `ks:docs/…`."""

Roots: TypeAlias = str | tuple[str, ...]


class KnowledgeConfig(Value, forbid_unknown_fields=True):
    """The fields of `knowledge.yaml`.

    `repo` is a folder next to the file, a git repository there, or the address of one; empty means the folder of the
    file. With `ref`, a branch, a tag or a commit, the files are read from git. A root is a folder or a file in it, or
    several.
    """

    repo: str = ""
    ref: str = ""
    docs_root: Roots = ()
    src_root: Roots = ()
    deploy_root: Roots = ()
    tests_root: Roots = ()
    validate_refs: bool = True

    @property
    def roots(self) -> tuple[tuple[str, str], ...]:
        """Every root with its kind. Without any root, everything is documentation."""
        given = (self.docs_root, self.src_root, self.deploy_root, self.tests_root)
        named = [
            (kind, root)
            for kind, roots in zip(KINDS, given, strict=True)
            for root in ([roots] if isinstance(roots, str) else roots)
            if root
        ]
        return tuple(named) or (("docs", "."),)


def read_config(folder: Path) -> KnowledgeConfig:
    """Return the configuration of a folder, or the defaults. Raises InputError `knowledge_config_invalid`."""
    try:
        written = yaml.safe_load((folder / KNOWLEDGE_FILE).read_text(encoding="utf-8")) or {}
        config = msgspec.convert(written, KnowledgeConfig)
        for _, root in config.roots:
            _ = root == "." or check_relative(root)
    except FileNotFoundError:
        return KnowledgeConfig()
    except (yaml.YAMLError, PathError, ValueError, RecursionError) as error:  # includes msgspec's errors
        raise InputError(f"{folder / KNOWLEDGE_FILE}: {_say(error)}", code=INVALID) from error
    return config


def _say(error: Exception) -> str:
    """Return an error without the excerpt that YAML appends, which may begin in the middle of an address."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return without_credentials(str(error))
