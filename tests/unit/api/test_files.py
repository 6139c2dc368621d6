"""Files over HTTP: the list, links, resource names, and the addresses that lead to links."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from stepline.api import files as api_files
from stepline.api.resources import TEXT_MAX_BYTES
from stepline.model.block import Body, Produced
from stepline.model.entry import Contributed
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.file.served_form import PLAIN, ServedForm
from stepline.model.path import out_key
from stepline.model.program.handover import ObjectGrant
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

URL = f"/v1/conversations/{LANE.conversation}"
CSV = b"a,b\n1,2\n"
SENT = Attachment(
    filename="Zahlen.csv", mime="text/csv", size_bytes=len(CSV), sha256=hashlib.sha256(CSV).hexdigest()
)
HOSTILE = {
    'a"; filename="evil.exe': None,
    "a\r\nX: y.md": None,
    "../../a.md": None,
    "a\u202etxt.md": None,
    f"{'ä' * 126}.md": "ä",
    "über uns (1).md": "über",
}
"""Names that a client tries, and the beginning of the file's actual name, if the name is allowed in a path."""


def write(path: str, content: str = "# A", *, channel: str = "canvas") -> str:
    return called("react.write", {"path": path, "channel": channel, "content": content, "kind": "file"})


class Talk:
    """A conversation that received and offered files, and its user's caller."""

    def __init__(self, *script: str) -> None:
        self.conversation = Conversation(*script)
        self.ports = self.conversation.ports
        self.caller = Caller(self.ports)

    def turn(self, **fields: Any) -> str:
        self.conversation.send(**fields)
        self.conversation.run()
        return self.conversation.timeline().turns[-1]

    def put(self, name: str, mime: str, data: bytes, *, visibility: str = "external") -> str:
        """Put a file of any type into the open turn, or a new one, as a bundle may, and return its path."""
        if self.conversation.state.status != "open":
            self.conversation.send(id=f"m{self.conversation.tail.n}")
        timeline = self.conversation.timeline()
        turn, digest = timeline.turns[-1], hashlib.sha256(data).hexdigest()
        body = Body(key=out_key(LANE, turn, digest), sha256=digest, size_bytes=len(data), mime=mime)
        self.ports.artifacts.put(body.key, data, mime=mime)
        path = f"fi:{turn}.outputs/{name}"
        block = Produced(path=path, body=body, mime=mime, meta={"visibility": visibility})
        tail, entry = self.conversation.tail, Contributed(turn=turn, at="", blocks=(block,))
        self.ports.log.put(LANE, replace(tail, n=tail.n + 1, by=f"test-{tail.n}", entries=(entry,)))
        return path

    def link(self, path: str, **more: str) -> Any:
        return self.caller.post(f"{URL}/file-links", {"path": path, **more})

    def fetch(self, url: str) -> tuple[bytes, ServedForm]:
        found: tuple[bytes, ServedForm] = self.ports.grants.fetch(ObjectGrant(url=url))  # type: ignore[attr-defined]  # the memory twin's own
        return found


@pytest.fixture
def talk() -> Talk:
    talk = Talk(write("outputs/a.md"), *(answered(f"{i}.") for i in range(4)))
    talk.ports.artifacts.put(attachment_key(LANE, SENT.sha256), CSV, mime="text/csv")
    talk.turn()
    return talk


def code(answer: Any) -> str:
    return str(json.loads(answer.body)["code"])


# --- the list


def test_the_list_of_files_has_offered_and_attached_files(talk: Talk) -> None:
    talk.conversation.clock.pause(60)
    turn = talk.turn(id="m2", attachments=(SENT,))
    attached, written = talk.caller.get(f"{URL}/files")["items"]
    assert attached == {
        "logical_path": f"fi:{turn}.user.attachments/Zahlen.csv",
        "filename": "Zahlen.csv",
        "mime": "text/csv",
        "size_bytes": len(CSV),
        "sha256": SENT.sha256,
        "turn_id": turn,
        "at": attached["at"],
        "versions": 1,
        "origin": "user",
        "call_id": "",
        "rn": f"ef:acme:support:chatbot:attachment:{USER}:c-1:{turn}:user:attachments/Zahlen.csv",
    }
    assert attached["at"] > written["at"] > ""
    assert (written["filename"], written["origin"], written["versions"]) == ("a.md", "agent", 1)
    assert written["call_id"].startswith("tc_")
    assert talk.caller.get(f"{URL}/files", turn=turn)["items"] == [attached]
    assert talk.caller.get(f"{URL}/files", turn="turn_nowhere") == {"items": [], "next": ""}


