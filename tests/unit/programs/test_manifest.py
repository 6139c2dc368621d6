import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import PathError
from stepline.model.traversal import Names, ancestors, find_clashes
from stepline.programs.manifest import (
    FileFact,
    Manifest,
    parse_physical_path,
    reserve_path,
)

TURN = "turn_20261121T101500_ab12cd"
OUT = f"{TURN}/outputs"


def take(*paths):
    names = Names()
    for path in paths:
        reserve_path(names, path)


paths = st.lists(st.sampled_from(["a", "b", "A", "c"]), min_size=1, max_size=3).map("/".join)


def test_a_manifest_has_its_bytes_and_folders():
    manifest = Manifest(
        files={
            "a/b/c": FileFact(sha256="a" * 64, size_bytes=2),
            "a/d": FileFact(sha256="a" * 64, size_bytes=5),
        }
    )
    assert (manifest.total_bytes, manifest.largest_bytes) == (7, 5)
    assert manifest.folders() == {"a", "a/b"}
    assert Manifest().largest_bytes == 0


def test_ancestors_are_listed_from_the_outside():
    assert list(ancestors("a/b/c")) == ["a", "a/b"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{OUT}/../../secret", "path_dot_segment"),
        (f"{OUT}/./x", "path_dot_segment"),
        (f"/{OUT}/x", "path_absolute"),
        (f"{OUT}/a//x", "path_empty_segment"),
        (f"{OUT}/a\\b", "path_backslash"),
        (f"{OUT}/a\0b", "path_control_character"),
        (f"{OUT}/a\udcff", "path_control_character"),
        (f"{OUT}/C:x", "path_drive"),
        (f"{OUT}/e\u0301", "path_not_canonical"),
        (f"{OUT}/ x", "path_blank_edge"),
        (f"{OUT}/{'a' * 256}", "path_too_long"),
        (f"{TURN}/x", "path_not_physical"),
        ("x", "path_not_physical"),
        ("", "path_empty"),
    ],
)
def test_a_path_outside_the_roots_of_a_turn_is_refused(path, code):
    with pytest.raises(PathError) as refused:
        parse_physical_path(path)
    assert refused.value.reason == code


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x", "x"),
        ("Report.csv", "report.CSV"),
        ("straße", "STRASSE"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("A", "a/b/c"),
        ("a/b/c", "A/b"),
    ],
)
def test_two_clashing_files_are_refused(one, other):
    with pytest.raises(PathError) as refused:
        take(f"{OUT}/{one}", f"{OUT}/{other}")
    assert refused.value.reason == "path_clash"


def test_folders_that_differ_in_case_are_one_folder_with_different_files():
    take(f"{OUT}/A/x", f"{OUT}/a/y")


@given(st.lists(paths, unique=True), st.data())
def test_files_without_clashes_can_all_be_reserved(names, data):
    places = [f"{OUT}/{name}" for name in names]
    settled = data.draw(st.sets(st.sampled_from(places))) if places else set()
    clashes = find_clashes(places, settled=settled)
    left = [place for place in places if place not in clashes]
    take(*left)
    assert set(clashes.values()) <= set(left)
    if not find_clashes(settled, settled=()):
        assert not settled & clashes.keys()
