"""The descriptors of the local stage: settings by its package, secrets by its Secrets Manager."""

from pathlib import Path

import pytest

from stepline.errors import InputError
from stepline.local.stage.local_descriptor import DESCRIPTORS, take_descriptors

TEXTS = {
    "assembly": "crm: {url: 'https://crm.example'}\n",
    "bundles": "bundles: {default_bundle_id: crm, items: [{id: crm, config: {unit: km}}]}\n",
    "secrets": "search: {api_key: s3cret}\n",
    "bundles.secrets": "bundles: {items: [{id: crm, secrets: {a: {token: s3cret-1}}}, {id: guide, secrets: {token: s3cret-2}}]}\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def take(folder, home):
    return take_descriptors({DESCRIPTORS: str(folder)}, home)


def test_settings_are_copied_and_secrets_are_kept_out_of_the_copy(folder, tmp_path):
    taken = take(folder, tmp_path / "home")
    assert {path.name: path.read_text() for path in Path(taken.folder).iterdir()} == {
        "assembly.yaml": TEXTS["assembly"],
        "bundles.yaml": TEXTS["bundles"],
    }
    assert taken.context() == {"descriptors_dir": taken.folder}
    assert taken.secrets == {
        "": {"search.api_key": "s3cret"},
        "default": {"a.token": "s3cret-1"},
        "guide": {"token": "s3cret-2"},
    }


def test_another_content_has_another_folder_and_the_same_content_the_same(folder, tmp_path):
    home = tmp_path / "home"
    first = take(folder, home)
    assert take(folder, home).folder == first.folder
    (folder / "assembly.yaml").write_text("crm: {}\n")
    second = take(folder, home)
    assert second.folder != first.folder
    assert not Path(first.folder).exists()


def test_without_the_variable_a_stage_has_no_descriptors(folder, tmp_path):
    take(folder, tmp_path / "home")
    none = take_descriptors({}, tmp_path / "home")
    assert (none.folder, none.context(), none.secrets) == ("", {}, {})


def test_a_folder_that_no_function_could_read_is_refused_before_the_deployment(folder, tmp_path):
    (folder / "secrets.yaml").write_text("pin: 0123\n")
    with pytest.raises(InputError) as refused:
        take(folder, tmp_path / "home")
    assert refused.value.reason == "bad_descriptor"
    assert "0123" not in str(refused.value)
