"""A remote end for session tests: a real websocket server on loopback, with a script of answers."""

from __future__ import annotations

import json
import queue
import threading
from contextlib import contextmanager

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from stepline.local.client.pace import Pace
from stepline.model.wire.event import encode_frame

WAIT_S = 60
HANG_UP = "hang up"
QUICK = Pace(
    tick_s=0.02, gap_s=0.0, resume_every_s=0.0, resume_answer_s=WAIT_S, reconnect_delays_s=(0.0, 0.0)
)


class Gateway:
    """Answers each message by `script(request)`, a list of frames, plain texts, and perhaps HANG_UP.

    No client is accepted while `accepting` is not set.
    """

    def __init__(self):
        self.script = lambda _: []
        self.requests = queue.Queue()
        self.fragments = queue.Queue()
        self.headers = []
        self.refuse_with = None
        self.accepting = threading.Event()
        self.accepting.set()
        self.url = ""

    def heard(self):
        return self.requests.get(timeout=WAIT_S)

    def serve(self, connection):
        try:
            while True:
                pieces = list(connection.recv_streaming())
                self.fragments.put([len(piece.encode()) for piece in pieces])
                request = json.loads("".join(pieces))
                self.requests.put(request)
                for frame in self.script(request):
                    if frame is HANG_UP:
                        return
                    connection.send(frame if isinstance(frame, str) else encode_frame(frame).decode())
        except ConnectionClosed:
            return

    def check(self, connection, request):
        self.accepting.wait()
        self.headers.append(request.headers)
        return connection.respond(self.refuse_with, "") if self.refuse_with else None


@contextmanager
def running_gateway():
    gateway = Gateway()
    with serve(gateway.serve, "127.0.0.1", 0, process_request=gateway.check, close_timeout=1) as server:
        gateway.url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/live"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield gateway
        server.shutdown()
        thread.join()
