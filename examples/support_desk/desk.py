"""A help desk: a ticket becomes an event, and the events of its turn come by long poll.

`python -m examples.support_desk.desk NUMBER TEXT`, with the variables of `stepline event-source`; `STEPLINE_URL` and
`STEPLINE_TOKEN` are the address of the HTTP API and a token of the user.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.request import Request, urlopen

from stepline import EventSource, Settings, event_source

ENDS = ("chat.complete", "chat.error")


def open_ticket(source: EventSource, where: Mapping[str, Any], text: str, *, user: str) -> None:
    """Begin the conversation of a ticket with an event that expects an answer; the same ticket again is the same event."""
    source.submit_event(
        **where,
        user=user,
        kind="ticket",
        payload={"text": text},
        reactive=True,
        founds=True,
        message_id=f"{where['conversation']}-opened",
    )


def read_events(url: str, token: str, conversation: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a conversation from its beginning, and each new one, until its turn ends."""
    offset, pieces, ended = "-1", list[str](), False
    while not ended:
        address = f"{url}/v1/conversations/{conversation}/stream?offset={offset}&live=long-poll"
        request = Request(address, headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=60) as answer:
            offset = answer.headers["Stream-Next-Offset"]
            frames = json.loads(answer.read() or "[]")  # 204 has no body: nothing new yet
        for frame in frames:
            events = frame.get("events", [])
            if "piece" in frame:  # a batch that is larger than a frame
                pieces.append(frame["piece"])
                if len(pieces) < frame["parts"]:
                    continue
                events, pieces = json.loads("".join(pieces)), []
            for event in events:
                yield event
                ended = ended or event["type"] in ENDS


def main(number: str, text: str) -> None:
    """Open a ticket, and print the types of its events and the answer."""
    settings = Settings.from_env(json.loads(os.environ["EVENT_SOURCE_ENVIRONMENT"]))
    source = event_source(settings, source="desk", role_arn=os.environ["EVENT_SOURCE_ROLE_ARN"])
    where = {"tenant": "local", "project": "default", "conversation": f"ticket-{number}"}
    open_ticket(source, where, text, user="ada")
    for event in read_events(os.environ["STEPLINE_URL"], os.environ["STEPLINE_TOKEN"], where["conversation"]):
        print(event["type"])
        if event["type"] == "chat.complete":
            print(event["data"]["final_answer"])


if __name__ == "__main__":
    main(*sys.argv[1:3])