def test_the_rows_of_the_list_match_the_event(talk: Talk) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    frames = talk.caller.get(f"{URL}/events")["events"]
    (event,) = [event for frame in frames for event in frame["events"] if event["type"] == "chat.files"]
    (item,) = event["data"]["items"]
    assert item == {name: row[name] for name in item}
    assert {"rn", "sha256", "call_id", "logical_path"} <= item.keys()


def test_pages_of_files_end_between_turns_and_are_adjacent(talk: Talk) -> None:
    for i in range(2):
        talk.put(f"{i}.csv", "text/csv", b"x%d" % i)
    talk.conversation.run()
    talk.turn(id="m9", attachments=(SENT,))
    first = talk.caller.get(f"{URL}/files", limit="1")
    second = talk.caller.get(f"{URL}/files", limit="1", after=first["next"])
    assert [row["filename"] for row in first["items"]] == ["Zahlen.csv"]
    assert [row["filename"] for row in second["items"]] == ["1.csv", "0.csv"]
    third = talk.caller.get(f"{URL}/files", limit="1", after=second["next"])
    assert ([row["filename"] for row in third["items"]], third["next"]) == (["a.md"], "")
    assert code(talk.caller.ask("GET", f"{URL}/files", after="turn_nowhere")) == "bad_cursor"


def test_a_page_of_files_reads_a_bounded_number_of_turns(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_files, "TURNS_AT_ONCE", 1)
    talk.turn(id="m2")
    page = talk.caller.get(f"{URL}/files")
    assert page["items"] == []
    assert [row["filename"] for row in talk.caller.get(f"{URL}/files", after=page["next"])["items"]] == [
        "a.md"
    ]


# --- links


def test_a_link_gives_the_bytes_for_a_while(talk: Talk) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    link = talk.link(row["logical_path"])
    assert {name: link[name] for name in ("mime", "size_bytes", "sha256", "expires_in_s")} == {
        "mime": "text/markdown",
        "size_bytes": 3,
        "sha256": hashlib.sha256(b"# A").hexdigest(),
        "expires_in_s": 300,
    }
    data, form = talk.fetch(link["url"])
    assert (data, form.mime) == (b"# A", PLAIN)
    assert form.disposition == "attachment; filename=\"a.md\"; filename*=UTF-8''a.md"
    talk.conversation.clock.pause(301)
    with pytest.raises(Exception, match="expired"):
        talk.fetch(link["url"])


@pytest.mark.parametrize(
    ("mime", "shown"),
    [
        ("image/png", "image/png"),
        ("image/webp", "image/webp"),
        ("text/plain", PLAIN),
        ("text/markdown", PLAIN),
        ("application/json", PLAIN),
        ("text/html", ""),
        ("image/svg+xml", ""),
        ("application/xhtml+xml", ""),
        ("text/xml", ""),
        ("text/javascript", ""),
        ("application/pdf", "application/pdf"),
        ("application/zip", ""),
    ],
)
def test_only_harmless_files_are_shown_in_the_browser(talk: Talk, mime: str, shown: str) -> None:
    path = talk.put("file.bin", mime, b"<script>alert(1)</script>")
    _, form = talk.fetch(talk.link(path, disposition="preview")["url"])
    assert form.disposition.startswith("inline;" if shown else "attachment;")
    assert form.mime == (shown or "application/octet-stream")
    assert talk.fetch(talk.link(path)["url"])[1].disposition.startswith("attachment;")


