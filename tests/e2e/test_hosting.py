"""A file that a turn made, fetched from the deployed stage by its link, its name and its address."""

from __future__ import annotations

import hashlib

import pytest
import requests

from stepline.local.stage.lifecycle import mint
from tests.e2e.order import events
from tests.e2e.sales import WRITE
from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator

PLAIN = "text/plain; charset=utf-8"


def ask(stage, method, path, body=None, *, user=""):
    """Ask the HTTP API as a user of the stage, and follow no redirect."""
    return requests.request(
        method,
        f"{stage.deployed.api_url.rstrip('/')}{path}",
        json=body,
        headers={"Authorization": f"Bearer {mint(stage.deployed, user or stage.user)}"},
        allow_redirects=False,
        timeout=30,
    )


def test_a_produced_file_is_fetched_by_its_link_with_the_headers_that_were_signed(stage, conversation):
    lines = stage.send(WRITE.format(word=a_word()), conversation)
    (item,) = events(lines, "chat.files")[0]["data"]["items"]
    at = f"/v1/conversations/{conversation}"
    (row,) = ask(stage, "GET", f"{at}/files").json()["items"]
    assert item == {name: row[name] for name in item}
    assert row["rn"].startswith("ef:local:default:chatbot:file:")

    asked = {"path": row["logical_path"], "disposition": "preview"}
    link = ask(stage, "POST", f"{at}/file-links", asked).json()
    shown = requests.get(link["url"], timeout=30)
    assert shown.status_code == 200
    assert hashlib.sha256(shown.content).hexdigest() == row["sha256"] == link["sha256"]
    assert shown.headers["Content-Type"] == PLAIN
    assert (
        shown.headers["Content-Disposition"] == "inline; filename=\"sales.csv\"; filename*=UTF-8''sales.csv"
    )
    assert shown.headers["Cache-Control"] == "private, no-store"
    for old, new in (
        ("text%2Fplain", "text%2Fhtml"),
        ("filename", "filename2"),
        ("Expires=300", "Expires=900"),
    ):
        assert old in link["url"]
        assert requests.get(link["url"].replace(old, new), timeout=30).status_code == 403

    found = ask(stage, "POST", "/resources/by-rn", {"rn": row["rn"]}).json()
    assert found["content"].encode() == shown.content
    led = ask(stage, "GET", found["metadata"]["uri"])
    assert led.status_code == 302
    saved = requests.get(led.headers["Location"], timeout=30)
    assert (saved.content, saved.headers["Content-Disposition"].partition(";")[0]) == (
        shown.content,
        "attachment",
    )

    for method, path, body in (
        ("GET", f"{at}/files", None),
        ("POST", f"{at}/file-links", asked),
        ("POST", "/resources/by-rn", {"rn": row["rn"]}),
        ("GET", found["metadata"]["uri"], None),
    ):
        refused = ask(stage, method, path, body, user="mallory")
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
