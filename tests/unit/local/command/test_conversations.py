"""The commands on conversations, on a deployed stage whose remote end has a script."""

from __future__ import annotations

import _thread
import json
import re

import pytest
from click.testing import CliRunner

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.local import caller
from stepline.local.cloud.deployment import Deployment, save_deployment
from stepline.local.command import batches as logview
from stepline.local.command.cli import main
from stepline.model.ids import make_lane
from stepline.model.wire.event import AckFrame, ClientEvent, ErrorFrame, EventFrame, PongFrame, SyncFrame
from stepline.ports.log import Listing
from tests.support.api_server import TOKEN
from tests.support.conversation import Conversation
from tests.support.upload_server import upload_server


class RemoteEnd:
    """A remote end that knows some conversations, and answers every message in one."""

    def __init__(self, *known, refuses=None):
        self.ends = dict.fromkeys(known, 2)
        self.refuses = refuses
        self.said = []

    def __call__(self, request):
        name = request["conversation"]
        match request["action"]:
            case "ping" if name in self.ends:
                return [PongFrame(conversation=name, n=self.ends[name])]
            case "resume" if name in self.ends:
                return [SyncFrame(conversation=name, n=self.ends[name])]
            case "ping" | "resume":
                return [ErrorFrame(code="not_found", message="no such conversation", conversation=name)]
        self.said.append(request)
        if request["action"] == "feedback" and request["text"] != "?":
            return [AckFrame(message_id=request["message_id"], conversation=name, n=2, kind="feedback")]
        if self.refuses:
            return [self.refuses(request)]
        n = self.ends.get(name, 0) + 1
        self.ends[name] = n + 1
        ack = AckFrame(message_id=request["message_id"], conversation=name, n=n, kind="prompt", turn_id="t")
        return [batch(name, n, "chat.start"), ack, batch(name, n + 1, "chat.complete", answer="Yes.")]


def batch(conversation, n, kind, **data):
    event = ClientEvent(type=kind, route="", ts="", turn_id="t", data=data)
    return EventFrame(conversation=conversation, n=n, prev=n - 1, events=(event,))


@pytest.fixture
def deploy(gateway, tmp_path):
    """Save that stage `dev` was deployed; its websocket is the gateway."""
    home = tmp_path / "home"
    home.mkdir()

    def note(http_url):
        outputs = {"WebSocketUrl": gateway.url, "HttpUrl": http_url}
        save_deployment(home, Deployment(stage="dev", account="1", region="r", outputs=outputs))

    note("https://api.example")
    return note


@pytest.fixture
def run(deploy, tmp_path, monkeypatch):
    """Run a command on the deployed stage `dev`."""
    monkeypatch.setattr(caller, "HOME", tmp_path / "home")
    monkeypatch.setenv("STEPLINE_TOKEN", "ey.token")
    return lambda *words, said="": CliRunner().invoke(main, [*words, "--stage", "dev"], input=said)


@pytest.mark.parametrize(
    ("words", "said"), [(["send", "hi"], ""), (["event", "form"], ""), (["chat"], "hi\n")]
)
def test_an_unknown_name_begins_a_conversation_only_on_request(gateway, run, words, said):
    gateway.script = far = RemoteEnd("mine")
    typo = run(*words, "--conversation", "mien", said=said)
    assert (typo.exit_code, far.said) == (1, [])
    assert typo.stderr.startswith("error: not_found: there is no conversation mien: --new ")
    assert run(*words, "--conversation", "mine", said=said).exit_code == 0
    assert run(*words, "--conversation", "mien", "--new", said=said).exit_code == 0
    assert [request["conversation"] for request in far.said] == ["mine", "mien"]


def test_new_begins_another_chat_though_the_last_one_is_known(gateway, run):
    gateway.script = far = RemoteEnd()
    for words in (["chat"], ["chat"], ["chat", "--new"]):
        assert run(*words, said="hi\n").exit_code == 0
    first, again, new = [request["conversation"] for request in far.said]
    assert first == again != new


def test_a_message_may_come_from_standard_input(gateway, run):
    gateway.script = far = RemoteEnd()
    assert run("send", "-", said="two\nlines\n").exit_code == 0
    assert far.said[0]["text"] == "two\nlines"


