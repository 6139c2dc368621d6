"""`stepline limits`: limits are shown, and admins set them without changing the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepline.local import caller
from stepline.local.caller import Caller as StageCaller
from stepline.local.command.cli import main
from stepline.ports.channel import Role
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import USER, Conversation

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    ports = Conversation().ports

    def found(stage: str, user: str, *, role: Role = "user", **_: str) -> StageCaller:
        server.caller = Caller(ports, user=user or USER, role=role)
        return StageCaller(url="", user=USER, home=Path(), token=lambda: TOKEN, api_url=url)

    server = ApiServer(Caller(ports))
    monkeypatch.setattr(caller, "find_caller", found)
    with served(server) as url:
        yield lambda *words: CliRunner().invoke(main, ["limits", *words])
    assert server.failures == []


def test_without_an_option_it_shows_what_holds_for_oneself(run: Run) -> None:
    done = run()
    assert done.stdout.splitlines() == [
        "user",
        "  messages_per_minute  60, by default",
        "project",
        "tenant",
    ]


def test_an_admin_sets_a_limit_and_leaves_the_others(run: Run) -> None:
    run("--of", "bob", "usd_day=5", "turns_at_once=2")
    done = run("--of", "bob", "tokens_month=1000", "turns_at_once=")
    assert done.stdout.splitlines() == [
        "user",
        "  messages_per_minute  60, by default",
        "  tokens_month         0 of 1,000, until 2026-02-01T00:00Z",
        "  usd_day              $0.00 of $5.00, until 2026-01-02T00:00Z",
    ]


@pytest.mark.parametrize("whose", [("--tenant",), ("--project", "sales"), ("--of", "bob"), ("--of", "a/b|c")])
def test_work_is_stopped_with_a_reason_and_resumed(run: Run, whose: tuple[str, ...]) -> None:
    assert run(*whose, "--stop", "unpaid\x1b[2J").stdout.splitlines()[0].endswith(", stopped: unpaid␛[2J")
    assert run(*whose).stdout.splitlines()[0].endswith(", stopped: unpaid␛[2J")
    assert "stopped" not in run(*whose, "--resume").stdout


def test_with_json_each_account_is_a_line(run: Run) -> None:
    rows = [json.loads(line) for line in run("--json").stdout.splitlines()]
    assert [row["scope"] for row in rows] == ["user", "project", "tenant"]
    assert rows[0]["limits"] == {"messages_per_minute": 60}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("usd_day=5",), "usage"),
        (("--tenant", "--of", "bob"), "usage"),
        (("--tenant", "dollars=5"), "usage"),
        (("--tenant", "usd_day=many"), "usage"),
        (("--tenant", "turns_at_once=2.5"), "usage"),
        (("--tenant", "--stop", "x", "--resume"), "usage"),
        (("--tenant", "--stop", ""), "usage: invalid value for '--stop': "),
        (("--tenant", "--stop", " "), "usage"),
        (("--stop", "--tenant"), "usage: invalid value for '--stop': "),
        (("--tenant", ""), "usage"),
        (("--project", "--stop", "x"), "usage: invalid value for '--project': "),
        (("--of", "--stop", "x"), "usage: invalid value for '--of': "),
        (("--tenant", "--of", ""), "usage"),
        (("--tenant", "usd_day=-1"), "bad_limit: usd_day=-1.0 is out of range: "),
        (("--tenant", "usd_day=nan"), "bad_limit"),
        (("--tenant", "usd_day=inf"), "bad_limit"),
        (("--tenant", "--stop", "x" * 201), "bad_limit: --stop is out of range: "),
    ],
)
def test_an_invalid_limit_is_refused_before_anything_is_set(
    run: Run, words: tuple[str, ...], code: str
) -> None:
    done = run(*words)
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith(f"error: {code}")
    assert '"given":{}' in run("--tenant", "--json").stdout
