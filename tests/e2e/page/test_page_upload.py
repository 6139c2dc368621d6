"""Files on the chat page: chosen, pasted and dropped; with progress and a verdict; refused with a reason."""

from __future__ import annotations

import re
import struct
import zlib
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from stepline.model.file.mime import DOCX
from tests.e2e.page.chat_page import BRIEF
from tests.e2e.stage import a_word
from tests.support.generation import answered
from tests.support.office import document

pytestmark = pytest.mark.emulator

EXE = b"MZ\x90\x00" + bytes(60)
MACROS = {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0" + bytes(60)}
HAND = """([kind, place, name, text]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name, { type: "text/csv" }));
  const target = document.querySelector(place);
  for (const one of kind === "drop" ? ["dragenter", "dragover", "drop"] : ["paste"]) {
    const given = { bubbles: true, cancelable: true };
    target.dispatchEvent(one === "paste"
      ? new ClipboardEvent(one, { ...given, clipboardData: carried })
      : new DragEvent(one, { ...given, dataTransfer: carried }));
  }
}"""


def picture(width=40, height=30):
    """Return a grey PNG of this size."""
    lines = zlib.compress(b"".join(b"\0" + b"\x90" * width for _ in range(height)))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", lines),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def table(word):
    return f"month,tons\n{word},1\n"


def attach(chat, name, data, mime="text/csv"):
    chat.page.locator("form.composer input[type=file]").set_input_files(
        {"name": name, "mimeType": mime, "buffer": data}
    )


def hand(chat, kind, name, text):
    """Paste a file into the field, or drop it on the thread."""
    place = "#composer-field" if kind == "paste" else ".talk"
    chat.page.evaluate(HAND, [kind, place, name, text])


def file_of(chat, name):
    return chat.page.locator("li.upload").filter(has_text=name)


@contextmanager
def held_forms(chat):
    """Let no file leave the browser before the end."""
    held = []

    def hold(route):
        is_form = "multipart/form-data" in route.request.headers.get("content-type", "")
        held.append(route) if is_form else route.continue_()

    chat.page.route("**/*", hold)
    yield
    for route in held:
        route.continue_()
    chat.page.unroute("**/*", hold)


def test_a_file_goes_up_is_judged_and_the_message_that_waited_for_it_is_read_with_it(chat):
    word = a_word()
    with held_forms(chat):
        attach(chat, f"{word}.csv", table(word).encode())
        expect(file_of(chat, word).get_by_role("progressbar")).to_be_visible()
        chat.say(f"Read {word}.csv")
        expect(chat.page.locator(".composer")).to_contain_text("Will be sent when its files are ready.")
        expect(chat.turns).to_have_count(0)
    expect(chat.turns).to_have_count(1)
    expect(file_of(chat, word)).to_have_count(0)
    turn = chat.turns.last
    expect(turn.locator("ul.attached")).to_contain_text(f"{word}.csv")
    chat.await_idle()
    assert "month,tons" in str(chat.stage.model_requests(word)[-1]["body"])
    (accepted,) = [e["data"] for e in chat.events() if e["type"] == "chat.conversation.accepted"]
    assert [file["filename"] for file in accepted["attachments"]] == [f"{word}.csv"]


def test_a_picture_is_shown_in_its_message_in_an_answer_and_in_the_preview(chat):
    word = a_word()
    attach(chat, f"{word}.png", picture(), "image/png")
    turn = chat.take_turn(f"Look at {word}.")
    thumbnail = turn.locator("ul.attached").get_by_role("img", name=f"{word}.png")
    expect(thumbnail).to_have_js_property("naturalWidth", 40)
    (said,) = [e["data"] for e in chat.events() if e["type"] == "chat.conversation.accepted"]
    path = said["attachments"][0]["path"]
    away = "![A map](https://example.com/map.png)"
    text = answered(f"Here it is again: ![The square]({path})\n\nand {away}.")
    chat.stage.fault(kind="fixture", match=f"Show {word}", text=text)
    turn = chat.take_turn(f"Show {word}.")
    shown = turn.locator(".say").get_by_role("img", name="The square")
    expect(shown).to_have_js_property("naturalWidth", 40)
    expect(turn.locator(".say").get_by_role("link", name="A map")).to_have_attribute(
        "href", re.compile("map.png")
    )
    expect(turn.locator(".say img")).to_have_count(1)
    shown.click()
    preview = chat.page.get_by_role("region", name=f"Preview of {word}.png")
    expect(preview.get_by_role("img")).to_have_js_property("naturalWidth", 40)


def test_a_refused_file_says_why_at_send_and_the_next_press_sends_without_it(chat):
    word = a_word()
    attach(chat, "macros.docx", document(DOCX, MACROS), DOCX)
    attach(chat, "tool.exe", EXE, "application/octet-stream")
    attach(chat, f"{word}.csv", table(word).encode())
    for name in ("macros.docx", "tool.exe"):
        expect(file_of(chat, name)).to_have_class(re.compile("refused"))
        expect(file_of(chat, name).locator(".why")).not_to_be_empty()
    expect(file_of(chat, word)).to_have_class(re.compile("ready"))
    chat.field.fill(BRIEF)
    chat.page.get_by_role("button", name="Remove tool.exe").click()
    chat.page.get_by_role("button", name="Send", exact=False).click()
    expect(chat.page.locator("#composer-hint")).to_contain_text("macros.docx can't be attached")
    expect(chat.turns).to_have_count(0)
    chat.page.get_by_role("button", name="Send", exact=False).click()
    expect(chat.turns).to_have_count(1)
    chat.await_idle()
    expect(chat.turns.last.locator("ul.attached li")).to_have_count(1)


def test_files_are_pasted_and_dropped_and_the_same_content_goes_up_once(chat):
    one, other = a_word(), a_word()
    hand(chat, "paste", f"{one}.csv", table(one))
    expect(file_of(chat, one)).to_have_class(re.compile("ready"))
    hand(chat, "drop", f"{other}.csv", table(other))
    expect(file_of(chat, other)).to_have_class(re.compile("ready"))
    hand(chat, "drop", "again.csv", table(one))
    expect(chat.page.locator(".files")).to_contain_text(f"again.csv has the same content as {one}.csv")
    expect(chat.page.locator("li.upload")).to_have_count(2)
    chat.page.on("dialog", lambda dialog: dialog.accept())
