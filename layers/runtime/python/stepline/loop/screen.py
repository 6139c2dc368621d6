"""What the listeners see of a running generation: its thinking, its notes and, once it is one, its answer.

A lane is `<what>.<instance>`. The final answer is held until the decision says that it answers, so a client
never shows the text of a decision that turns out to call a tool.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepline.ports.relay import RelayStream
from stepline.protocol.field import Delta, FieldStream, Known
from stepline.protocol.grammar import DECISION, THINKING
from stepline.protocol.transcript import ChannelEvent, Opened, Text

_ANSWERS = ("complete", "exit")


class Screen:
    """Routes channel events to the lanes of one stream; `answer` is the answer's text shown so far."""

    def __init__(self, stream: RelayStream) -> None:
        self._stream = stream
        self._fields = FieldStream()
        self._instance = 0
        self._action = ""
        self._held: list[str] = []
        self.answer = ""

    def show(self, events: Sequence[ChannelEvent]) -> None:
        """Take the next events of the parser."""
        for event in events:
            match event:
                case Opened(channel=DECISION.name, instance=instance):
                    self._fields, self._instance, self._action, self._held = FieldStream(), instance, "", []
                case Text(channel=THINKING.name, instance=instance, text=text):
                    self._stream.push(f"thinking.{instance}", text)
                case Text(channel=DECISION.name, text=text):
                    self._decision(text)

    def _decision(self, text: str) -> None:
        for fact in self._fields.feed(text):
            match fact:
                case Known(fact="action", value=action):
                    self._action = action
                    self._answer("".join(self._held))
                case Delta(field="notes", text=piece):
                    self._stream.push(f"notes.{self._instance}", piece)
                case Delta(field="final_answer", text=piece):
                    self._answer(piece)

    def _answer(self, text: str) -> None:
        if not self._action:
            self._held.append(text)
        elif self._action in _ANSWERS and text:
            self.answer += text
            self._stream.push(f"answer.{self._instance}", text)
