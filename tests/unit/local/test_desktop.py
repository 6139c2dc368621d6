"""The conditions under which an address is opened in a browser."""

import pytest

from stepline.local.desktop import find_opener, open_secret


@pytest.fixture
def shown(tmp_path):
    opener = tmp_path / "xdg-open"
    opener.write_text("#!/bin/sh\n")
    opener.chmod(0o755)
    return {"PATH": str(tmp_path), "DISPLAY": ":0"}, str(opener)


def test_a_desktop_opens_the_page(shown):
    variables, opener = shown
    assert find_opener(variables, platform="linux", on_terminal=True) == opener
    wayland = {"PATH": variables["PATH"], "WAYLAND_DISPLAY": "wayland-0"}
    assert find_opener(wayland, platform="linux", on_terminal=True) == opener


@pytest.mark.parametrize(
    "without", [{"DISPLAY": ""}, {"CI": "true"}, {"SSH_CONNECTION": "1"}, {"PATH": "/nowhere"}]
)
def test_without_a_desktop_nothing_is_opened(shown, without):
    variables, _ = shown
    assert find_opener({**variables, **without}, platform="linux", on_terminal=True) == ""


def test_a_pipe_opens_nothing(shown):
    assert find_opener(shown[0], platform="linux", on_terminal=False) == ""


def test_a_secret_address_is_written_nowhere_if_nothing_opens_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert not open_secret("http://127.0.0.1:1/session/open?key=k", tmp_path)
    assert list(tmp_path.iterdir()) == []
