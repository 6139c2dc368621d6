"""A subject in this process that holds under every fault, and that a flaw breaks in one way."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field

from bench.torture.subject import Event, Message, NotOfferedError, RefusedError, Transcript

PIECE_POLL_S = 0.01


class KilledError(Exception):
    """The process of the agent has ended."""


@dataclass
class Thread:
    """A stored thread: its messages as the model reads them, its events, and its state."""

    messages: list[dict] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    open: bool = False
    waiting: bool = False
    stopped: bool = False


class MemorySubject:
    """An agent of threads: `flaw` names what is broken, and "" is none."""

    def __init__(self, place, flaw=""):
        self._place, self._flaw = place, flaw
        self._threads: dict[str, Thread] = {}
        self._process = 0
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._throttled_until_s = 0.0

    def start(self):
        pass

    def close(self):
        self.kill()

    def kill(self):
        with self._lock:
            self._process += 1

    def restart(self, release="one"):
        self._process += 1
        for thread in self._threads.values():
            if thread.open and not thread.waiting and self._flaw != "sticks":
                if self._flaw == "loses":
                    thread.open = False
                    continue
                self._emit(thread, Event("reset"))
                self._run(thread)

    def deploy(self, release):
        self.kill()
        self.restart(release)

    def send(self, thread, text, message_id):
        if time.monotonic() < self._throttled_until_s:
            raise RefusedError("503 throttled")
        with self._lock:
            found = self._threads.setdefault(thread, Thread())
            if message_id in found.ids and self._flaw != "keeps_duplicates":
                return
            if found.open and self._flaw == "refuses":
                raise RefusedError("409 a turn runs")
            found.ids.add(message_id)
            found.messages.append({"role": "user", "content": text})
            running, found.open = found.open, True
        if not running:
            self._run(found)

    steer = send

    def read(self, thread):
        with self._lock:
            found = self._threads.setdefault(thread, Thread())
            messages = tuple(
                Message(one["role"], one["content"])
                for one in found.messages
                if one["role"] != "tool" and one["content"]
            )
            state = "waiting" if found.waiting else "running" if found.open else "idle"
            return Transcript(messages=messages, state=state, pending=tuple(found.pending))

    def answer(self, thread, call, *, approve):
        found = self._threads[thread]
        found.waiting, found.pending = False, []
        self._run(found, call=found.messages[-1]["tool_calls"][0] if approve else None)

    def stop(self, thread):
        if self._flaw == "has_no_stop":
            raise NotOfferedError("no page of its documentation has a stop")
        self._threads[thread].stopped = True

    def throttle(self, seconds):
        self._throttled_until_s = time.monotonic() + seconds

    def connect(self, thread, after=""):
        return MemoryStream(self, self._threads.setdefault(thread, Thread()), after)

    def _emit(self, thread, event):
        with self._changed:
            thread.events.append(event._replace(cursor=str(len(thread.events) + 1)))
            self._changed.notify_all()

    def _run(self, thread, call=None):
        worker = threading.Thread(target=self._turn, args=(thread, self._process, call), daemon=True)
        worker.start()

    def _turn(self, thread, process, call):
        try:
            self._rounds(thread, process, call)
        except (KilledError, OSError):
            if process == self._process:
                raise

    def _rounds(self, thread, process, call):
        if thread.messages[-1].get("tool_calls") and call is None:
            # The process was killed while the call ran: its outcome is not known.
            if self._flaw == "repeats":
                self._act(thread, process, thread.messages[-1]["tool_calls"][0])
            else:
                self._result(thread, thread.messages[-1]["tool_calls"][0]["id"], "unknown")
        if call is not None:
            self._act(thread, process, call)
        while True:
            text, calls = self._generate(thread, process)
            with self._lock:
                self._alive(process)
                thread.messages.append({"role": "assistant", "content": text, "tool_calls": calls})
                heard = thread.messages[-2]["role"] != "user" or not self._newer(thread, text)
                if not calls and (thread.stopped or heard):
                    thread.open = thread.stopped = False
                    self._emit(thread, Event("answer", text))
                    self._emit(thread, Event("end", "completed"))
                    return
            for one in calls:
                if one["function"]["name"] == "pay" and self._flaw != "approves_itself":
                    thread.waiting, thread.pending = True, [one["id"]]
                    self._emit(thread, Event("approval", call=one["id"]))
                    return
                self._act(thread, process, one)

    def _newer(self, thread, text):
        """Report whether a message was stored after the request for this answer had been made."""
        asked = [one["content"] for one in thread.messages if one["role"] == "user"]
        return any(one.split()[1] not in text for one in asked) and not thread.stopped

    def _act(self, thread, process, call):
        effects = self._place.effects
        word = json.loads(call["function"]["arguments"])["word"]
        if self._flaw == "approves_itself":
            self._emit(thread, Event("approval", call=call["id"]))
        with (effects.folder / "ledger").open("a") as ledger:
            ledger.write(f"{word}\n")
        kill = effects.folder / f"kill.{word}"
        if kill.exists():
            kill.unlink()
            self.kill()
        while (effects.folder / f"hold.{word}").exists():
            time.sleep(PIECE_POLL_S)
        self._alive(process)
        self._result(thread, call["id"], f"noted {word}")

    def _result(self, thread, call_id, text):
        with self._lock:
            at = next(
                at for at, one in enumerate(thread.messages) if call_id in json.dumps(one.get("tool_calls"))
            )
            thread.messages.insert(at + 1, {"role": "tool", "tool_call_id": call_id, "content": text})

    def _alive(self, process):
        if process != self._process:
            raise KilledError

    def _generate(self, thread, process):
        body = json.dumps({"messages": thread.messages, "stream": True}).encode()
        request = urllib.request.Request(f"{self._place.model_url}/v1/chat/completions", data=body)
        text, calls = "", []
        with urllib.request.urlopen(request, timeout=10) as response:
            for line in response:
                self._alive(process)
                if not line.startswith(b"data: {"):
                    continue
                (choice,) = json.loads(line[6:])["choices"]
                calls += choice["delta"].get("tool_calls", [])
                if piece := choice["delta"].get("content"):
                    text += piece
                    self._emit(thread, Event("text", piece))
                if thread.stopped:
                    return text, []
        if self._flaw == "garbles":
            text += " w00000000.1"
        return text, calls

    def events_after(self, thread, at, closed):
        """Return the events from a place on, once there are some; None when the connection is closed."""
        with self._changed:
            while len(thread.events) <= at and not closed.is_set():
                self._changed.wait(PIECE_POLL_S)
            return None if closed.is_set() else thread.events[at:]

    @property
    def replays_all(self):
        return self._flaw == "replays_all"


class MemoryStream:
    """A connection to a thread."""

    def __init__(self, subject, thread, after):
        self._subject, self._thread = subject, thread
        self._at = int(after) if after and not subject.replays_all else 0 if after else len(thread.events)
        self._closed = threading.Event()

    def __iter__(self):
        yield Event("ready")
        while (events := self._subject.events_after(self._thread, self._at, self._closed)) is not None:
            self._at += len(events)
            yield from events

    def close(self):
        self._closed.set()
