"""Names of files from a log, which is untrusted, in a folder of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepline.errors import InputError
from stepline.local.named_files import FileNames, write_files


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("fi:turn_1.outputs/report.md", "turn_1/outputs/report.md"),
        ("fi:turn_1.user.attachments/data.csv", "turn_1/user.attachments/data.csv"),
        ("tc:turn_1.tc_a.result", "turn_1/tc.tc_a.result"),
        ("fi:turn_1.files/.git/hooks/run", "turn_1/files/_git/hooks/run"),
        ("fi:turn_1.files/../../../etc/passwd", "hash"),
        ("fi:../../x.files/a", "hash"),
        ("fi:.", "hash"),
        ("fi:turn_1./etc/passwd", "hash"),
        ("fi:turn_1.files/a\\..\\b", "hash"),
        ("fi:turn_1.files/con.txt", "hash"),
        ("fi:turn_1.files/a\x1b[2Jb", "hash"),
        ("", "hash"),
    ],
)
def test_a_name_stays_in_its_folder_and_is_valid_and_visible_everywhere(path: str, name: str) -> None:
    assert FileNames().choose(path, "hash") == name


def test_files_with_one_name_are_numbered() -> None:
    names = FileNames()
    paths = ["fi:t.outputs/a.md", "fi:t.outputs/A.md", "fi:t.outputs/a.md", "fi:t.outputs/a.md/b"]
    assert [names.choose(path, "hash") for path in paths] == [
        "t/outputs/a.md",
        "t/outputs/A-2.md",
        "t/outputs/a-3.md",
        "hash-2",
    ]


def test_a_link_leads_no_file_and_no_folder_out(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "mine").write_text("mine")
    (folder / "file").symlink_to(outside / "mine")
    (folder / "below").symlink_to(outside)
    with pytest.raises(InputError) as caught:
        list(write_files(folder, {"below/deep/new": lambda: b"new"}, overwrite=True))
    assert caught.value.reason == "not_writable"
    list(write_files(folder, {"file": lambda: b"new"}, overwrite=True))
    assert (folder / "file").read_bytes() == b"new"
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("mine", "mine")]
