"""Files that come with a message, from the command line to the request on the wire."""

from __future__ import annotations

import hashlib
import json

import pytest

from stepline.inspection.request_view import DIGEST_CHARS
from stepline.local.client.http_api import HttpApi
from stepline.local.stage.lifecycle import mint
from tests.e2e.stage import a_word, answer_of
from tests.support.files import noise

pytestmark = pytest.mark.emulator

PNG = "image/png"


@pytest.fixture
def api(scripted):
    deployed = scripted.deployed
    found = HttpApi(
        deployed.api_url, lambda: mint(deployed, scripted.user, tenant="local", project="default")
    )
    yield found
    found.close()


def sent_files(request):
    """Return the hashes of the pictures of a request to the model."""
    return [
        part["source"]["sha256"]
        for message in request["body"]["messages"]
        for part in message["content"]
        if part["type"] == "image"
    ]


def shown_files(view):
    """Return the digests of the pieces of a request that are files."""
    return {piece.digest for part in view.parts for piece in part.pieces if piece.kind == "file"}


def test_a_picture_from_the_command_line_is_in_the_request_and_the_inspector_shows_it(
    scripted, conversation, api, tmp_path
):
    name, data = f"{a_word()}.png", noise(PNG, (40, 30))
    digest = hashlib.sha256(data).hexdigest()
    (tmp_path / name).write_bytes(data)
    lines = scripted.send(f"Read {name}", conversation, "--attach", f"{tmp_path}/{name}")
    first, *_, last = scripted.model_requests(name)
    assert (sent_files(first), sent_files(last)) == ([], [digest])
    assert "40x30" in answer_of(lines)
    (event,) = scripted.entries(conversation, "in")
    assert [(file["filename"], file["sha256"]) for file in event["attachments"]] == [(name, digest)]
    (turn,) = api.list_conversation_rounds(conversation).turns
    view = api.get_request(conversation, turn.rounds[-1].decided_n)
    assert view.equal
    assert digest[:DIGEST_CHARS] in shown_files(view)


def test_a_refused_file_is_reported_and_the_message_is_not_sent(scripted, conversation, tmp_path):
    (tmp_path / "odd.csv").write_bytes(b"a\0b")
    done = scripted.command(
        *("send", "Hello there.", "--conversation", conversation, "--new", "--user", scripted.user),
        *("--attach", f"{tmp_path}/odd.csv", "--json"),
        check=False,
    )
    error = json.loads(done.stderr.splitlines()[-1])
    assert (done.returncode, error["code"]) == (1, "preflight_rejected")
    assert "text_binary" in error["message"]
    resumed = scripted.command("watch", conversation, "--user", scripted.user, "--json", check=False)
    assert resumed.returncode == 1


def test_a_text_that_no_message_carries_goes_as_a_file(scripted, conversation):
    word = a_word()
    text = "Hello there. " * 3_000 + word
    assert answer_of(scripted.send(text, conversation))
    (event,) = scripted.entries(conversation, "in")
    (file,) = event["attachments"]
    stored = scripted.object_bytes(f"att/local/default/{conversation}/sent/{file['sha256']}")
    assert (file["filename"], stored.decode()) == ("message.txt", text)
    assert word not in event["text"]
