"""The index of a folder: built once per content, completely or not at all, and searched in place."""

import fcntl
import os
import threading

import pytest

from stepline.errors import InputError, ToolError
from stepline.local.knowledge import build_index as building
from stepline.local.knowledge.knowledge_source import FILE_MAX_BYTES

GUIDE = """\
    ---
    title: Delivery
    summary: How long it takes.
    tags: [shipping]
    keywords: parcel, courier
    see_also: [docs/refund.md]
    id: delivery
    ---
    # Delivery

    It takes three days.

    ## Islands

    An island waits a week longer, for the ferry sails on Mondays.
    """


def reason(space):
    with pytest.raises(InputError) as caught:
        space.build()
    return caught.value.reason


def files(space):
    return {path.name for path in (space.folder / ".knowledge").iterdir()}


def test_a_folder_without_a_configuration_is_all_documentation(space):
    space.write({"delivery.md": GUIDE, "deep/refund.md": "# Refund\n\nAsk first.\n"})
    built = space.build()
    assert (built.documents, built.sections, built.fresh) == (2, 3, True)
    assert space.paths("ferry") == ["ks:docs/delivery.md"]
    assert space.knowledge.read("ks:docs/deep/refund.md")["text"] == "# Refund\n\nAsk first.\n"
    assert space.knowledge.read("ks:docs/none.md") is None


def test_a_row_has_the_documents_summary_and_the_position_of_the_words(space):
    space.write({"delivery.md": GUIDE})
    space.build()
    (row,) = space.knowledge.search("how long to an island")
    assert row.pop("score") > 0
    assert row == {
        "path": "ks:docs/delivery.md",
        "title": "Delivery",
        "summary": "How long it takes.",
        "kind": "docs",
        "heading": "Delivery / Islands",
        "line": 15,
        "tags": ["shipping"],
        "keywords": ["parcel", "courier"],
        "see_also": ["docs/refund.md"],
        "excerpt": "An island waits a week longer, for the ferry sails on Mondays.",
    }


def test_an_unreadable_document_is_reported_by_name(space):
    space.write({"delivery.md": GUIDE})

    def said(line):
        if line == "reading 1 file":
            (space.folder / "delivery.md").unlink()

    with pytest.raises(InputError) as caught:
        building.build_index(space.folder, said)
    assert caught.value.reason == "knowledge_unreadable"
    assert "ks:docs/delivery.md" in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_listed_is_not_passed_over(space):
    space.write({"delivery.md": GUIDE, "closed/refund.md": GUIDE})
    (space.folder / "closed").chmod(0)
    assert reason(space) == "knowledge_unreadable"
    (space.folder / "closed").chmod(0o755)


def test_a_configuration_that_is_a_folder_cannot_be_read(space):
    space.write({"knowledge.yaml/a.md": GUIDE})
    assert reason(space) == "knowledge_unreadable"


def test_an_equal_index_is_not_built_again(space):
    space.write({"delivery.md": GUIDE})
    first = space.build()
    before = (space.folder / ".knowledge" / f"{first.signature}.sqlite").stat().st_ino
    again = space.build()
    assert (again.fresh, again.signature, again.sections) == (False, first.signature, first.sections)
    assert (space.folder / ".knowledge" / f"{first.signature}.sqlite").stat().st_ino == before


@pytest.mark.parametrize(
    "change",
    [{"delivery.md": "# Delivery\n"}, {"new.md": "# New\n"}, {"knowledge.yaml": "validate_refs: false"}],
)
def test_a_change_is_another_index_and_the_old_one_is_gone(space, change):
    space.write({"delivery.md": GUIDE})
    first = space.build()
    space.write(change)
    second = space.build()
    assert second.fresh
    assert files(space) == {"lock", "current", f"{second.signature}.sqlite"}
    assert second.signature != first.signature


def test_a_lost_index_is_built_again(space):
    space.write({"delivery.md": GUIDE})
    (space.folder / ".knowledge" / f"{space.build().signature}.sqlite").unlink()
    with pytest.raises(ToolError) as caught:
        space.knowledge.search("island")
    assert caught.value.reason == "knowledge_not_built"
    assert space.build().fresh
    assert space.paths("island")


def test_a_build_that_fails_leaves_the_index_before_it(space, monkeypatch):
    space.write({"delivery.md": GUIDE})
    space.build()
    space.write({"delivery.md": "# Changed\n"})
    monkeypatch.setitem(building.COLUMN_WEIGHTS, "no_such_column", 1.0)
    with pytest.raises(KeyError):
        space.build()
    monkeypatch.undo()
    assert space.paths("ferry") == ["ks:docs/delivery.md"]
    assert space.build().fresh
    assert space.paths("changed") == ["ks:docs/delivery.md"]


