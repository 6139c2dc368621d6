"""Record answers of the HTTP API for the inspector's tests: one file a conversation, one line an address.

`python web/tests/inspect/record.py reduced` calls the API in this process, for a conversation with a narrow context: a
hidden result, a refused decision, pruned turns, a summary. `python … stage` first holds a conversation of four turns on the
local stage, then calls that stage. A file's first line has the `usage`, which is the data of `accounting.usage` by turn, and
the `lines` that `stepline log` prints, by batch.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from stepline.adapters.memory.model import MemoryModelStream  # noqa: E402 - the tests' own packages are found from the root
from stepline.api.endpoint import Services  # noqa: E402
from stepline.api.endpoint_table import ENDPOINTS  # noqa: E402
from stepline.api.router import Request, Router  # noqa: E402
from stepline.events.derive import derive  # noqa: E402
from stepline.local.command.batches import open_log, read_batches, render_summary  # noqa: E402
from stepline.local.stage.deployed import load  # noqa: E402
from stepline.log.timeline_cache import History  # noqa: E402
from stepline.model.ids import make_lane  # noqa: E402
from stepline.model.usage import Usage, estimate_tokens  # noqa: E402
from stepline.ports.channel import Principal  # noqa: E402
from stepline.ports.model import ModelRequest, Part  # noqa: E402
from tests.e2e.stage import Stage, a_word  # noqa: E402
from tests.support.conversation import FAR, LANE, USER  # noqa: E402
from tests.support.generation import BROKEN, answered, called  # noqa: E402
from tests.support.small_context import BIG, SmallContext, prose  # noqa: E402

NEWEST: Final = "the path of the newest result"
DATA: Final = Path(__file__).with_name("data")


class CountingModel(SmallContext):
    """A narrow conversation whose model counts cached tokens as a provider does: up to a mark that it has seen before."""

    def __init__(self, **rules: Any) -> None:
        super().__init__(**rules)
        self.seen: set[str] = set()

    @property
    def answering(self) -> Any:
        return self

    def stream(self, request: ModelRequest) -> MemoryModelStream:
        if request.role.startswith("solver."):
            step = self.model._steps[0]  # noqa: SLF001 - the test sets the count of its next answer
            results = [piece.path for piece in self.timeline().pieces if piece.kind == "result"]
            text = step.text.replace(NEWEST, results[-1]) if results else step.text
            self.model._steps[0] = type(step)(text=text, usage=self.count(request, text))  # noqa: SLF001
        return self.voices.stream(request)

    def count(self, request: ModelRequest, said: str) -> Usage:
        read = marked = tokens = 0
        digest = hashlib.sha256()
        for part in (*request.system, *request.content):
            assert isinstance(part, Part)
            tokens += estimate_tokens(part.text)
            digest.update(part.text.encode())
            if part.cache:
                marked = tokens
                read = tokens if digest.hexdigest() in self.seen else read
                self.seen.add(digest.hexdigest())
        return Usage(
            input_tokens=tokens - marked,
            cache_read_tokens=read,
            cache_write_5m_tokens=marked - read,
            output_tokens=estimate_tokens(said),
        )


def hold_reduced() -> Any:
    """Hold a conversation with hidden, refused, pruned and summarized parts; return a function that calls the API for it."""
    talk = CountingModel(cache_minimum_tokens=256)
    talk.turn("What do otters eat?", prose(5_000), prose(900, "heron"), answer="Fish, mostly.")
    talk.texts.append(prose(5_000, "seal"))
    hidden = {"path": NEWEST, "replacement": "seals eat fish, said over and over"}
    talk.model.add(
        called(BIG, notes="I look it up."),
        called("react.hide", hidden, notes="The long page is not needed any more."),
        answered("Fish, too."),
    )
    talk.send("And seals? Keep it short.", id="m-hide")
    talk.run()
    talk.model.add(BROKEN, answered("I had lost my words."))
    talk.send("Say something broken.", id="m-broken")
    talk.run()
    talk.turn("And herons?", prose(6_000, "heron"), answer="Frogs.")
    talk.clock.pause(1_000)
    talk.turn("Once more, after a while.", answer="Good morning.")
    talk.talk("Tell me a lot.", rounds=8)
    services = Services(ports=talk.ports, history=History(), inspect="owner")
    router, usages = Router(ENDPOINTS), {}
    for batch in talk.batches():
        for event in derive(batch):
            if event.type == "accounting.usage":
                usages[event.turn_id] = event.data

    def ask(what: str, role: str = "user") -> Any:
        path, _, query = what.partition("?")
        principal = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR, role=role)
        asked = Request(
            method="GET",
            path=f"/v1/conversations/{LANE.conversation}/{path}",
            query=dict(one.split("=", 1) for one in query.split("&") if one),
        )
        return json.loads(router.answer(services, principal, asked).body)

    return ask, LANE.conversation, usages, talk.batches()


def hold_on_stage() -> Any:
    """Hold a conversation of four turns on the local stage; return a function that calls the API for it."""
    stage = Stage(load())
    word = a_word()
    conversation = f"inspected-{word}"
    for text in (
        "Make a plan with three steps, write it to a file with the word heron in it and read it back.",
        "Search for prompt caching and tell me what you find.",
        "Run this program:\n```python\nopen('outputs/done.txt', 'w').write('done')\n```",
        "Search for prompt injection and write what you find to a file cache.md",
    ):
        stage.send(text, conversation)
    user, admin = stage.over_http(), stage.over_http(role="tenant_admin")
    url = f"/v1/conversations/{conversation}"
    frames = user.get(f"{url}/events", turns=20)["events"]
    events = [event for frame in frames for event in frame.get("events", ())]
    usages = {event["turn_id"]: event["data"] for event in events if event["type"] == "accounting.usage"}

    def ask(what: str, role: str = "user") -> Any:
        return (admin if role != "user" else user).get(f"{url}/{what}")

    log = read_batches(*open_log(stage.deployed), make_lane("local", "default", conversation))
    return ask, conversation, usages, log


def record(name: str, ask: Any, conversation: str, usages: Any, batches: Any) -> None:
    """Store the answers that the inspector needs, with the requests of the last round, the sixth, and all cache misses."""
    answers = {what: ask(what) for what in ("timeline", "receipts")}
    after: int | None = 0
    while after is not None:
        page = answers[f"log?after={after}&limit=50"] = ask(f"log?after={after}&limit=50")
        after = page["next"]
    rounds = [one for turn in answers["timeline"]["turns"] for one in turn["rounds"]]
    numbers = [one["decided_n"] for one in rounds]
    for n in numbers:
        answers[f"decisions/{n}"] = ask(f"decisions/{n}")
    for at, one in enumerate(rounds):
        if at not in {5, len(rounds) - 1} and not one["bust"]:
            continue
        for n in (numbers[at - 1], numbers[at]):
            answers[f"requests/{n}"] = ask(f"requests/{n}")
        answers[f"requests/{numbers[at - 1]}/diff?to={numbers[at]}"] = ask(
            f"requests/{numbers[at - 1]}/diff?to={numbers[at]}"
        )
    parts = [part for answer in answers.values() for part in answer.get("parts", ())]
    reductions = [piece["reduced"] for part in parts for piece in part["pieces"] if piece["reduced"]]
    for path in sorted({reduced["path"] for reduced in reductions} - {""}):
        answers[f"blocks?path={path}"] = ask(f"blocks?path={path}")
    lines = {batch.n: list(render_summary(batch)) for batch in batches}
    head = {"conversation": conversation, "usage": usages, "lines": lines}
    admin = {"admin": f"requests/{numbers[0]}", "answer": ask(f"requests/{numbers[0]}", "tenant_admin")}
    rows = [head, *({"what": what, "answer": answer} for what, answer in answers.items()), admin]
    text = "".join(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in rows)
    (DATA / f"{name}.jsonl").write_text(text)


if __name__ == "__main__":
    held = hold_on_stage() if sys.argv[1] == "stage" else hold_reduced()
    record(sys.argv[1], *held)