def test_an_internal_file_is_not_found(talk: Talk) -> None:
    absent = talk.caller.ask("POST", f"{URL}/file-links", {"path": "fi:turn_x.outputs/a.md"})
    path = talk.put("plan.md", "text/markdown", b"secret", visibility="internal")
    assert talk.caller.ask("POST", f"{URL}/file-links", {"path": path}) == absent
    assert absent.status == 404
    assert "plan.md" not in str(talk.caller.get(f"{URL}/files"))
    name = f"ef:acme:support:chatbot:file:{USER}:c-1:{path[3:].partition('.')[0]}:artifact:outputs/plan.md"
    assert talk.caller.ask("POST", "/resources/by-rn", {"rn": name}).status == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_name_is_refused_or_complete_in_its_header(talk: Talk, name: str) -> None:
    shown = HOSTILE[name]
    turn = talk.conversation.timeline().turns[-1]
    if shown is None:
        refused = talk.caller.ask("POST", f"{URL}/file-links", {"path": f"fi:{turn}.outputs/{name}"})
        assert (refused.status, code(refused)) == (400, "bad_path")
        return
    path = talk.put(name, "text/markdown", b"x")
    _, form = talk.fetch(talk.link(path)["url"])
    assert form.disposition.endswith(f"filename*=UTF-8''{quote(name, safe='')}")
    assert form.disposition.isascii()


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "fi:",
        "so:sources_pool[1]",
        "ks:a.md",
        "ar:turn_1.user.prompt",
        "fi:turn_1.code.tc_1",
        "fi:conv_other.turn_1.outputs/a.md",
        "fi:turn_1.outputs/../a.md",
        "out/acme/support/c-1/turn_1/0",
    ],
)
def test_a_path_of_no_file_of_the_conversation_is_refused(talk: Talk, path: str) -> None:
    refused = talk.caller.ask("POST", f"{URL}/file-links", {"path": path})
    assert (refused.status, code(refused)) == (400, "bad_path")


# --- resource names


def by_name(talk: Talk, rn: str) -> Any:
    return talk.caller.post("/resources/by-rn", {"rn": rn})


def test_a_text_is_read_by_its_resource_name(talk: Talk) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    found = by_name(talk, row["rn"])
    facts = found["metadata"]
    assert (found["rn"], found["content_type"], found["content"]) == (row["rn"], "file", "# A")
    assert (facts["mime"], facts["is_binary"], facts["filename"]) == ("text/markdown", False, "a.md")
    assert talk.fetch(facts["preview_url"])[1].disposition.startswith("inline;")
    assert talk.fetch(facts["download_url"])[1].disposition.startswith("attachment;")


@pytest.mark.parametrize(
    ("mime", "data"), [("application/zip", b"PK\x03\x04"), ("text/plain", b"x" * (TEXT_MAX_BYTES + 1))]
)
def test_binary_and_long_files_are_read_by_their_links(talk: Talk, mime: str, data: bytes) -> None:
    talk.put("b.bin", mime, data)
    row = talk.caller.get(f"{URL}/files")["items"][0]
    found = by_name(talk, row["rn"])
    assert found["content"] == ""
    assert found["metadata"]["is_binary"] == (mime == "application/zip")
    assert talk.fetch(found["metadata"]["download_url"])[0] == data


def test_a_lost_body_is_distinguished_from_an_absent_file(talk: Talk) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    talk.ports.artifacts.objects.clear()  # type: ignore[attr-defined]  # the memory twin's own
    answer = talk.caller.ask("POST", "/resources/by-rn", {"rn": row["rn"]})
    assert (answer.status, code(answer)) == (503, "body_missing")


