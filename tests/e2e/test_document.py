"""A document on the deployed stage: made in a round, drawn in the jail, and offered as a file."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.e2e.order import check_order, events, terminals
from tests.e2e.stage import answer_of
from tests.e2e.test_recovery import check_log

pytestmark = pytest.mark.emulator

REQUEST = "Search for prompt caching and make a document {} of what you find."


@pytest.mark.parametrize("name", ["report.pdf", "report.docx"])
def test_a_document_is_made_of_search_results_and_offered_with_its_sources(executing, conversation, name):
    stage, kind = executing, name.rpartition(".")[2]
    lines = stage.send(REQUEST.format(name), conversation)
    check_order(lines)
    assert len(terminals(lines)) == 1

    found, made = stage.entries(conversation, "result")
    assert (found["tool_id"], made["tool_id"]) == ("web_tools.web_search", f"rendering_tools.write_{kind}")
    assert made["status"] == "ok", made
    (status,) = [json.loads(block["text"]) for block in made["blocks"] if block.get("text")]
    assert status["sources_used"]
    assert status["size_bytes"] > 10_000
    (body,) = [block["body"] for block in made["blocks"] if block.get("body")]
    data = stage.object_bytes(body["key"])
    if kind == "pdf":
        assert data.startswith(b"%PDF-")
        assert status["pages"] == 1
    else:
        text = zipfile.ZipFile(io.BytesIO(data)).read("word/document.xml").decode()
        assert "Sources" in text
        assert "[[S:" not in text

    (offered,) = events(lines, "chat.files")
    (item,) = offered["data"]["items"]
    assert item["logical_path"] == f"fi:{offered['turn_id']}.outputs/{name}"
    assert (item["sha256"], item["size_bytes"]) == (body["sha256"], len(data))
    assert name in answer_of(lines)
    check_log(stage, conversation)
