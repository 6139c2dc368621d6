"""`/v1/responses` of `stepline serve` and the client of OpenAI: streamed, polled, continued, cut off, cancelled, refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from stepline.local.stage.deployed import install_environment
from tests.e2e.stage import TURN_TIMEOUT_S, a_word
from tests.e2e.test_door_server import ASKED, SLOW_MS, Caller, serving

pytestmark = pytest.mark.emulator

PACKAGES = ("openai==3.57.0", "openresponses-types==2.4.0")
JUDGE = "tests/support/judge_responses.py"
ACCEPTED = "error.code"
"""The code of a turn that fails is ours."""
BEGINNING = """\
import json, sys
from openai import APIStatusError, OpenAI
given = json.loads(sys.argv[1])
client = OpenAI(base_url=given["url"] + "/v1", api_key=given["token"], max_retries=0)
chat = {"model": "stepline", "extra_body": {"conversation": given["conversation"]}}
ASKED = given["asked"]

def texts(events):
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")

def polled(response_id):
    while (response := client.responses.retrieve(response_id)).status in ("queued", "in_progress"):
        pass
    return response

def refusal(**request):
    try:
        client.responses.create(**request)
    except APIStatusError as error:
        return [error.status_code, error.code, error.param]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The published packages, in a folder of their own."""
    folder = tmp_path_factory.mktemp("openai")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *PACKAGES]
    subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    return folder


def python(folder, *argv, **options):
    return subprocess.run(
        [sys.executable, *argv],
        env=dict(install_environment()) | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=TURN_TIMEOUT_S,
        check=False,
        **options,
    )


class OpenAiCaller(Caller):
    """A user's requests by the published client: each script sets `result`, a value of JSON."""

    def __init__(self, stage, conversation, url, folder):
        super().__init__(stage, conversation)
        self._folder = folder
        self._url = url

    def call(self, script, asked="", **more):
        token = self._headers["Authorization"].removeprefix("Bearer ")
        given = {"url": self._url, "token": token, "conversation": self.conversation, "asked": asked, **more}
        ran = python(
            self._folder, "-c", f"{BEGINNING}\n{script}\nprint(json.dumps(result))", json.dumps(given)
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def judge(self, *readings):
        """Assert that the published types accept the events of these readings."""
        lines = [json.dumps({"name": str(at), "events": events}) for at, events in enumerate(readings)]
        judged = python(self._folder, JUDGE, input="\n".join(lines))
        assert judged.returncode == 0, judged.stderr
        assert [line for line in judged.stdout.splitlines() if ACCEPTED not in line] == []


@pytest.fixture(scope="module")
def server(deployed_script):
    assert deployed_script
    with serving() as (_, url):
        yield url


@pytest.fixture
def asked(scripted):
    """A request that the model answers for some seconds."""
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    return ASKED.format(word=word)


@pytest.fixture
def caller(scripted, conversation, server, folder):
    return OpenAiCaller(scripted, conversation, server, folder)


def test_a_response_is_streamed_in_pieces_and_read_again_as_a_whole(caller, asked):
    streamed, response = caller.call(
        """
events = list(client.responses.create(input=ASKED, stream=True, **chat))
result = [[event.to_dict() for event in events], client.responses.retrieve(events[-1].response.id).to_dict()]
""",
        asked,
    )
    caller.judge(streamed)
    deltas = [event["delta"] for event in streamed if event["type"] == "response.output_text.delta"]
    assert len(deltas) > 5
    assert streamed[-1]["type"] == "response.completed"
    assert streamed[-1]["response"]["output"] == response["output"]
    answer = caller.end()["answer"]
    assert "".join(deltas) == response["output"][-1]["content"][0]["text"] == answer


def test_a_response_in_the_background_is_polled_and_the_next_one_continues_its_conversation(caller):
    first, second, conversation = caller.call("""
first = client.responses.create(model="stepline", input="My name is Ada.", background=True)
assert first.status == "queued"
first = polled(first.id)
second = client.responses.create(model="stepline", input="And yours?", previous_response_id=first.id)
conversation = client.responses.retrieve(second.id).to_dict()["conversation"]["id"]
result = [first.to_dict(), second.to_dict(), conversation]
""")
    assert first["status"] == second["status"] == "completed"
    assert first["usage"]["total_tokens"] > 0
    assert second["previous_response_id"] == first["id"]
    assert first["conversation"]["id"] == conversation
    accepted = [
        event for event in caller.events(conversation) if event["type"] == "chat.conversation.accepted"
    ]
    assert [event["data"]["text"] for event in accepted] == ["My name is Ada.", "And yours?"]


def test_a_stream_that_is_cut_continues_after_its_last_number(caller, asked):
    first, rest, late = caller.call(
        """
first = []
with client.responses.create(input=ASKED, stream=True, **chat) as stream:
    for event in stream:
        first.append(event)
        if event.type == "response.output_text.delta":
            break
name, last = first[0].response.id, first[-1].sequence_number
rest = list(client.responses.retrieve(name, stream=True, starting_after=last))
late = list(client.responses.retrieve(name, stream=True))
result = [[texts(first), texts(rest)], [event.to_dict() for event in rest], [event.to_dict() for event in late]]
""",
        asked,
    )
    caller.judge(rest, late)
    beginning, continued = first
    assert beginning
    assert continued
    assert beginning + continued == caller.end()["answer"]
    assert rest[-1] == late[-1]


def test_a_cancellation_ends_the_turn_with_the_text_that_was_shown(caller, scripted, asked):
    status, shown, output = caller.call(
        """
shown, cancelled = [], None
for event in client.responses.create(input=ASKED, stream=True, **chat):
    shown.append(event)
    if event.type == "response.output_text.delta" and cancelled is None:
        cancelled = client.responses.cancel(shown[0].response.id)
result = [[cancelled.status, shown[-1].response.status], texts(shown), shown[-1].response.output_text]
""",
        asked,
    )
    assert status == ["cancelled", "cancelled"]
    end = caller.end()
    assert end["reason"] == "stop"
    assert shown == output == end["answer"]
    assert len(scripted.model_requests(asked.split()[-1])) == 1


def test_bad_input_is_refused_by_name_and_the_prefix_is_that_of_our_own_client(caller, scripted):
    word = a_word()
    refusals, stranger, left_out = caller.call(
        """
picture = [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]}]
refusals = [
    refusal(input=picture, **chat),
    refusal(input="a", tool_choice="required", **chat),
    refusal(input="a", model="nowhere", extra_body={"conversation": given["conversation"]}),
    refusal(input="a", model="stepline", previous_response_id="resp_1"),
]
first = client.responses.create(input=ASKED, instructions="Speak like a pirate.", tools=[
    {"type": "function", "name": "weather", "parameters": {}, "strict": False}
], **chat)
stranger = OpenAI(base_url=given["url"] + "/v1", api_key="a.b.c", max_retries=0)
client = stranger
result = [refusals, refusal(input="a", model="stepline"), first.to_dict()["stepline:left_out"]]
""",
        ASKED.format(word=word),
    )
    assert refusals == [
        [400, "unsupported_part", "input[0].content[0]"],
        [400, "unsupported_tool", "tool_choice"],
        [400, "unknown_bundle", None],
        [404, "not_found", None],
    ]
    assert stranger[:2] == [401, "unauthorized"]
    assert [one["name"] for one in left_out] == ["weather"]
    ours = a_word()
    scripted.send(ASKED.format(word=ours), f"{caller.conversation}-ours")
    (theirs, *_), (own, *_) = scripted.model_requests(word), scripted.model_requests(ours)
    assert "pirate" in json.dumps(theirs["body"]["messages"])
    for part in ("system", "tools"):
        assert json.dumps(theirs["body"].get(part)) == json.dumps(own["body"].get(part))
    assert theirs["body"]["system"]


def test_another_user_reads_and_cancels_nothing(caller, scripted, server, folder):
    (name,) = caller.call("""
result = [client.responses.create(input="Hello there.", **chat).id]
""")
    scripted.user = f"{scripted.user}x"
    stranger = OpenAiCaller(scripted, caller.conversation, server, folder)
    assert stranger.call(
        """
def code(call):
    try:
        call(given["name"])
    except APIStatusError as error:
        return error.code
result = [code(client.responses.retrieve), code(client.responses.cancel),
          refusal(input="a", model="stepline", previous_response_id=given["name"])]
""",
        name=name,
    ) == ["not_found", "not_found", [404, "not_found", None]]
