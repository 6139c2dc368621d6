"""A search of the index: any words, weighted by their position; a query has no syntax."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline import Knowledge
from stepline.bundle.knowledge_index import EXCERPT_CHARS, match_any, query_words
from stepline.local.knowledge.build_index import build_index

FILLER = "Nothing of note is said here, at some length. " * 5


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("space")
    (folder / "deep").mkdir()
    for name, text in {
        "title.md": f"---\ntitle: Heron\n---\n# Zero\n\n{FILLER}\n",
        "summary.md": f"---\nsummary: About a heron.\n---\n# One\n\n{FILLER}\n",
        "heading.md": f"# Two\n\n{FILLER}\n\n## Heron\n\n{FILLER}\n",
        "body.md": f"# Three\n\n{FILLER}{FILLER}{FILLER}\nA heron.\n",
        "deep/none.md": "# Four\n\nCaf\u00e9 au lait, and foo_bar.\n",
        "deeper.md": "# Five\n\nCaf\u00e9.\n",
    }.items():
        (folder / name).write_text(text)
    build_index(folder, lambda _: None)
    return Knowledge(folder)


def paths(rows):
    return [row["path"] for row in rows]


def test_a_word_in_a_title_counts_most(shelf):
    assert paths(shelf.search("heron")) == [
        f"ks:docs/{name}.md" for name in ("title", "heading", "summary", "body")
    ]


def test_any_word_finds_and_a_longer_one_finds_what_begins_with_it(shelf):
    assert "ks:docs/title.md" in paths(shelf.search("a xylophone of herons or hero"))
    assert not shelf.search("he")
    assert not shelf.search("xylophone")


def test_case_and_accents_do_not_matter(shelf):
    assert paths(shelf.search("CAFE")) == paths(shelf.search("caf\u00e9"))
    assert len(shelf.search("cafe")) == 2


def test_a_root_is_a_whole_folder_or_a_document(shelf):
    assert paths(shelf.search("cafe", root="ks:docs/deep")) == ["ks:docs/deep/none.md"]
    assert paths(shelf.search("cafe", root="ks:docs/deep/")) == ["ks:docs/deep/none.md"]
    assert paths(shelf.search("cafe", root="ks:docs/deeper.md")) == ["ks:docs/deeper.md"]


def test_a_limit_is_kept_and_a_document_is_found_once(shelf):
    assert len(shelf.search("nothing", limit=2)) == 2
    assert len(set(paths(shelf.search("nothing", limit=100)))) == 4


def test_an_excerpt_begins_at_the_words_and_is_limited(shelf):
    rows = {row["path"]: row for row in shelf.search("heron")}
    assert rows["ks:docs/body.md"]["excerpt"].startswith("A heron.")
    assert rows["ks:docs/body.md"]["line"] == 4
    assert all(len(row["excerpt"]) <= EXCERPT_CHARS for row in rows.values())


@pytest.mark.parametrize(
    "query", ['"', "*", "a OR", "NEAR(", "title:heron", "-heron", "^", "{a} : b", "\0", "' --"]
)
def test_a_query_has_no_syntax(shelf, query):
    assert isinstance(shelf.search(query), list)


@given(st.text(max_size=60))
def test_any_text_is_a_query(shelf, text):
    shelf.search(text)
    assert len(query_words(text)) <= 40


def test_a_query_is_words_in_quotes():
    assert match_any(query_words("A foo_bar, foo_bar AND x")) == '"a" OR "foo_bar"* OR "and"* OR "x"'
    assert query_words(" ?! ") == []


def test_a_function_that_does_not_search_loads_nothing_of_it():
    code = (
        "import sys; from pathlib import Path; from stepline import Knowledge; Knowledge(Path('.'));"
        "sys.exit('sqlite3' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_of_any_name_may_hold_an_index(tmp_path):
    folder = tmp_path / "with blank % and #?"
    folder.mkdir()
    (folder / "a.md").write_text("# Heron\n")
    build_index(folder, lambda _: None)
    assert paths(Knowledge(folder).search("heron")) == ["ks:docs/a.md"]