@pytest.mark.parametrize("rn", ["", "ef:", "fi:turn_1.outputs/a.md", "s3://bucket/out/acme"])
def test_an_invalid_resource_name_is_refused(talk: Talk, rn: str) -> None:
    answer = talk.caller.ask("POST", "/resources/by-rn", {"rn": rn})
    assert (answer.status, code(answer)) == (400, "bad_rn")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (":acme:", ":umbrella:"),
        (":support:", ":sales:"),
        (f":{USER}:", ":eve:"),
        (":c-1:", ":c-2:"),
        (":turn_", ":turn_x"),
        ("a.md", "b.md"),
    ],
)
def test_a_name_of_another_conversation_is_answered_like_a_missing_one(
    talk: Talk, old: str, new: str
) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    other = row["rn"].replace(old, new)
    answer = talk.caller.ask("POST", "/resources/by-rn", {"rn": other})
    assert (answer.status, code(answer)) == (404, "not_found")
    if new in (":umbrella:", ":sales:", ":eve:"):
        nothing = talk.caller.ask("POST", "/resources/by-rn", {"rn": row["rn"].replace(":c-1:", ":c-2:")})
        assert answer == nothing


@pytest.mark.parametrize("who", [{"user": "eve"}, {"tenant": "umbrella"}, {"project": "sales"}])
def test_a_resource_name_is_useless_to_other_users(talk: Talk, who: dict[str, str]) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    stranger = Caller(talk.ports, **who)
    own = row["rn"]
    for part, name in (("user", USER), ("tenant", LANE.tenant), ("project", LANE.project)):
        own = own.replace(f":{name}:", f":{who.get(part, name)}:")
    absent = own.replace(":c-1:", ":c-9:")
    answers = [stranger.ask("POST", "/resources/by-rn", {"rn": rn}) for rn in (row["rn"], own, absent)]
    assert {answer.status for answer in answers} == {404}
    assert len({answer.body for answer in answers}) == 1


# --- addresses


def test_the_address_of_a_file_leads_to_a_new_link_each_time(talk: Talk) -> None:
    turn = talk.turn(id="m2", attachments=(SENT,))
    rows = talk.caller.get(f"{URL}/files")["items"]
    uris = [by_name(talk, row["rn"])["metadata"]["uri"] for row in rows]
    place = f"/resources/acme/support/conv/{USER}/c-1/turn"
    assert uris == [
        f"{place}/{turn}/attachment/Zahlen.csv/download",
        f"{place}/{rows[1]['turn_id']}/exec/outputs/a.md/download",
    ]
    for uri, row in zip(uris, rows, strict=True):
        for end, how in (("download", "attachment"), ("preview", "inline")):
            answer = talk.caller.ask("GET", uri.removesuffix("download") + end)
            assert (answer.status, answer.body, answer.headers["Cache-Control"]) == (302, b"", "no-store")
            data, form = talk.fetch(answer.headers["Location"])
            assert (len(data), form.disposition.partition(";")[0]) == (row["size_bytes"], how)


def test_the_address_of_a_later_file_has_its_event(talk: Talk) -> None:
    talk.conversation.send(id="m2")
    talk.conversation.send(id="m3", attachments=(SENT,))
    talk.conversation.run()
    (row,) = [row for row in talk.caller.get(f"{URL}/files")["items"] if row["origin"] == "user"]
    uri = by_name(talk, row["rn"])["metadata"]["uri"]
    assert uri.endswith("/attachment/external/followup/attachments/m3/Zahlen.csv/download")
    assert talk.fetch(talk.caller.ask("GET", uri).headers["Location"])[0] == CSV


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"conv/{USER}/", "conv/eve/"),
        ("acme", "umbrella"),
        ("/support/", "/sales/"),
        ("/c-1/", "/c-2/"),
        ("outputs/a.md", "outputs/b.md"),
        ("outputs/a.md", "outputs/..%2Foutputs/a.md"),
        ("outputs/a.md", "attachments/a.md"),
        ("outputs/a.md", "code/a.md"),
        ("a.md/", "a.md%00/"),
        ("turn_", ""),
        ("/download", "/show"),
        ("/download", ""),
        ("exec/", "attachment/"),
    ],
)
def test_an_unknown_address_is_not_found(talk: Talk, old: str, new: str) -> None:
    (row,) = talk.caller.get(f"{URL}/files")["items"]
    uri = by_name(talk, row["rn"])["metadata"]["uri"]
    assert old in uri
    answer = talk.caller.ask("GET", uri.replace(old, new))
    assert (answer.status, code(answer)) == (404, "not_found")
