"""`stepline serve` beside the stage: both doors stream a turn, and a cut, a stop or another process loses nothing of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise

import pytest
import requests

from stepline.local.stage.deployed import install_environment
from tests.e2e.stage import STEPLINE, WAIT_S, a_word

pytestmark = pytest.mark.emulator

ASKED = "Describe the word {word}."
SLOW_MS = 150
DONE = "[DONE]"
VALIDATOR = "ag-ui-validate==0.4.0"
ACCEPTED = {"AGUI902"}
"""A timestamp is optional, and a position in the log orders the events."""
JUDGE = """\
import json, sys
from ag_ui_validate import create_validator
found = []
for run in json.load(sys.stdin):
    validator = create_validator()
    for event in run:
        validator.feed(event)
    validator.finalize()
    report = validator.report()
    assert report.event_count == len(run) and not report.internal_errors
    found += [[one.rule, one.message] for one in report.diagnostics]
print(json.dumps(found))
"""


@contextmanager
def serving(*options):
    """Run a server of doors for the local stage, with more options; yield its process and its address. It is killed at the end, if it lives."""
    with subprocess.Popen(
        [STEPLINE, "serve", "--port", "0", *options],
        env=install_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server(deployed_script):
    assert deployed_script
    with serving() as (_, url):
        yield url


@pytest.fixture
def word(scripted):
    """A word about which the model writes for some seconds."""
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    return word


class Reading:
    """The values of one response, as they arrive; `values` has those that were read."""

    def __init__(self, response):
        self._response = response
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"].startswith("text/event-stream")
        self.values = []
        self._lines = response.iter_lines(chunk_size=1)

    def until(self, kind):
        """Read the next value of a type, and return it."""
        for value in self._read():
            if value != DONE and value["type"] == kind:
                return value
        raise AssertionError(f"no {kind} in {self.values}")

    def to_end(self):
        for _ in self._read():
            pass
        return self

    def cut(self):
        self._response.close()
        return self

    def kinds(self):
        return [value if value == DONE else value["type"] for value in self.values]

    def _read(self):
        for line in self._lines:
            if line.startswith(b"data: "):
                text = line.removeprefix(b"data: ").decode()
                self.values.append(text if text == DONE else json.loads(text))
                yield self.values[-1]


class Caller:
    """A user's requests to the servers of doors, about one conversation."""

    def __init__(self, stage, conversation, token=""):
        self.conversation = conversation
        self._api = stage.over_http()
        authorization = f"Bearer {token}" if token else self._api.authorization
        self._headers = {"Authorization": authorization}

    def ask(self, method, address, body=None):
        return requests.request(
            method, address, headers=self._headers, json=body, stream=True, timeout=WAIT_S
        )

    def chat(self, url, text):
        message = {"id": a_word(), "role": "user", "parts": [{"type": "text", "text": text}]}
        return self.ask("POST", f"{url}/chat", {"id": self.conversation, "messages": [message]})

    def resumed_chat(self, url, turn):
        return Reading(self.ask("GET", f"{url}/chat/{self.conversation}/stream?turn={turn}"))

    def run(self, url, text="", path="/agui"):
        messages = [{"id": a_word(), "role": "user", "content": text}] if text else []
        return self.ask("POST", f"{url}{path}", {
            "threadId": self.conversation, "runId": a_word(), "messages": messages,
            "tools": [], "context": [], "state": {}, "forwardedProps": {},
        })  # fmt: skip

    def connected(self, url):
        return Reading(self.run(url, path="/agui/connect"))

    def end(self):
        """Return the recorded end of the one turn."""
        (end,) = [event["data"] for event in self.events() if event["type"] == "chat.complete"]
        return end

    def events(self, conversation=""):
        page = self._api.get(f"/v1/conversations/{conversation or self.conversation}/events")
        return [event for frame in page["events"] for event in frame["events"]]


@pytest.fixture
def caller(scripted, conversation):
    return Caller(scripted, conversation)


def text_of_chat(reading):
    """Return the last text of a message of the AI SDK; each of them begins once, unless its step is reset."""
    parts, before = {}, {}
    for value in reading.values:
        match value:
            case {"type": "start-step"}:
                before = dict(parts)
            case {"type": "reset-step"}:
                parts = dict(before)
            case {"type": "text-start", "id": part}:
                assert part not in parts
                parts[part] = ""
            case {"type": "text-delta", "id": part, "delta": text}:
                parts[part] += text
    return list(parts.values())[-1]


