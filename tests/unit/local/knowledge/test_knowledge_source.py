"""A git repository as the source: a branch, a tag or a commit of a local repository, or of a served one."""

import threading
from contextlib import contextmanager

import pytest
from dulwich import porcelain
from dulwich.repo import Repo
from dulwich.server import DictBackend, TCPGitServer

from stepline.errors import DependencyError, InputError


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits; the first has a tag, and neither has the folder's files."""
    folder = tmp_path / "repository"
    folder.mkdir()
    with Repo.init(str(folder), default_branch=b"main") as repo:
        commits = []
        for word in ("heron", "crane"):
            (folder / "docs").mkdir(exist_ok=True)
            (folder / "docs/bird.md").write_text(f"# {word}\n\n`src/bird.py`, `src/none.py`\n")
            (folder / "src").mkdir(exist_ok=True)
            (folder / "src/bird.py").write_text(f"BIRD = '{word}'\n")
            porcelain.add(repo, paths=[str(folder / "docs/bird.md"), str(folder / "src/bird.py")])
            who = b"Ada <ada@example.com>"
            commits.append(porcelain.commit(repo, message=b"A bird", author=who, committer=who).decode())
            if word == "heron":
                porcelain.tag_create(repo, b"v1")
    (folder / "docs/bird.md").write_text("# stork\n")
    return folder, commits


@contextmanager
def served(folder):
    with Repo(str(folder)) as repo:
        server = TCPGitServer(DictBackend({b"/birds": repo}), "127.0.0.1", 0)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"git://127.0.0.1:{server.server_address[1]}/birds"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def build(space, repo, ref, roots="docs_root: docs, src_root: src"):
    space.write({"space/knowledge.yaml": f"{{repo: '{repo}', ref: '{ref}', {roots}}}"})
    space.folder = space.folder / "space"
    return space.build()


def code(space, repo, ref):
    with pytest.raises((InputError, DependencyError)) as caught:
        build(space, repo, ref)
    return caught.value.reason


@pytest.mark.parametrize(("ref", "word"), [("main", "crane"), ("v1", "heron"), ("0", "heron"), ("", "stork")])
def test_a_repository_is_read_at_its_commit_or_without_a_ref_as_files(space, repository, ref, word):
    _, commits = repository
    built = build(space, "../repository", commits[0] if ref == "0" else ref)
    assert space.paths(word, root="ks:docs") == ["ks:docs/bird.md"]
    assert built.references == (2 if ref else 0)
    assert built.missing_references == (1 if ref else 0)


@pytest.mark.parametrize(("ref", "word"), [("main", "crane"), ("", "stork")])
def test_a_folder_in_a_repository_has_its_roots_in_it_with_a_ref_and_without(space, repository, ref, word):
    build(space, "../repository/docs", ref, roots="docs_root: bird.md")
    assert space.paths(word) == ["ks:bird.md"]


@pytest.mark.parametrize(("ref", "word"), [("", "crane"), ("main", "crane"), ("v1", "heron")])
def test_one_that_is_served_is_fetched(space, repository, ref, word):
    with served(repository[0]) as url:
        build(space, url, ref)
        assert space.paths(word, root="ks:src") == ["ks:src/bird.py"]
        assert space.said[0] == f"fetching {url}"


def test_a_missing_ref_is_named(space, repository):
    assert code(space, "../repository", "v9") == "ref_not_found"


def test_a_served_one_that_has_no_such_ref_is_named(space, repository):
    with served(repository[0]) as url:
        assert code(space, url, "v9") == "ref_not_found"


TOKEN = "s3cret-token"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("git://ada:{token}@127.0.0.1:{port}/birds", "repo_unreachable"),
        ("git://{token}@127.0.0.1:{port}/birds", "repo_unreachable"),
        ("https://ada:{token}@127.0.0.1:{port}/birds", "repo_unreachable"),
        ("https://127.0.0.1:{port}/birds?access={token}", "repo_unreachable"),
        ("ssh://{token}@host/birds", "repo_not_found"),
        ("HTTPS://ada:{token}@host/birds", "repo_not_found"),
        ("https:/{token}@host/birds", "repo_not_found"),
        ("{token}@host:birds", "repo_not_found"),
        ("https://{token}@host/birds', ref: ['", "knowledge_config_invalid"),
    ],
)
def test_credentials_of_an_address_are_never_shown(space, repository, caplog, written, reason):
    with served(repository[0]) as url:
        port = url.partition("127.0.0.1:")[2].partition("/")[0]
    repo = written.format(token=TOKEN, port=port)
    with pytest.raises((InputError, DependencyError)) as caught:
        build(space, repo, "")
    assert caught.value.reason == reason
    assert TOKEN not in f"{caught.value} {space.said} {caplog.text}"


def test_one_that_does_not_answer_may_do_so_later(space, repository):
    with served(repository[0]) as url:
        pass
    assert code(space, url, "") == "repo_unreachable"
