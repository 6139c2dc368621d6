"""The command line's own texts, and its reference page."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import click
import msgspec
import pytest
from click.testing import CliRunner

from docs.build.cli import command_words
from stepline.errors import DependencyError
from stepline.local import caller
from stepline.local.command.argument import parse_bundles, parse_have, parse_payload
from stepline.local.command.cli import main
from stepline.local.command.failure import Edge
from stepline.local.install import extra
from stepline.local.own_name import name_user
from stepline.local.stage import deployed, lifecycle
from stepline.local.stage.deployed import LocalStage
from stepline.local.stage.issuer.owner_key import load_owner_key


def test_the_line_editor_is_loaded_for_a_chat_on_a_terminal_alone():
    code = (
        "import sys, stepline.local.terminal.chat\n"
        "from stepline.local.command.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "sys.exit('prompt_toolkit' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("word", ["-h", "--help"])
@pytest.mark.parametrize("words", sorted(command_words(main)), ids=" ".join)
def test_every_command_explains_itself_without_a_stage(words, word):
    result = CliRunner().invoke(main, [*words, word])
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


@pytest.mark.parametrize("words", sorted(command_words(main)), ids=" ".join)
def test_every_command_can_answer_a_program(words):
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    assert "as_json" in {parameter.name for parameter in command.params}


@pytest.mark.parametrize(
    ("variable", "package", "code"),
    [("foo", "rich", "bad_setting"), ("none", "no-such-package", "needs_extra")],
)
def test_a_stage_that_cannot_start_is_refused_before_anything_is_started(
    monkeypatch, variable, package, code
):
    monkeypatch.setenv("STEPLINE_EXEC_MODE", variable)
    monkeypatch.setattr(extra.metadata, "requires", lambda _: [f"{package}<2; extra == 'local'"])
    monkeypatch.setattr(lifecycle, "start_stage", lambda *_, **__: pytest.fail("something was started"))
    result = CliRunner().invoke(main, ["up"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {code}: ")


@pytest.mark.parametrize("name", ["up", "down"])
def test_a_stage_that_is_started_or_stopped_is_one_line_of_json(name, monkeypatch):
    services = {"emulator": name == "up"}
    monkeypatch.setattr(lifecycle, "start_stage", lambda *_, **__: SimpleNamespace(socket_url="ws://here"))
    monkeypatch.setattr(lifecycle, "down", lambda _: True)
    monkeypatch.setattr(
        lifecycle, "stage_status", lambda: lifecycle.StageStatus(services=services, stage=None)
    )
    result = CliRunner().invoke(main, [name, "--json"])
    assert json.loads(result.stdout) == {"up": False, "services": services, "stage": None}


def test_a_stage_is_started_for_the_web_pages_that_up_names(monkeypatch):
    given = {}

    def start(*_, **options):
        given.update(options)
        return SimpleNamespace(socket_url="ws://here")

    monkeypatch.setattr(lifecycle, "start_stage", start)
    result = CliRunner().invoke(
        main, ["up", "--origin", "http://localhost:5173", "--origin", "http://[::1]:8080"]
    )
    assert (result.exit_code, given["origins"]) == (0, ("http://localhost:5173", "http://[::1]:8080"))


def test_the_summaries_of_the_commands_fit_a_terminal_of_80_columns():
    lines = CliRunner().invoke(main, ["--help"], terminal_width=80).output.splitlines()
    summaries = lines[lines.index("Commands:") + 1 :]
    assert [line for line in summaries if line.endswith("...") or len(line) > 80] == []
    assert len(summaries) == len(main.commands)


def test_the_text_that_a_killed_client_had_is_parsed():
    assert tuple(parse_have("12/answer=340")) == (12, "answer", 340)


def test_bundles_of_a_stage_are_read():
    assert parse_bundles(()) == ("bundles.default", {})
    assert parse_bundles(("docs=bundles.docs", "shop")) == ("shop", {"docs": "bundles.docs"})


@pytest.mark.parametrize("texts", [("a", "b"), ("Docs=x",), ("=x",), ("default=x",), ("../a=x",)])
def test_bundles_without_distinct_names_are_refused(texts):
    with pytest.raises(click.BadParameter):
        parse_bundles(texts)


@pytest.mark.parametrize("text", ["", "12", "answer=3", "12/answer", "12/answer=x", "-1/answer=3"])
def test_an_unreadable_have_option_is_refused(text):
    with pytest.raises(click.BadParameter):
        parse_have(text)


def failing(error):
    group = Edge("group")

    @group.command()
    @click.option("--json", is_flag=True)
    def broken(json):
        raise error

    return lambda *words: CliRunner().invoke(group, ["broken", *words])


def test_our_errors_are_one_line_beside_the_output_and_exit_code_1():
    result = failing(DependencyError("it is not there", code="socket_unreachable"))()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: socket_unreachable: it is not there\n"


def test_with_json_an_error_is_the_object_of_an_error_frame():
    result = failing(DependencyError("it is not there", code="socket_unreachable"))("--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(result.stderr) == {
        "frame": "error",
        "code": "socket_unreachable",
        "message": "it is not there",
    }


def test_a_strangers_words_in_an_error_do_not_act_on_the_terminal():
    result = failing(DependencyError("it is\x1b[2J \u202enot there", code="gateway"))()
    assert result.stderr == "error: gateway: it is␛[2J \ufffdnot there\n"


def test_ctrl_c_is_exit_code_130_and_no_traceback():
    result = failing(KeyboardInterrupt())()
    assert result.exit_code == 130
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["erasures"],
        ["send", ""],
        ["send", " \n"],
        ["send", "-"],
        ["send"],
        ["send", "hi", "--user", ""],
        ["send", "hi", "--user", "a\nb"],
        ["send", "hi", "--conversation", ""],
        ["send", "hi", "--conversation", "../c"],
        ["chat", "--user", ""],
        ["chat", "--conversation", "a b"],
        ["event", "Bad Kind"],
        ["event", ""],
        ["event", "form", "--payload", "{"],
        ["event", "form", "--conversation", ""],
        ["event", "steer", "--conversation", "c1"],
        ["event", "stop"],
        ["event", "followup"],
        ["send", "hi", "--stage", ""],
        ["send", "hi", "--stage", "--new"],
        ["send", "hi", "--user", "--new"],
        ["approve", "c1", "--call", " "],
        ["up", "--bundle"],
        ["up", "--origin", "http://localhost:5173/"],
        ["up", "--origin", "*"],
        ["up", "--agent", "Shop/Agent"],
        ["up", "--app", ".", "--bundle", "shop"],
        ["up", "--origin", "null"],
        ["up", "--origin", "http://localhost:80"],
        ["up", "--origin", "https://localhost:443"],
        ["up", "--origin", "http://Localhost:5173"],
        ["watch", ""],
        ["watch", "c1", "--after", "-1"],
        ["watch", "c1", "--have", "1/answer"],
        ["log", "c1", "--after", "-1"],
        ["log", "a b"],
        ["export", ""],
        ["conversations", "--user", ""],
        ["token", "--user", ""],
        ["status", "--nonsense"],
        ["limits", "--tenant", "--stop", ""],
    ],
)
def test_invalid_arguments_are_refused_in_one_form_before_anything_runs(words, monkeypatch):
    monkeypatch.setattr(caller, "find_stage", lambda: pytest.fail("something ran"))
    result = CliRunner().invoke(main, words, input="", prog_name="stepline")
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(rf"error: usage: (?!usage)[^\n]+ \(stepline {words[0]} --help\)\n", result.stderr)


def test_a_command_that_does_not_exist_is_refused_in_the_same_form():
    result = CliRunner().invoke(main, ["nonsense"], prog_name="stepline")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: usage: no such command 'nonsense' (stepline --help)\n"


def test_without_a_command_the_help_is_shown():
    result = CliRunner().invoke(main, [], prog_name="stepline")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: stepline ")


def test_a_group_without_a_command_lists_its_commands():
    result = CliRunner().invoke(main, ["erasures"], prog_name="stepline")
    assert result.stderr == "error: usage: add a command: apply, list (stepline erasures --help)\n"


@pytest.mark.parametrize("words", [["send", ""], ["watch", "c1", "--after", "-1"], ["token", "--nonsense"]])
def test_with_json_it_is_refused_in_the_other_form(words):
    result = CliRunner().invoke(main, [*words, "--json"], input="")
    assert (result.exit_code, result.stdout) == (2, "")
    said = json.loads(result.stderr)
    assert (said["frame"], said["code"]) == ("error", "usage")


@pytest.fixture
def stopped_stage(monkeypatch):
    """A deployed stage whose port has no listener."""
    with socket.socket() as taken:  # to its end, so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        known = LocalStage(
            endpoint=url,
            issuer_url=url,
            socket_url=url,
            table="t",
            bucket="b",
            machine_arn="m",
            model_url=url,
            fingerprint="f",
        )
        monkeypatch.setattr(caller, "load", lambda: known)
        yield


@pytest.mark.parametrize(
    "words",
    [
        ["send", "hi"],
        ["event", "form"],
        ["chat"],
        ["watch", "c1"],
        ["log", "c1"],
        ["export", "c1"],
        ["conversations"],
        ["token"],
        ["page"],
        ["event-source"],
    ],
)
@pytest.mark.usefixtures("stopped_stage")
def test_a_stage_that_does_not_run_is_named_with_the_command_that_starts_it(words):
    result = CliRunner().invoke(main, words, input="")
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.fullmatch(
        r"error: not_running: the local stage is not running: `\S*stepline up` starts it\n", result.stderr
    )


PAGE = "http://127.0.0.1:4569"


@pytest.fixture
def stage_with_page(monkeypatch):
    """A stage that appears to run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        names = ("issuer_url", "socket_url", "table", "bucket", "machine_arn", "model_url", "fingerprint")
        known = LocalStage(endpoint=url, page_url=PAGE, **dict.fromkeys(names, url))
        monkeypatch.setattr(caller, "load", lambda: known)
        yield known


