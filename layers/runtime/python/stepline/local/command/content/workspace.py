"""`stepline workspace`: the project of a conversation as a git repository on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.errors import DependencyError, InputError, NotFoundError
from stepline.local.command.argument import conversation_argument, json_option
from stepline.local.counted import counted
from stepline.local.terminal.output import print_result

if TYPE_CHECKING:
    from stepline.log.versions import GitHistory
    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.log import Log

BRANCH = "main"


@click.group()
def workspace() -> None:
    """Copy the project of a conversation."""


@workspace.command()
@conversation_argument
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@json_option
def clone(conversation: str, folder: Path, *, as_json: bool) -> None:
    """Write the project of a conversation of the local stage into DIR, a git repository.

    DIR is a new or empty folder. Each completed turn that changed the conversation's files/ is a commit, with a ref
    that ends in the turn's id. Turns that are not saved yet are saved first; with AI_REACT_WORKSPACE=git the stage
    saves each turn.
    """
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.model.ids import make_lane

    _check_folder(folder)
    lane = make_lane(TENANT, PROJECT, conversation)
    log, artifacts = open_log(find_stage())
    history = load_history(log, artifacts, lane)
    write_repository(history, artifacts, lane, folder)
    commits = len(set(history.versions.values()))
    written = {"path": str(folder), "head": history.head, "commits": commits}
    text = f"{folder}: {counted(commits, 'commit')}, the newest is {history.head[:12]}"
    print_result(written, text, as_json=as_json)


def load_history(log: Log, artifacts: Artifacts, lane: Lane) -> GitHistory:
    """Save the unsaved turns and return the history of a conversation.

    Raises NotFoundError: `not_found`, or `workspace_empty`.
    """
    from stepline.local.command.batches import read_timeline
    from stepline.log.versions import read_history, save_versions

    timeline = read_timeline(log, artifacts, lane)
    save_versions(artifacts, timeline)
    history = read_history(artifacts, timeline)
    if not history.head:
        raise NotFoundError(f"no turn of {lane.conversation} has written to files/", code="workspace_empty")
    return history


def _check_folder(folder: Path) -> None:
    """Raise InputError `folder_not_empty` if this path exists and is not an empty folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder} is not a folder", code="folder_not_empty")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty", code="folder_not_empty")


def write_repository(history: GitHistory, artifacts: Artifacts, lane: Lane, folder: Path) -> None:
    """Write a history into a new or empty folder, with the files of its newest commit, byte by byte as they are stored.

    Raises InputError `not_writable`; DependencyError `commit_mismatch`, `body_missing`, `body_mismatch`.
    """
    from dulwich.index import InvalidPathError, build_index_from_tree
    from dulwich.objects import ObjectID
    from dulwich.refs import Ref
    from dulwich.repo import Repo

    from stepline.log.versions import is_git_name, read_blobs
    from stepline.model.path import version_ref

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Repo.init(str(folder), default_branch=BRANCH.encode(), symlinks=False) as repo:
            for blob in read_blobs(artifacts, history):
                repo.object_store.add_object(blob)
            repo.object_store.add_objects([(one, None) for one in history.objects])
            repo.refs[Ref(f"refs/heads/{BRANCH}".encode())] = ObjectID(history.head.encode())
            for turn, commit in history.versions.items():
                repo.refs[Ref(version_ref(lane, turn).encode())] = ObjectID(commit.encode())
            build_index_from_tree(
                str(folder),
                repo.index_path(),
                repo.object_store,
                ObjectID(history.tree.encode()),
                validate_path_element=is_git_name,
            )
    except InvalidPathError as error:
        raise DependencyError("a commit has a file name that git refuses", code="commit_mismatch") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}", code="not_writable") from error