@pytest.mark.parametrize(
    ("words", "said"), [(["chat"], "hi\n"), (["send", "hi"], ""), (["event", "form"], "")]
)
def test_messages_name_the_time_zone_of_the_user(gateway, run, monkeypatch, words, said):
    gateway.script = far = RemoteEnd()
    for named in ("Europe/Zurich", ":Asia/Kathmandu", "CET-1CEST"):
        monkeypatch.setenv("TZ", named)
        assert run(*words, said=said).exit_code == 0
    assert [request.get("timezone") for request in far.said] == ["Europe/Zurich", "Asia/Kathmandu", None]


@pytest.mark.parametrize(
    ("words", "said"), [(["chat"], "hi\n"), (["send", "hi"], ""), (["event", "form"], "")]
)
def test_messages_name_the_requested_bundle_and_no_other(gateway, run, words, said):
    gateway.script = far = RemoteEnd()
    assert run(*words, "--bundle", "docs", said=said).exit_code == 0
    assert run(*words, said=said).exit_code == 0
    assert [request.get("bundle") for request in far.said] == ["docs", None]
    refused = run(*words, "--bundle", "bundles.docs", said=said)
    assert (refused.exit_code, len(far.said)) == (2, 2)


def test_a_chat_with_a_bundle_continues_the_last_one_with_it_or_begins_another(gateway, run):
    gateway.script = far = RemoteEnd()
    for words in (["chat"], ["chat", "--bundle", "docs"], ["chat", "--bundle", "docs"], ["chat"]):
        assert run(*words, said="hi\n").exit_code == 0
    assert run("chat", "--bundle", "docs", said="hi\n/new\nhi\n").exit_code == 0
    said = [(request["conversation"], request.get("bundle")) for request in far.said]
    plain, docs, again, still, last, new = said
    assert plain[0] != docs[0] == again[0] == still[0] == last[0] != new[0]
    assert [bundle for _, bundle in said] == [None, "docs", "docs", None, "docs", "docs"]


def test_a_refusal_is_printed_to_stderr_in_one_form(gateway, run):
    gateway.script = RemoteEnd(
        refuses=lambda request: ErrorFrame(
            code="input_too_long",
            message="`text` is too long.",
            message_id=request["message_id"],
        )
    )
    plain, as_json = run("send", "hi"), run("send", "hi", "--json")
    assert [(done.exit_code, done.stdout) for done in (plain, as_json)] == [(1, "")] * 2
    assert plain.stderr.splitlines()[0] == "error: input_too_long: `text` is too long."
    error = json.loads(as_json.stderr)
    assert (error["frame"], error["code"]) == ("error", "input_too_long")


@pytest.mark.parametrize("words", [["send", "hi"], ["event", "form"]])
def test_the_way_back_is_printed_for_a_new_conversation_that_exists_and_for_no_other(gateway, run, words):
    gateway.script = RemoteEnd()
    (line,) = run(*words).stderr.splitlines()
    assert re.fullmatch(r"continue with: \S*stepline send --conversation chat-\w+ --stage dev …", line)

    def refuse(request):
        return ErrorFrame(code="unknown_bundle", message="no such bundle", message_id=request["message_id"])

    gateway.script = RemoteEnd(refuses=refuse)
    refused = run(*words, "--bundle", "nope")
    assert (refused.exit_code, refused.stderr) == (1, "error: unknown_bundle: no such bundle\n")


@pytest.mark.parametrize("words", [["approve"], ["feedback", "ok"], ["watch"]])
def test_a_command_that_creates_nothing_suggests_no_option_for_an_unknown_name(gateway, run, words):
    gateway.script = RemoteEnd("mine")
    refused = run(words[0], "mien", *words[1:])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: not_found: ")
    assert "--new" not in refused.stderr


@pytest.mark.parametrize("words", [["send", "hi"], ["event", "form"]])
def test_ctrl_c_in_a_turn_says_how_to_watch_on(gateway, run, words):
    far = RemoteEnd("mine")

    def script(request):
        if request["action"] in ("ping", "resume"):
            return far(request)
        _thread.interrupt_main()
        return []

    gateway.script = script
    done = run(*words, "--conversation", "mine")
    assert (done.exit_code, done.stdout) == (130, "")
    assert re.fullmatch(
        r"a running turn continues; watch it with: \S*stepline watch mine --after 2 --stage dev",
        done.stderr.splitlines()[0],
    )


@pytest.fixture
def uploads(run, deploy, tmp_path, monkeypatch):
    """Give the deployed stage an HTTP API, and its user two files; return the command that sends with them."""
    monkeypatch.setenv("STEPLINE_TOKEN", TOKEN)
    (tmp_path / "a.csv").write_text("a,b\n")
    (tmp_path / "odd.csv").write_bytes(b"a\0b")
    with upload_server(Conversation().ports) as server:
        deploy(server.url)
        yield lambda *names: run("send", "see this", *(f"--attach={tmp_path}/{name}" for name in names))


