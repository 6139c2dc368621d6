"""Copies of the app in a user's folder, which several commands may tidy at once."""

from concurrent.futures import ThreadPoolExecutor

from stepline.local.install.project import delete_once


def test_commands_that_delete_a_copy_at_once_all_go_on(tmp_path):
    for _ in range(20):
        copy = tmp_path / "app-old"
        for number in range(50):
            (copy / str(number)).mkdir(parents=True)
        with ThreadPoolExecutor(8) as commands:
            list(commands.map(delete_once, [copy] * 8))
        assert not list(tmp_path.iterdir())
