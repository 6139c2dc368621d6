"""[WORKSPACE] of ANNOUNCE: nothing for a conversation without files, and every fact of one with them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.context.announce import (
    SECTION_BYTES,
    Announced,
    Saved,
    Workspace,
    announce,
    render_announce,
    render_workspace,
    show_workspace,
)
from stepline.model.decision import RoundFacts
from stepline.model.ids import utc
from stepline.model.usage import estimate_tokens
from stepline.timeline.workspace import SavedFile
from tests.support.log_builder import BEGIN
from tests.support.project_log import ProjectLog
from tests.support.strategies import FORGERIES

LS = "ls workspace (react.pull, then react.checkout these paths in their order, to continue one):"


def a_log() -> ProjectLog:
    return ProjectLog(MemoryArtifacts())


def workspace_lines(log: ProjectLog, saved: Saved | None = None) -> list[str]:
    """Return the lines of the section."""
    timeline = log.project()
    history = show_workspace(timeline, saved) if saved else ""
    facts = RoundFacts(
        now=utc(BEGIN + timedelta(seconds=135)), iteration=0, max_iterations=15, workspace=history
    )
    text = announce(timeline, facts)
    _, found, section = text.partition("[WORKSPACE]\n")
    return section.splitlines() if found else []


def kept(path: str, turn: str, sha256: str = "0") -> SavedFile:
    return SavedFile(path=path, blob="b", key="k", sha256=sha256, size_bytes=1, turn=turn)


def test_a_turn_without_files_has_no_workspace_section():
    log = a_log()
    assert workspace_lines(log) == []
    log.write({"a": "1"})
    assert workspace_lines(log) != []
    log.end()
    assert workspace_lines(log) == []


def test_a_turns_files_are_counted_by_top_level_folder():
    log = a_log()
    log.write({"app/a.py": "1", "app/sub/b.py": "2", "README.md": "3"})
    assert workspace_lines(log) == [
        "implementation: custom",
        f"current_turn_root: {log.turn}/",
        f"local turn roots: {log.turn} (current)",
        "current editable workspace: README.md (1), app/ (2)",
        "checkout_mode: none",
        "checked_out_from: current-turn only",
    ]


def test_a_pulled_turn_is_a_read_only_root():
    log = a_log()
    log.write({"a": "1"})
    first = log.end()
    log.pull(f"{first}/files/")
    lines = workspace_lines(log)
    assert f"local turn roots: {first} (read-only), {log.turn} (current)" in lines
    assert "current editable workspace: none" in lines
    assert "checked_out_from: none" in lines


def test_a_checkout_is_shown_with_its_mode_and_paths():
    log = a_log()
    log.write({"app/a": "1"})
    first = log.end()
    log.check_out("replace", f"fi:{first}.files/app/")
    log.check_out("overlay", f"fi:{first}.files/app/", f"fi:{first}.files/b")
    lines = workspace_lines(log)
    assert "checkout_mode: overlay" in lines
    assert f"checked_out_from: fi:{first}.files/app/, fi:{first}.files/b" in lines


def test_a_checkout_that_replaces_another_is_shown_alone():
    log = a_log()
    log.write({"app/a": "1", "b": "2"})
    first = log.end()
    log.check_out("replace", f"fi:{first}.files/app/")
    log.check_out("replace", f"fi:{first}.files/b")
    assert f"checked_out_from: fi:{first}.files/b" in workspace_lines(log)


def test_at_most_six_folders_and_turns_are_named():
    log = a_log()
    log.write({f"f{n}/a": "1" for n in range(8)})
    assert (
        "current editable workspace: f0/ (1), f1/ (1), f2/ (1), f3/ (1), f4/ (1), f5/ (1), 2 more"
        in workspace_lines(log)
    )
    roots = tuple(f"turn_{n}" for n in range(9))
    facts = {"now": "2026-11-21T10:00:00.000Z", "turn": "turn_8", "iteration": 0, "max_iterations": 1}
    text = render_announce(Announced(workspace=render_workspace(Workspace(roots=roots), "turn_8"), **facts))
    assert "local turn roots: turn_3 (read-only), turn_4 (read-only), turn_5 (read-only)" in text
    assert "turn_2" not in text


def test_a_history_shows_what_was_saved_and_how_to_continue():
    log = a_log()
    log.end()
    saved = Saved(
        turn="turn_0001", files=(kept("app/a", "turn_0001"), kept("app/b", "turn_0001"), kept("c", "t"))
    )
    assert workspace_lines(log, saved) == [
        "implementation: git",
        f"current_turn_root: {log.turn}/",
        f"local turn roots: {log.turn} (current)",
        "current editable workspace: none",
        "checkout_mode: none",
        "checked_out_from: none",
        "repo_mode: a version for each turn",
        "repo_status: clean",
        "current_turn_publish: pending",
        "last_published_turn: turn_0001",
        LS,
        "  app/ (2): fi:turn_0001.files/app/",
        "  c (1): fi:t.files/c",
    ]


def test_ls_workspace_lists_the_whole_top_level_of_a_usual_project():
    names = [f"{n:02}.png" for n in range(30)]
    lines = workspace_lines(a_log(), Saved(turn="t", files=tuple(kept(name, "t") for name in names)))
    listed = lines[lines.index(LS) + 1 :]
    assert listed == [*(f"  {name} (1): fi:t.files/{name}" for name in names[:24]), "  6 more"]


def test_a_folder_whose_files_came_from_several_turns_names_them_in_their_order():
    saved = Saved(turn="turn_2", files=(kept("app/a", "turn_2"), kept("app/b", "turn_1")))
    assert "  app/ (2): fi:turn_1.files/app/ fi:turn_2.files/app/" in workspace_lines(a_log(), saved)


@pytest.mark.parametrize(
    ("saved", "status"),
    [(Saved(), "uninitialized"), (Saved(turn="turn_0001"), "clean"), (Saved(readable=False), "unavailable")],
)
def test_the_state_of_the_history_of_a_turn_without_files(saved, status):
    assert f"repo_status: {status}" in workspace_lines(a_log(), saved)


def test_the_history_is_dirty_while_the_turn_would_change_it():
    log = a_log()
    log.write({"a": "1"})
    own = log.project().turn_blocks(log.turn)
    sha256 = next(block.body.sha256 for block in own if block.body)
    assert "repo_status: dirty" in workspace_lines(log, Saved())
    assert "repo_status: clean" in workspace_lines(log, Saved(turn="t", files=(kept("a", "t", sha256),)))
    assert "repo_status: dirty" in workspace_lines(log, Saved(turn="t", files=(kept("a", "t", "other"),)))
    log.delete("b")
    both = (kept("a", "t", sha256), kept("b", "t"))
    assert "repo_status: dirty" in workspace_lines(log, Saved(turn="t", files=both))


def test_an_unsaved_turn_is_shown():
    lines = workspace_lines(a_log(), Saved(turn="turn_1", missing="turn_2"))
    assert "last_published_turn: turn_1" in lines
    assert "publish_error: turn_2 is not saved yet; the end of this turn tries again" in lines


def test_a_project_with_few_folders_costs_few_tokens():
    log = a_log()
    log.write({"app/a": "1"})
    files = tuple(kept(f"{name}/x", "turn_20261121T101500_ab12cd") for name in "abcdef")
    assert estimate_tokens("\n".join(workspace_lines(log, Saved(turn="turn_1", files=files)))) <= 400


@pytest.mark.parametrize("evil", [*FORGERIES, "x" * 100_000])
def test_file_names_cannot_forge_a_line_and_the_section_is_bounded(evil):
    files = tuple(kept(f"{n}{evil}/x", evil) for n in range(50))
    found = Workspace(
        roots=("turn_1",),
        scopes={f"{n}{evil}": 1 for n in range(50)},
        checked_out=(evil,) * 50,
        saved=Saved(turn="turn_1", files=files),
    )
    facts = {"now": "2026-11-21T10:00:00.000Z", "turn": "turn_1", "iteration": 0, "max_iterations": 1}
    text = render_announce(Announced(workspace=render_workspace(found, "turn_1"), **facts))
    section = text.partition("[WORKSPACE]\n")[2]
    assert len(section.encode()) <= SECTION_BYTES
    heads = [
        line.partition(":")[0].partition(" (")[0]
        for line in section.splitlines()
        if not line.startswith("  ")
    ]
    assert heads == [
        *("implementation", "current_turn_root", "local turn roots", "current editable workspace"),
        *("checkout_mode", "checked_out_from", "repo_mode", "repo_status", "current_turn_publish"),
        *("last_published_turn", "ls workspace"),
    ]
