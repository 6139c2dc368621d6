"""A conversation whose models are servers, chosen by variables as in a deployment."""

from __future__ import annotations

from stepline.bootstrap.memory_wiring import in_memory
from stepline.model.entry import Closed
from stepline.ports.model import ModelClient
from stepline.settings import Settings
from tests.support.conversation import Conversation


class ServedConversation(Conversation):
    """A conversation whose model is a server."""

    def __init__(self, chosen: dict[str, str]) -> None:
        super().__init__()
        app = in_memory(Settings.from_env(chosen))
        self.provider = app.provider_model()
        self.ports = app.ports
        self.log, self.machine, self.clock = app.ports.log, app.ports.machine, app.ports.clock

    @property
    def answering(self) -> ModelClient:
        return self.provider

    def ask(self, text: str, id: str = "m1") -> Closed:  # noqa: A002 - as the client's
        """Send a message, and return the end of its turn."""
        self.send(text, id=id)
        self.run()
        closed: Closed = self.entries(Closed)[-1]
        return closed