def test_the_pages_address_has_the_stages_key_and_nothing_is_opened_from_a_pipe(
    stage_with_page, monkeypatch, tmp_path
):
    monkeypatch.setattr(deployed, "HOME", tmp_path)
    address = f"{stage_with_page.issuer_url}/session/open?key={load_owner_key(tmp_path)}"
    assert CliRunner().invoke(main, ["page"]).stdout == f"{address}\n"
    assert json.loads(CliRunner().invoke(main, ["page", "--json"]).stdout) == {"page": address}
    assert not (tmp_path / "open.html").exists()


def test_the_status_names_the_pages_address_and_the_mode_of_programs(stage_with_page, monkeypatch):
    stage = msgspec.structs.replace(stage_with_page, exec_mode="process")
    found = lifecycle.StageStatus(services={"page": True}, stage=stage)
    monkeypatch.setattr(lifecycle, "stage_status", lambda: found)
    lines = CliRunner().invoke(main, ["status"]).stdout.splitlines()
    assert f"{'page':10} running" in lines
    assert f"{'address':10} {PAGE}/" in lines
    assert f"{'programs':10} mode process" in lines


def test_a_given_user_is_used_unchanged():
    assert name_user("ann") == "ann"


def test_a_payload_is_an_object():
    assert parse_payload('{"text": "yes", "fields": {"a": 1}}') == {"text": "yes", "fields": {"a": 1}}


@pytest.mark.parametrize("text", ["", "[]", "1", "{", "[" * 100_000])
def test_a_payload_that_is_none_is_refused(text):
    with pytest.raises(click.BadParameter):
        parse_payload(text)