def messages_of_runs(*readings):
    """Return the texts of a client of AG-UI that read these runs in turn: those of the user and of the agent."""
    messages = {}
    for value in (value for reading in readings for value in reading.values):
        match value:
            case {"type": "MESSAGES_SNAPSHOT", "messages": restated}:
                texts = (message for message in restated if message["role"] in ("user", "assistant"))
                messages = {one["id"]: {key: one[key] for key in ("id", "role", "content")} for one in texts}
            case {"type": "TEXT_MESSAGE_START", "messageId": message, "role": role}:
                messages[message] = {"id": message, "role": role, "content": ""}
            case {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": text}:
                messages[message]["content"] += text
    return list(messages.values())


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """Assert that the published validator accepts runs."""
    folder = tmp_path_factory.mktemp("ag_ui_validate")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), VALIDATOR]
    subprocess.run(pip, check=True)
    (folder / "judge.py").write_text(JUDGE)

    def check(*readings):
        judged = subprocess.run(
            [sys.executable, str(folder / "judge.py")],
            input=json.dumps([reading.values for reading in readings]),
            capture_output=True,
            text=True,
            check=True,
        )
        assert [finding for finding in json.loads(judged.stdout) if finding[0] not in ACCEPTED] == []

    return check


# --- AI SDK


def test_a_chat_that_is_cut_in_mid_stream_is_replayed_to_the_recorded_answer(server, caller, word):
    first = Reading(caller.chat(server, ASKED.format(word=word)))
    turn = first.until("start")["messageId"]
    first.until("text-delta")
    first.cut()
    rest = caller.resumed_chat(server, turn).to_end()
    assert rest.kinds()[0] == "start"
    assert rest.kinds()[-2:] == ["finish", DONE]
    assert rest.values[0]["messageId"] == turn
    assert text_of_chat(rest) == caller.end()["answer"]
    again = caller.resumed_chat(server, turn).to_end()
    assert text_of_chat(again) == text_of_chat(rest)


def test_a_chat_that_is_read_to_its_end_has_the_recorded_answer_in_pieces(server, caller, word):
    reading = Reading(caller.chat(server, ASKED.format(word=word))).to_end()
    assert reading.kinds().count("text-delta") > 5
    assert reading.kinds()[-2:] == ["finish", DONE]
    assert text_of_chat(reading) == caller.end()["answer"]
    assert caller.ask("GET", f"{server}/chat/{caller.conversation}/stream").status_code == 204
    listed = caller.ask("GET", f"{server}/chat/{caller.conversation}/messages").json()
    assert [message["role"] for message in listed] == ["user", "assistant"]
    assert listed[-1]["parts"][-1]["text"] == caller.end()["answer"]


# --- AG-UI


def test_a_run_that_is_cut_in_mid_stream_is_continued_to_the_recorded_answer(server, caller, judge, word):
    first = Reading(caller.run(server, ASKED.format(word=word)))
    first.until("TEXT_MESSAGE_CONTENT")
    first.cut()
    rest = caller.connected(server).to_end()
    assert "TEXT_MESSAGE_CONTENT" in rest.kinds()  # it did not come too late
    assert rest.kinds()[-1] == "RUN_FINISHED"
    late = caller.connected(server).to_end()
    read = messages_of_runs(first, rest)
    assert read[-1]["content"] == caller.end()["answer"]
    assert read == messages_of_runs(late)
    judge(rest, late)


def test_a_run_that_is_read_to_its_end_has_the_recorded_answer(server, caller, judge, word):
    run = Reading(caller.run(server, ASKED.format(word=word))).to_end()
    assert run.kinds()[-1] == "RUN_FINISHED"
    assert messages_of_runs(run)[-1]["content"] == caller.end()["answer"]
    judge(run)


# --- The prompt


def content_of(request):
    """Return the parts of the only message of a request to the model."""
    (message,) = request["body"]["messages"]
    return message["content"]


def cached_text(request):
    """Return the text of a request up to the last mark of its message."""
    content = content_of(request)
    last = max(at for at, part in enumerate(content) if "cache_control" in part)
    return "".join(part["text"] for part in content[: last + 1])