def test_the_folder_is_the_same_after_two_builds_of_one_content(space):
    space.write({"delivery.md": GUIDE})
    space.build()
    before = {path.name: path.read_bytes() for path in (space.folder / ".knowledge").iterdir()}
    assert before["lock"] == b""  # another process would leave another number
    space.build()
    assert {path.name: path.read_bytes() for path in (space.folder / ".knowledge").iterdir()} == before


def test_a_second_build_waits_for_the_first_and_says_so(space):
    space.write({"delivery.md": GUIDE, ".knowledge/lock": "4711"})
    waiting = threading.Event()

    def say(text):
        space.said.append(text)
        waiting.set()

    with (space.folder / ".knowledge/lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        builder = threading.Thread(target=building.build_index, args=(space.folder, say))
        builder.start()
        assert waiting.wait(30)
        assert space.said == ["waiting for another build (process 4711)"]
    builder.join(30)
    assert space.paths("ferry")


def test_every_root_has_the_paths_of_its_kind(space):
    space.write(
        {
            "knowledge.yaml": "{docs_root: [README.md, app/docs], src_root: app/src, deploy_root: infra, tests_root: tests}",
            "README.md": "# All\n",
            "app/docs/a.md": "# A\n",
            "app/docs/b.py": "print('no documentation')\n",
            "app/src/shop/price.py": '"""Prices of lamps."""\n\nEURO = 1\n',
            "infra/stack.yaml": "stack: lamps\n",
            "tests/test_price.py": "def test_lamps(): ...\n",
            "elsewhere/c.md": "# Lamps\n",
        }
    )
    assert space.build().left_out == 1
    assert set(space.paths("lamps")) == {
        "ks:src/shop/price.py",
        "ks:deploy/stack.yaml",
        "ks:tests/test_price.py",
    }
    assert set(space.paths("all a")) >= {"ks:README.md", "ks:docs/a.md"}
    (row,) = space.knowledge.search("lamps", root="ks:src")
    assert (row["title"], row["kind"], row["summary"]) == (
        "price.py",
        "src",
        '"""Prices of lamps.""" EURO = 1',
    )


def test_binary_large_hidden_and_key_files_are_left_out(space):
    space.write(
        {
            "knowledge.yaml": "src_root: src",
            "src/a.py": "lamp\n",
            "src/picture.bin": b"\x89PNG\xff lamp",
            "src/zero.txt": b"lamp\0",
            "src/large.txt": b"lamp " * FILE_MAX_BYTES,
            "src/empty.py": "",
            "src/.env": "lamp",
            "src/server.pem": "lamp",
            "src/__pycache__/a.txt": "lamp",
        }
    )
    (space.folder / "src/link.py").symlink_to(space.folder / "src/a.py")
    assert space.build().left_out == 4
    assert space.paths("lamp") == ["ks:src/a.py"]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ("docs_root: nowhere", "knowledge_root_missing"),
        ("docs_root: ../up", "knowledge_config_invalid"),
        ("docs_root: /etc", "knowledge_config_invalid"),
        ("docs_rot: docs", "knowledge_config_invalid"),
        ("[1", "knowledge_config_invalid"),
        ("docs_root: 2026-13-45", "knowledge_config_invalid"),
        ("[" * 3_000, "knowledge_config_invalid"),
        ("docs_root: 7", "knowledge_config_invalid"),
        ("docs_root: [a, b]", "knowledge_path_taken"),
        ("repo: ../nowhere", "repo_not_found"),
        ("repo: git@host.example:a/b.git", "repo_not_found"),
        ("repo: ssh://host.example/a", "repo_not_found"),
        ("ref: main", "repo_not_found"),
    ],
)
def test_a_configuration_that_cannot_be_built_is_refused_by_a_code(space, config, code):
    space.write({"knowledge.yaml": config, "a/x.md": "# A\n", "b/x.md": "# B\n"})
    assert reason(space) == code


def test_more_files_or_bytes_than_an_index_holds_are_refused(space, monkeypatch):
    space.write({"a.md": "# A\n", "b.md": "# B\n"})
    monkeypatch.setattr(building, "KNOWLEDGE_BYTES_MAX", 7)
    assert reason(space) == "knowledge_too_large"
    monkeypatch.undo()
    monkeypatch.setattr("stepline.local.knowledge.knowledge_source.FILES_MAX", 1)
    assert reason(space) == "knowledge_too_large"
