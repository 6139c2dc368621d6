import stat

import pytest

from stepline.adapters.descriptor_file import read_folder, write_folder
from stepline.bundle.descriptor_set import MAX_BYTES
from stepline.errors import InputError, SandboxError

TEXTS = {
    "assembly": "a: 1\n",
    "bundles.secrets": "bundles: {items: []}\n",
    "secrets": "db: {password: hunter2}\n",
}


def test_written_descriptors_can_be_read(tmp_path):
    write_folder(TEXTS, tmp_path / "descriptors")
    assert read_folder(tmp_path / "descriptors") == TEXTS


def test_only_the_owner_can_read_the_files_and_no_user_can_write_them(tmp_path):
    folder = tmp_path / "descriptors"
    write_folder(TEXTS, folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        f"{name}.yaml": 0o400 for name in TEXTS
    }


def test_the_variables_name_the_written_files(tmp_path):
    folder = tmp_path / "descriptors"
    assert write_folder(TEXTS, folder) == {
        "PLATFORM_DESCRIPTORS_DIR": str(folder),
        "ASSEMBLY_YAML_DESCRIPTOR_PATH": str(folder / "assembly.yaml"),
        "GLOBAL_SECRETS_YAML": str(folder / "secrets.yaml"),
        "BUNDLE_SECRETS_YAML": str(folder / "bundles.secrets.yaml"),
    }


def test_an_existing_folder_is_not_used(tmp_path):
    (tmp_path / "descriptors").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for folder in ("descriptors", "link", "gone/descriptors"):
        with pytest.raises(SandboxError) as caught:
            write_folder(TEXTS, tmp_path / folder)
        assert caught.value.reason == "payload_unavailable"
        assert "hunter2" not in str(caught.value)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_path_that_is_not_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError) as caught:
        read_folder(tmp_path / "gone")
    assert caught.value.reason == "bad_descriptor"


@pytest.mark.parametrize("body", [b"password: \xff hunter2", None])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path, body):
    file = tmp_path / "secrets.yaml"
    if body is None:
        file.mkdir()
    else:
        file.write_bytes(body)
    with pytest.raises(InputError) as caught:
        read_folder(tmp_path)
    assert caught.value.reason == "bad_descriptor"
    assert "secrets.yaml" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_is_read_no_further_than_a_descriptor_may_be_long(tmp_path):
    (tmp_path / "assembly.yaml").write_bytes(b"#" * (MAX_BYTES + 100))
    assert len(read_folder(tmp_path)["assembly"]) == MAX_BYTES + 1
