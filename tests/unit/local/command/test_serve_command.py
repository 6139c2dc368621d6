"""The choices of `stepline serve`, before it becomes the server."""

from __future__ import annotations

import json
from importlib import util
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from stepline.errors import DependencyError, InputError
from stepline.local import caller
from stepline.local.cloud.deployment import Deployment
from stepline.local.command.cli import main
from stepline.local.command.door import serve


@pytest.fixture
def became(monkeypatch, tmp_path):
    """The options of the server that a command becomes."""
    found = []
    monkeypatch.setattr(caller, "HOME", tmp_path)
    monkeypatch.setattr("stepline.local.page.page_build.build_server", lambda *_: tmp_path / "serve.mjs")
    monkeypatch.setattr(serve.os, "execve", lambda _, words, __: found.append(json.loads(words[-1])))
    return found


def test_a_stage_is_served_by_the_address_of_its_deployment(became, monkeypatch):
    outputs = {
        "WebSocketUrl": "wss://live.example.com",
        "HttpUrl": "https://api.example.com",
        "PageConfig": json.dumps({"issuer": "https://issuer.example.com"}),
    }
    known = Deployment(stage="prod", account="1", region="eu-west-1", outputs=outputs)
    monkeypatch.setattr("stepline.local.cloud.deployment.load_deployment", lambda *_: known)
    options = ["--streams", "5", "--origin", "https://a.example", "--mcp-answers", "desk"]
    done = CliRunner().invoke(main, ["serve", "--stage", "prod", *options])
    assert done.exit_code == 0, done.output
    assert became == [
        {
            "url": "https://api.example.com",
            "host": "127.0.0.1",
            "port": 8040,
            "streams": 5,
            "origins": ["https://a.example"],
            "issuer": "https://issuer.example.com",
            "mcpAnswers": ["desk"],
            "version": version("stepline"),
            "beatS": 15,
            "unreadS": 60,
        }
    ]


def test_the_issuer_of_a_stage_by_its_address_is_an_option(became):
    words = ["serve", "--url", "https://api.example.com"]
    for more in ([], ["--issuer", "https://issuer.example.com"]):
        assert CliRunner().invoke(main, [*words, *more]).exit_code == 0
    assert [options["issuer"] for options in became] == ["", "https://issuer.example.com"]


def test_a_deployment_without_the_pages_config_has_no_known_issuer(became, monkeypatch):
    outputs = {"WebSocketUrl": "wss://live.example.com", "HttpUrl": "https://api.example.com"}
    known = Deployment(stage="prod", account="1", region="eu-west-1", outputs=outputs)
    monkeypatch.setattr("stepline.local.cloud.deployment.load_deployment", lambda *_: known)
    assert CliRunner().invoke(main, ["serve", "--stage", "prod"]).exit_code == 0
    assert became[0]["issuer"] == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stage", "prod"], "not_deployed"),
        (["--stage", "local"], "bad_stage"),
        ([], "not_deployed"),
        (["--stage", "prod", "--url", "https://api.example.com"], "--url is instead of --stage"),
    ],
)
def test_a_stage_that_is_not_there_is_refused(became, words, said, monkeypatch):
    monkeypatch.setattr(caller, "load", lambda: None)
    done = CliRunner().invoke(main, ["serve", *words])
    assert done.exit_code != 0
    failure = (
        done.exception.code if isinstance(done.exception, (InputError, DependencyError)) else done.output
    )
    assert said in failure
    assert became == []


def test_an_installation_without_the_extra_names_it(monkeypatch):
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    with pytest.raises(DependencyError, match=r"stepline\[serve\]"):
        serve.find_node()