def test_files_are_sent_with_a_message_and_their_progress_is_shown(gateway, uploads):
    gateway.script = far = RemoteEnd()
    done = uploads("a.csv", "a.csv")
    assert (done.exit_code, done.stdout.strip()) == (0, "Yes.")
    assert [len(request["uploads"]) for request in far.said] == [2]
    assert done.stderr.splitlines()[:2] == ["a.csv: uploading 4 bytes", "a.csv: accepted"]


def test_a_refused_file_is_reported_with_its_code_and_nothing_is_sent(gateway, uploads):
    gateway.script = far = RemoteEnd()
    done = uploads("a.csv", "odd.csv")
    assert (done.exit_code, far.said) == (1, [])
    assert done.stderr.splitlines()[-1].startswith("error: preflight_rejected: odd.csv is refused: ")
    assert uploads("none.csv").exit_code == 2


@pytest.mark.usefixtures("uploads")
def test_a_text_that_is_too_long_for_a_message_is_sent_as_a_file(gateway, run):
    gateway.script = far = RemoteEnd()
    assert run("send", "-", said="word " * 10_000).exit_code == 0
    (request,) = far.said
    assert (len(request["uploads"]), "message.txt" in request["text"]) == (1, True)


def test_a_token_of_a_deployed_stage_is_the_one_that_is_given(run, gateway):
    assert run("token").stdout == "ey.token\n"
    assert json.loads(run("token", "--json").stdout) == {"token": "ey.token", "url": gateway.url}
    renewed = run("token", "--json", "--token-command", "echo other")
    assert json.loads(renewed.stdout) == {
        "token": "other",
        "url": gateway.url,
        "api_url": "https://api.example",
    }


@pytest.fixture
def listed(monkeypatch):
    """List the conversations of ann on a local stage that has some."""
    log = MemoryLog()
    for name, title, owner, n in (
        ("c-1", "Sales of \x1b[1mMay", "ann", 1),
        ("c-2", "A plan", "ann", 2),
        ("c-3", "His", "bob", 3),
    ):
        log.project(
            Listing(
                lane=make_lane(caller.TENANT, caller.PROJECT, name),
                owner=owner,
                title=title,
                last_at=f"2026-11-22T10:0{n}:00.000Z",
                applied_n=n,
                turn="turn_1",
                outcome="completed" if n == 2 else "",
            )
        )
    monkeypatch.setattr(caller, "find_stage", lambda: None)
    monkeypatch.setattr(logview, "open_log", lambda _: (log, MemoryArtifacts()))
    return lambda *words: CliRunner().invoke(main, ["conversations", "--user", "ann", *words])


def test_conversations_are_listed_newest_first_with_time_and_title(listed):
    newest, oldest = listed().stdout.splitlines()
    assert newest.split("  ")[0].strip() == "c-2"
    assert newest.endswith("2026-11-22 10:02  completed  A plan")
    assert "2026-11-22 10:01  open       Sales of" in oldest
    assert "\x1b" not in oldest


def test_with_json_a_conversation_is_an_object(listed):
    found = [json.loads(line) for line in listed("--json").stdout.splitlines()]
    assert [(one["conversation"], one["title"], one["n"]) for one in found] == [
        ("c-2", "A plan", 2),
        ("c-1", "Sales of \x1b[1mMay", 1),
    ]


def test_feedback_is_sent_about_the_newest_turn_or_the_named_one(gateway, run):
    gateway.script = far = RemoteEnd("mine")
    assert run("feedback", "mine", "not_ok", "--text", "too long").exit_code == 0
    assert run("feedback", "mine", "none", "--turn", "turn_1").exit_code == 0
    said = [(one["action"], one["turn"], one["reaction"], one["text"]) for one in far.said]
    assert said == [("feedback", "", "not_ok", "too long"), ("feedback", "turn_1", None, "")]
    assert run("feedback", "mine", "great").exit_code == 2
    assert run("feedback", "none", "ok").exit_code == 1


def test_feedback_that_is_refused_is_an_error(gateway, run):
    def refuse(request):
        return ErrorFrame(code="turn_open", message="not yet", message_id=request["message_id"])

    gateway.script = RemoteEnd("mine", refuses=refuse)
    refused = run("feedback", "mine", "ok", "--text", "?")
    assert (refused.exit_code, "turn_open" in refused.stderr) == (1, True)
