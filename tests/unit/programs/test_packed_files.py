import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import SandboxError
from stepline.model.program.execution import CollectedFile
from stepline.programs.packed_files import join_files, split_files


def collected(path: str, body: bytes) -> CollectedFile:
    return CollectedFile(path=path, sha256=hashlib.sha256(body).hexdigest(), size_bytes=len(body))


def laid_out(folder, bodies):
    """Put contents into a spool; return it with the files that name them."""
    spool = folder / "spool"
    spool.mkdir()
    files = tuple(collected(f"turn_1/outputs/{at}", body) for at, body in enumerate(bodies))
    for file, body in zip(files, bodies, strict=True):
        (spool / file.sha256).write_bytes(body)
    return files, spool


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


@given(bodies=st.lists(st.binary(max_size=30), max_size=6), cuts=st.lists(st.integers(0, 9), max_size=40))
def test_contents_are_restored_from_any_cut_of_the_stream(tmp_path_factory, bodies, cuts):
    folder = tmp_path_factory.mktemp("delivery")
    files, spool = laid_out(folder, bodies)
    join_files(files, spool, folder / "joined")
    joined, pieces = (folder / "joined").read_bytes(), []
    for cut in cuts:
        pieces.append(joined[:cut])
        joined = joined[cut:]
    target = folder / "target"
    target.mkdir()
    split_files([*pieces, joined], files, target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        file.sha256: body for file, body in zip(files, bodies, strict=True)
    }


def test_a_content_with_two_names_is_sent_once(tmp_path, target):
    files, spool = laid_out(tmp_path, [b"same", b"same", b"other"])
    join_files(files, spool, tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == b"sameother"
    split_files([b"sameother"], files, target)
    assert len(list(target.iterdir())) == 2


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([b"onetw"], "end too early"),
        ([], "end too early"),
        ([b"onetwo", b"!"], "more bytes"),
        ([b"ONEtwo"], "other bytes"),
        ([b"twoone"], "other bytes"),
    ],
)
def test_bytes_that_are_not_those_of_the_report_are_refused(tmp_path, target, pieces, message):
    files, _ = laid_out(tmp_path, [b"one", b"two"])
    with pytest.raises(SandboxError, match=message) as failure:
        split_files(pieces, files, target)
    assert failure.value.reason == "collect_failed"


def test_a_hash_that_is_a_path_is_never_opened(tmp_path, target):
    file = CollectedFile(path="x", sha256="../escaped", size_bytes=1)
    with pytest.raises(SandboxError):
        split_files([b"x"], [file], target)
    assert not (tmp_path / "escaped").exists()
