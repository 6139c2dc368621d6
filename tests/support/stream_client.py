"""A client that reads a conversation by offsets, as the stream endpoint offers it, and folds what it gets."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepline.delivery.stream_offset import StreamOffset, parse_offset
from stepline.delivery.stream_page import StreamPage, StreamReader
from stepline.local.client.change import Effect
from stepline.local.client.control import Control
from stepline.local.client.state import ClientState
from stepline.log.journal import Journal
from tests.support.conversation import LANE, USER, Conversation, frames
from tests.support.fold import fold_frames


class StreamClient:
    """Each read is that of a new process; `effects` are those of everything that it read."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.offset = StreamOffset().render()
        self.state = ClientState(conversation=LANE.conversation)
        self.sizes: list[int] = []
        self.effects: list[Effect] = []

    def reader(self) -> StreamReader:
        ports: Any = self.conversation.ports
        return StreamReader(Journal(ports, LANE, "api"), USER, parse_offset(self.offset))

    def take(self, page: StreamPage) -> StreamPage:
        after = page.offset.render()
        assert after > self.offset if page.frames else after == self.offset
        self.offset = after
        self.state, effects = fold_frames(self.state, frames(page.frames))
        self.effects += effects
        self.sizes.append(sum(map(len, page.frames)))
        return page

    def read(self) -> StreamPage:
        return self.take(self.reader().read())

    def catch_up(self) -> ClientState:
        while not self.read().ends:
            pass
        return self.state

    def shown(self) -> ClientState:
        """Return the state without the text of a stream that has ended, which a client that came later never gets."""
        return self.state if self.state.streaming() else replace(self.state, lanes={}, control=Control())

    def texts(self) -> dict[str, str]:
        """Return the running text that the client shows."""
        return {name: lane.text for name, lane in self.state.lanes.items()} if self.state.streaming() else {}
