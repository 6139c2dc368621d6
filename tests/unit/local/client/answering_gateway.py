"""A remote end that answers like an agent: a script for a simulated or a real gateway."""

from __future__ import annotations

from stepline.errors import InputError
from stepline.model.wire.event import AckFrame, ClientEvent, EventFrame


def no_uploader(_conversation):
    """Replace the uploader of a client without files."""
    raise InputError("nothing is uploaded here", code="not_deployed")


def no_api():
    """Replace the HTTP API of a client that makes no branches."""
    raise InputError("there is no API here", code="not_deployed")


class Agent:
    """A remote end whose turn runs until a stop, or until `patience` more messages arrived."""

    def __init__(self, patience=1):
        self.patience = patience
        self.conversation, self.n = "", 0
        self.open = False
        self.queued = {}
        self.heard = []
        self.uploads = []

    def event(self, kind, step="", **data):
        return ClientEvent(type=kind, route="", ts="", turn_id="turn_1", step=step, data=data)

    def batch(self, *events):
        self.n += 1
        return EventFrame(conversation=self.conversation, n=self.n, prev=self.n - 1, claim=0, events=events)

    def dropped(self, message_id, kind, n, reason):
        data = {"n": n, "message_id": message_id, "kind": kind, "reason": reason}
        return ClientEvent(type="chat.step", route="", ts="", step="dropped", data=data)

    def __call__(self, request):
        if request["action"] in ("ping", "resume"):
            return []
        if request["conversation"] != self.conversation:
            self.conversation, self.n = request["conversation"], 0
        message_id = request["message_id"]
        if request["action"] == "feedback":
            return self.rated(request)
        kind = request.get("kind", "followup" if self.open else "prompt")
        text = request.get("text", request.get("payload", {}).get("text", ""))
        self.heard.append((kind, text))
        self.uploads.append(request.get("uploads", []))
        said = {"message_id": message_id, "kind": "steer" if kind == "stop" else kind, "text": text}
        accepted = ClientEvent(type="chat.conversation.accepted", route="", ts="", data=said)
        frames, n = [], self.n + 1
        if kind == "prompt":
            self.open = True
            frames.append(self.batch(accepted, self.event("chat.start")))
        elif not self.open:
            frames.append(self.batch(accepted, self.dropped(message_id, "steer", n, "nothing_to_steer")))
        else:
            frames.append(self.batch(accepted))
        turn = "turn_1" if self.open else ""
        ack = AckFrame(message_id=message_id, conversation=self.conversation, n=n, kind=kind, turn_id=turn)
        frames.append(ack)
        if kind == "followup":
            self.queued[message_id] = n
        if self.open and kind in ("stop", "steer"):
            frames.append(self.end(message_id, n, text))
        elif self.open and len(self.queued) >= self.patience:
            self.open, self.queued = False, {}
            frames.append(self.batch(self.event("chat.complete", answer="all heard")))
        return frames

    def rated(self, request):
        self.heard.append(("feedback", request["turn"], request["reaction"], request["text"]))
        given = self.event("turn.feedback", origin="user", reaction=request["reaction"], text=request["text"])
        frame = self.batch(given)
        ack = AckFrame(
            message_id=request["message_id"], conversation=self.conversation, n=frame.n, kind="feedback"
        )
        return [frame, ack]

    def end(self, message_id, n, text):
        self.open = False
        heeded = {"sequence": n, "message_id": message_id, "text": text, "finalize_rounds": 2 if text else 0}
        back = [
            self.dropped(known, "followup", at, "stopped") for known, at in self.queued.items() if not text
        ]
        self.queued = {}
        return self.batch(
            self.event("timeline.external.steer.interrupted", **heeded),
            self.event("chat.complete", answer="so far"),
            *back,
        )
