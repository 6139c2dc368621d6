"""A bundle's knowledge space: documents and their index in one file, searched and read where the bundle runs.

`stepline knowledge build` writes the file next to the bundle's code: `.knowledge/<signature>.sqlite`, which never
changes, and `.knowledge/current`, the pointer that names it. The package carries both to every deployment, and a
search opens the file read-only. Nothing is loaded before the first search or read.

The index is SQLite's FTS5, whose words are compared without case and accents; a query is quoted word by word, so that
nothing in it acts as syntax. Source: sqlite.org, "SQLite FTS5 Extension", sections 3 (query syntax) and 5.1 (bm25).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepline.errors import ToolError
from stepline.model.visible_text import shorten_line

if TYPE_CHECKING:
    from sqlite3 import Connection, Row

FOLDER: Final = ".knowledge"
POINTER: Final = "current"
NOT_BUILT: Final = "knowledge_not_built"

COLUMN_WEIGHTS: Final = {
    "path": 1.0,
    "title": 8.0,
    "summary": 4.0,
    "headings": 2.5,
    "excerpt": 2.0,
    "body": 1.2,
    "tags": 1.8,
    "keywords": 2.0,
    "see_also": 1.0,
}
"""The columns of the index, in order, with the weight of a word in each."""

SCHEMA: Final = f"""
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE document (
  id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, title TEXT NOT NULL, summary TEXT NOT NULL, kind TEXT NOT NULL,
  mime TEXT NOT NULL, tags TEXT NOT NULL, keywords TEXT NOT NULL, see_also TEXT NOT NULL, text TEXT NOT NULL
);
CREATE TABLE section (
  id INTEGER PRIMARY KEY, document INTEGER NOT NULL, heading TEXT NOT NULL, line INTEGER NOT NULL,
  start INTEGER NOT NULL, chars INTEGER NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5({", ".join(COLUMN_WEIGHTS)}, content='', tokenize='unicode61');
"""

LIMIT_MAX: Final = 100
WORDS_MAX: Final = 40
PREFIX_CHARS: Final = 3
EXCERPT_CHARS: Final = 420
SECTIONS_MAX: Final = 400
_WORD: Final = re.compile(r"\w+")
_FIND: Final = f"""
SELECT d.id, d.path, d.title, d.summary, d.kind, d.tags, d.keywords, d.see_also, s.heading, s.line, s.start, s.chars,
       -bm25(words, {", ".join(map(str, COLUMN_WEIGHTS.values()))}) AS score
FROM words JOIN section AS s ON s.id = words.rowid JOIN document AS d ON d.id = s.document
WHERE words MATCH :query AND (:root = '' OR d.path = :root OR substr(d.path, 1, length(:root) + 1) = :root || '/')
ORDER BY score DESC, s.id LIMIT {SECTIONS_MAX}
"""  # noqa: S608 - our own numbers
_TEXT: Final = "SELECT substr(text, ? + 1, ?) FROM document WHERE id = ?"


class Knowledge:
    """The documents of a bundle: `knowledge = Knowledge(Path(__file__).parent)` on its workflow.

    `folder` is the argument of `stepline knowledge build`. `requests` are questions that the documents answer; clients may
    offer them to users.
    """

    def __init__(self, folder: Path, *, requests: Iterable[str] = ()) -> None:
        """Store the location of the index; nothing is opened."""
        self.folder = folder
        self.requests = tuple(requests)

    def search(self, query: str, limit: int = 5, root: str = "") -> list[dict[str, Any]]:
        """Return documents that have any word of the query, best first, each with its best section.

        `root` is a path (`ks:docs`) above the documents. Raises ToolError `knowledge_not_built`.
        """
        terms = query_words(query)
        if not terms:
            return []
        with self._open() as index:
            best: dict[str, Row] = {}
            for row in index.execute(_FIND, {"query": match_any(terms), "root": root.rstrip("/")}):
                best.setdefault(row["path"], row)
            rows = list(best.values())[: max(1, min(limit, LIMIT_MAX))]
            return [_hit(row, _section(index, row), terms) for row in rows]

    def read(self, path: str) -> dict[str, Any] | None:
        """Return the whole document at a path, None if there is none. Raises ToolError `knowledge_not_built`."""
        with self._open() as index:
            row = index.execute("SELECT text, mime FROM document WHERE path = ?", (path,)).fetchone()
        return {"text": row["text"], "mime": row["mime"]} if row else None

    def check(self) -> None:
        """Raise ToolError `knowledge_not_built` if there is no index."""
        self._file()

    @contextmanager
    def _open(self) -> Iterator[Connection]:
        # 10 ms, and a function that does not search need not wait for them.
        import sqlite3  # noqa: PLC0415 - see above

        file = self._file()
        # Immutable: SQLite looks for neither locks nor a journal, in a folder that is read-only.
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as index:
            index.row_factory = sqlite3.Row
            yield index

    def _file(self) -> Path:
        home = self.folder.resolve() / FOLDER
        try:
            file = home / (home / POINTER).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            file = home / "none"
        if not file.is_file():
            raise ToolError(
                "the documents of this bundle have no index: `stepline knowledge build` makes it, with the bundle's folder",
                code=NOT_BUILT,
            )
        return file


def query_words(query: str) -> list[str]:
    """Return the words of a query, each once, in lower case."""
    return list(dict.fromkeys(_WORD.findall(query.lower())))[:WORDS_MAX]


def match_any(terms: list[str]) -> str:
    """Return the FTS5 expression for texts with any of the words; longer ones match words that begin with them."""
    return " OR ".join(f'"{term}"*' if len(term) >= PREFIX_CHARS else f'"{term}"' for term in terms)


def _section(index: Connection, row: Row) -> str:
    (text,) = index.execute(_TEXT, (row["start"], row["chars"], row["id"])).fetchone()
    return str(text)


def _hit(row: Row, section: str, terms: list[str]) -> dict[str, Any]:
    """Return the row of a search for a document, by its best section."""
    lists = {name: json.loads(row[name]) for name in ("tags", "keywords", "see_also")}
    line, excerpt = _excerpt(section, terms)
    return {
        **{name: row[name] for name in ("path", "title", "summary", "kind", "heading", "score")},
        **{name: values for name, values in lists.items() if values},
        "line": row["line"] + line,
        "excerpt": excerpt,
    }


def _excerpt(text: str, terms: list[str]) -> tuple[int, str]:
    """Return the best excerpt of a section: the number of the line with the most words of the query, and the text from there."""
    lines = text.split("\n")
    wanted = [term for term in terms if len(term) >= PREFIX_CHARS]
    known = [{term for term in wanted if term in row.lower()} for row in lines]
    start = max(range(len(lines)), key=lambda at: (len(known[at]), -at))
    return start, shorten_line("\n".join(lines[start:])[: EXCERPT_CHARS * 4], EXCERPT_CHARS)
