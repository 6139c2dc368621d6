"""The session in TypeScript over a real websocket, as docs/how-to/client.md uses it, cut in the middle of an answer."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from stepline.model.wire.event import AckFrame, ClientEvent, DeltaFrame, EventFrame, SyncFrame
from tests.unit.local.client.gateway import HANG_UP, WAIT_S, Gateway
from tests.unit.local.client.test_fold_in_typescript import NODE

ROOT: Final = Path(__file__).parents[4]
PAGE: Final = ROOT / "docs/how-to/client.md"
CORE: Final = ROOT / "web/packages/client/index.ts"
ANSWER: Final = "Hé🙂, three steps →\u2028 one, two, 👩‍🚀 three."
CUT: Final = 4


class Far:
    """Answers one message with `ANSWER`, and breaks the connection after its first characters."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: dict[str, Any]) -> list[Any]:
        self.asked.append(request)
        self.conversation = request["conversation"]
        if request["action"] == "send" and len(self.asked) == 1:
            return [self.batch(1, "chat.start", claim=1), self.delta(0, CUT), HANG_UP]
        if request["action"] == "send":
            return [self.ack(request["message_id"])]
        have = request["stream"]["off"]["answer.0"]
        sync = SyncFrame(conversation=self.conversation, n=1, claim=1, open=True, turn_id="turn_1")
        return [self.delta(have, len(ANSWER)), sync, self.batch(2, "chat.complete", answer=ANSWER)]

    def ack(self, message_id: str) -> AckFrame:
        """Answer a message that is already in the log."""
        place = {"conversation": self.conversation, "n": 1, "newest": 1}
        return AckFrame(message_id=message_id, kind="prompt", duplicate=True, **place)

    def batch(self, n: int, kind: str, claim: int = 0, **data: Any) -> EventFrame:
        event = ClientEvent(type=kind, route="", ts="", turn_id="turn_1", data=data)
        return EventFrame(conversation=self.conversation, n=n, prev=n - 1, claim=claim, events=(event,))

    def delta(self, off: int, end: int) -> DeltaFrame:
        text = ANSWER[off:end]
        return DeltaFrame(conversation=self.conversation, claim=1, lane="answer.0", off=off, text=text)


@pytest.mark.skipif(NODE is None, reason="there is no Node here")
def test_a_cut_answer_arrives_whole_and_once(gateway: Gateway, tmp_path: Path) -> None:
    far = Far()
    gateway.script = far
    (code,) = re.findall(r"```ts\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace('"@stepline/client"', f'"{CORE.as_uri()}"')
    script = tmp_path / "client.ts"
    script.write_text(f'const socketUrl = async () => "{gateway.url}";\n{code}', encoding="utf-8")
    assert NODE
    done = subprocess.run(
        [NODE, str(script)], capture_output=True, encoding="utf-8", timeout=2 * WAIT_S, check=False
    )
    assert (done.stdout, done.returncode) == (ANSWER, 0), done.stderr
    assert done.stderr.split() == ["connecting", "open", "lost", "open", "closed"]
    assert [request["action"] for request in far.asked] == ["send", "send", "resume"]