def test_a_conversation_keeps_its_cached_prefix_when_each_message_comes_by_another_door(
    server, scripted, caller
):
    word = a_word()
    text = ASKED.format(word=word)
    scripted.send(text, caller.conversation)
    for ask in (caller.chat, caller.run):
        Reading(ask(server, text)).to_end()
    scripted.send(text, caller.conversation)
    requests = scripted.model_requests(word)
    for before, after in pairwise(requests):
        assert after["body"]["system"] == before["body"]["system"]
        assert "".join(part["text"] for part in content_of(after)).startswith(cached_text(before))
    assert cached_text(requests[-1]).count("\n[USER MESSAGE]\n") == 4


# --- Stop


def test_a_stop_ends_a_chat_with_the_text_that_was_shown(server, scripted, caller, word):
    reading = Reading(caller.chat(server, ASKED.format(word=word)))
    reading.until("text-delta")
    assert caller.ask("POST", f"{server}/chat/{caller.conversation}/stop").status_code == 204
    reading.to_end()
    assert reading.kinds()[-1] == DONE
    assert "abort" in reading.kinds()
    end = caller.end()
    assert end["reason"] == "stop"
    assert end["answer"] == text_of_chat(reading)
    assert len(scripted.model_requests(word)) == 1


def test_a_stop_cancels_a_run(server, caller, judge, word):
    run = Reading(caller.run(server, ASKED.format(word=word)))
    run.until("TEXT_MESSAGE_CONTENT")
    assert caller.ask("POST", f"{server}/agui/{caller.conversation}/stop").status_code == 204
    run.to_end()
    assert run.values[-1]["outcome"] == {"type": "cancelled"}
    assert caller.end()["reason"] == "stop"
    assert messages_of_runs(run)[-1]["content"] == caller.end()["answer"]
    judge(run)


# --- Sign-in


def test_a_wrong_token_and_an_expired_one_are_refused_by_each_address(server, scripted, conversation):
    expired = scripted.over_http(ttl_s=-60).authorization.removeprefix("Bearer ")
    for token in ("a.b.c", expired):
        caller = Caller(scripted, conversation, token)
        for refused in (
            caller.chat(server, "Hello there."),
            caller.run(server, "Hello there."),
            caller.run(server, path="/agui/connect"),
            caller.ask("GET", f"{server}/chat/{conversation}/stream"),
            caller.ask("GET", f"{server}/chat/{conversation}/messages"),
            caller.ask("POST", f"{server}/chat/{conversation}/stop"),
        ):
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), refused.url


def test_another_user_reads_and_stops_nothing(server, scripted, caller, word):
    reading = Reading(caller.chat(server, ASKED.format(word=word)))
    reading.until("text-delta")
    scripted.user = f"{scripted.user}x"
    stranger, address = Caller(scripted, caller.conversation), f"{server}/chat/{caller.conversation}"
    assert stranger.ask("GET", f"{address}/stream").status_code == 204
    assert stranger.ask("GET", f"{address}/messages").json() == []
    assert stranger.ask("POST", f"{address}/stop").json()["code"] == "not_found"
    refused = Reading(stranger.run(server, "Hello there.")).to_end()
    assert refused.kinds() == ["RUN_STARTED", "RUN_ERROR"]
    assert refused.values[-1]["code"] == "not_found"
    reading.to_end()
    assert text_of_chat(reading) == caller.end()["answer"]


# --- The end of a process


def test_a_chat_resumes_at_another_process_when_its_own_is_terminated(server, caller, word):
    with serving() as (process, url):
        chat = Reading(caller.chat(url, ASKED.format(word=word)))
        turn = chat.until("start")["messageId"]
        chat.until("text-delta")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        chat.to_end()
    assert DONE not in chat.kinds()
    rest = caller.resumed_chat(server, turn).to_end()
    assert text_of_chat(rest) == caller.end()["answer"]


def test_a_run_is_continued_at_another_process_when_its_own_is_terminated(server, caller, judge, word):
    with serving() as (process, url):
        run = Reading(caller.run(url, ASKED.format(word=word)))
        run.until("TEXT_MESSAGE_CONTENT")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        run.to_end()
    assert not {"RUN_FINISHED", "RUN_ERROR"} & set(run.kinds())
    rest = caller.connected(server).to_end()
    assert messages_of_runs(run, rest)[-1]["content"] == caller.end()["answer"]
    judge(rest)
