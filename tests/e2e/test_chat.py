"""The chat on a terminal, before the real stage: what is typed in each moment is what the log holds, byte for byte."""

from __future__ import annotations

import pytest

from stepline.local.stage.lifecycle import mint
from stepline.model.entry import Closed, Inbound
from tests.e2e.session_client import stored_batches
from tests.e2e.stage import a_word
from tests.e2e.test_recovery import check_log
from tests.unit.local.terminal.pty_chat import CTRL_C, CTRL_D, LINES, READY, typing

pytestmark = pytest.mark.emulator

SLOW_MS = 60


@pytest.fixture
def logged(scripted, conversation):
    def of(kind):
        batches = stored_batches(scripted, conversation)
        return [entry for batch in batches for entry in batch.entries if isinstance(entry, kind)]

    return of


def test_every_typed_message_is_in_the_log_in_order(scripted, conversation, logged, tmp_path):
    first, second = a_word(), a_word()
    for word in (first, second):
        scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    asked, asked_again = f"Tell me about the word {first}.", f"Tell me about the word {second}."
    pasted = "\n".join([asked, *LINES])
    stage = scripted.deployed
    token = mint(stage, scripted.user)
    with typing(
        stage.socket_url, tmp_path, conversation=conversation, user=scripted.user, token=token
    ) as person:
        person.type(f"{LINES[0]}\r")  # before anything is there
        person.until(lambda: len(logged(Closed)) == 1)
        person.until(READY)
        person.paste(pasted)
        person.type(f"\r{LINES[1]}\r/nonsense\r")
        person.until(lambda: len(logged(Inbound)) == 3 and scripted.model_requests(first))
        person.type("never sent" + CTRL_C + "/steer be short\r")
        person.until(lambda: len(logged(Closed)) == 2)
        person.type(f"{asked_again}\r")
        person.until(lambda: scripted.model_requests(second))
        person.type(CTRL_C)
        person.until(lambda: len(logged(Closed)) == 3)
        person.until(lambda: "working" not in person.screen())
        person.type("".join(f"{line}\r" for line in LINES[2:6]) + CTRL_D)
        assert person.left() == 0
    said = [entry.text for entry in logged(Inbound)]
    assert said == [LINES[0], pasted, LINES[1], "be short", asked_again, "", *LINES[2:6]]
    scripted.watch(conversation)
    check_log(scripted, conversation)
