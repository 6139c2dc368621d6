"""`stepline prove`: the question before it spends, the bound, the exit code, and a report that no failure loses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepline.local import caller
from stepline.local.command.cli import main
from stepline.local.command.proof import prove as command
from stepline.local.proof import proof_table, proved_stage
from stepline.local.proof.proof_row import NotHeldError, Proof
from stepline.local.proof.proved_stage import ProvedStage
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import Conversation


def row(name, error=None):
    def prove(_stage, _conversation):
        TRIED.append(name)
        if error:
            raise error
        return {}

    return Proof(name=name, claim=f"{name} holds.", prove=prove)


TRIED: list[str] = []


@pytest.fixture
def run(monkeypatch, tmp_path):
    TRIED.clear()
    with served(ApiServer(Caller(Conversation().ports))) as url:
        here = caller.Caller(url="", user="u", home=Path(), token=lambda: TOKEN, api_url=url)
        stage = ProvedStage(
            name="trial", region="eu-central-1", caller=here, api=caller.open_api(here),
            mint=lambda _role, _ttl_s: TOKEN, aws=lambda _service: None, machine_arn="",
        )  # fmt: skip
        monkeypatch.setattr(caller, "find_caller", lambda *_, **__: here)
        monkeypatch.setattr(proved_stage, "find_proved", lambda *_, **__: stage)

        def run(*words, rows=()):
            monkeypatch.setattr(proof_table, "PROOFS", rows or (row("first"),))
            return CliRunner().invoke(
                main, ["prove", "--stage", "trial", "--report", str(tmp_path / "r"), *words]
            )

        yield run


def read(tmp_path):
    report = json.loads((tmp_path / "r/proof.json").read_text())
    assert (tmp_path / "r/proof.html").exists()
    return [(one["name"], one["verdict"]) for one in report["rows"]]


@pytest.mark.parametrize("answer", [True, False])
def test_it_asks_before_it_spends_and_runs_nothing_without_a_yes(run, monkeypatch, tmp_path, answer):
    asked = []
    monkeypatch.setattr(command, "confirm", lambda text: asked.append(text) or answer)
    assert run("--usd", "1").exit_code == (0 if answer else 1)
    assert asked == ["spend at most $1.00?"]
    assert (["first"] if answer else []) == TRIED
    assert (tmp_path / "r").exists() is answer


def test_a_script_that_cannot_be_asked_is_refused(run):
    assert "not_confirmed" in run("--json").output
    assert TRIED == []


def test_rows_beyond_the_bound_are_not_run(run, tmp_path):
    assert run("--yes", "--usd", "0.06", rows=(row("first"), row("second"))).exit_code == 0
    assert TRIED == ["first"]
    assert read(tmp_path) == [("first", "held"), ("second", "not run")]


def test_the_exit_code_is_1_if_a_row_failed(run, tmp_path):
    done = run("--yes", rows=(row("first", NotHeldError("a batch is lost")), row("second")))
    assert done.exit_code == 1
    assert read(tmp_path) == [("first", "failed"), ("second", "held")]


def test_an_interrupt_leaves_the_rows_so_far(run, tmp_path):
    done = run("--yes", rows=(row("first"), row("second", KeyboardInterrupt()), row("third")))
    assert done.exit_code != 0
    assert TRIED == ["first", "second"]
    assert read(tmp_path) == [("first", "held"), ("second", "not run"), ("third", "not run")]


def test_rows_are_chosen_by_their_name(run, tmp_path):
    rows = (row("first"), row("second"), row("third"))
    assert run("--yes", "--row", "third", "--row", "first", rows=rows).exit_code == 0
    assert TRIED == ["first", "third"]
    assert read(tmp_path) == [("first", "held"), ("third", "held")]
    refused = run("--yes", "--row", "fourth", rows=rows)
    assert refused.exit_code == 2
    assert "first, second, third" in refused.output
