"""The blocks of docs/how-to/write-a-bundle.md: files of the package, by the path in their first line, and what is run."""

import re

from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/write-a-bundle.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"# (bundles/\S+\.py)\n")


def blocks(language):
    return [text for kind, text in _BLOCK.findall(PAGE.read_text()) if kind == language]


def files():
    """Return the package's files, by path."""
    return {found[1]: text for text in blocks("python") if (found := _PATH.match(text))}


def steps():
    """Return the blocks that are run, in their order."""
    return [text for text in blocks("python") if not _PATH.match(text)]


def write_files(folder):
    """Write the package as the page has it."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
