"""Everything that the functions of a stage do on the way of a message, as one scene."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from stepline.adapters.aws.tenancy.erasure import tombstone_key
from stepline.ingress.erase_user import ERASED
from stepline.local.client.change import Acknowledged, TextAppended, TurnEnded
from stepline.local.stage.deployed import LocalStage, client
from stepline.log.erase_conversation import CLASSES
from stepline.model.ids import Lane, execution_name, make_lane
from tests.e2e.service import Service
from tests.e2e.stage import Stage, a_word
from tests.e2e.strict_client import PATIENT, BrokenTurnError, Person, Talk

PLAN = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
PROGRAM = "Run this program:\n```python\n{}\n```"
READING = """\
import os, sys, time
print(open(os.environ["OUTPUT_DIR"] + "/{turn}/outputs/plan.md").read())
open("outputs/{word}.txt", "w").write("x" * 40_000)
sys.stdout.flush()
time.sleep(4)
"""
PADDING = "I say more than one batch can hold: ✓✓✓✓✓✓✓✓✓✓. " * 640
"""More bytes than a batch has, in fewer characters than a message has."""
SWEEPER = "stepline-local-sweeper"
REPORTING = {"socket", "api", "decide", "act", "execute", "output", "preflight", "close"}
"""The functions that work for the conversation of the scene, and report what it cost."""
SOON_S = 20
POLL_S = 0.3


class Scene:
    """A browser's way in; a long message, a plan and a file; what a page shows of it, another title and a file from outside;
    a program that reads the first one; a service's event with a file of its own; a turn that is taken over.
    All of it within limits that an admin has set; at last it is deleted, and the person goes.
    """

    def __init__(self, deployed: LocalStage, home: Path) -> None:
        self._deployed = deployed
        self._home = home
        self._stage = Stage(deployed)
        self._states = client("stepfunctions", deployed)
        self._patience = PATIENT

    def play(self, patience: int = PATIENT) -> None:
        """Play it once. Raises BrokenTurnError at the first thing that does not happen as it must."""
        self._patience = patience
        person, conversation = Person(self._deployed, self._home, patience=patience), f"e2e-{a_word()}"
        self._limit(person)
        with person.enter(conversation, person.ticket()) as talk:
            talk.renew(person.ticket())
            self._write(talk)
            self._look(talk, person)
            self._upload(talk, person)
            self._run(talk)
            self._hear_from_a_service(talk, person)
            self._take_over(talk, person)
            self._sweep()
            self._count(talk, person)
            self._delete(talk, person)
            self._leave(talk, person)

    def _limit(self, person: Person) -> None:
        """Let an admin limit what the person may do, of each kind one limit."""
        admin = Person(self._deployed, self._home, role="project_admin")
        limits = {"messages_per_minute": 100, "turns_at_once": 2, "tokens_day": 10**9, "usd_month": 10**6}
        limits["storage_bytes"] = 10**12
        admin.ask("PUT", f"/v1/tenants/local/projects/default/users/{person.name}/limits", limits)

    def _write(self, talk: Talk) -> None:
        word = self._pace(0)
        talk.say(f"{PLAN.format(word=word)}\n\n{PADDING}")
        answer = talk.answer()
        if word not in answer or talk.acknowledged != 1:
            raise BrokenTurnError(f"the word was not read back, or the message not acknowledged: {answer}")

    def _look(self, talk: Talk, person: Person) -> None:
        """Ask over HTTP for what a page shows, say what was read, and name the conversation."""
        conversation = talk.state.conversation
        url = f"/v1/conversations/{conversation}"
        listed = [row["conversation"] for row in person.ask("GET", "/v1/conversations")["items"]]
        events = person.ask("GET", f"{url}/events")["events"]
        if listed != [conversation] or events[-1]["n"] != talk.state.cursor:
            raise BrokenTurnError(
                f"the list or the page of events is another one: {listed} {events[-1]['n']}"
            )
        decided = person.ask("GET", f"{url}/timeline")["turns"][0]["rounds"][0]["decided_n"]
        if not person.ask("GET", f"{url}/requests/{decided}")["equal"]:
            raise BrokenTurnError("the request of a round is not the one that was sent")
        person.ask("PUT", f"{url}/read", {"n": talk.state.cursor})
        if person.ask("GET", url)["unread_n"]:
            raise BrokenTurnError("what was read is not known")
        title = f"About {a_word()}"
        person.ask("PATCH", url, {"title": title})
        talk.hear_title(title)

    def _upload(self, talk: Talk, person: Person) -> None:
        """Upload a file, and hear that it was taken."""
        upload = person.upload(talk.state.conversation, a_word().encode(), "notes.txt")
        if (event := talk.hear_notice()).data["upload"] != upload or event.type != "chat.attachments":
            raise BrokenTurnError(f"the file was not taken: {event}")

    def _run(self, talk: Talk) -> None:
        """Let a program read what the turn before wrote."""
        word = self._pace(0)
        talk.say(PROGRAM.format(READING.format(turn=talk.turn, word=word)))
        answer = talk.answer()
        done = [event.data["status"] for event in talk.events if event.type == "code_exec.status"]
        if "Read the file back" not in answer or done[-1:] != ["done"]:
            raise BrokenTurnError(f"the program did not read the file: {done} {answer}")
        if "Read the file back" not in talk.printed:
            raise BrokenTurnError(f"the program was not seen to print: {talk.printed!r}")

    def _hear_from_a_service(self, talk: Talk, person: Person) -> None:
        """Let another service open a turn, with a file that the agent finds."""
        word = self._pace(0)
        talk.begin(overtaken=True)
        submitted = Service(self._deployed, person.name).submit(
            talk.state.conversation,
            "report",
            f"report-{word}",
            reactive=True,
            payload={"text": f"Tell me about the word {word}.\n\n{PADDING}"},
            files={"notes.txt": word},
        )
        if submitted.get("fate") != "opened":
            raise BrokenTurnError(f"the service's event opened no turn: {submitted}")
        talk.answer()

    def _take_over(self, talk: Talk, person: Person) -> None:
        """End the execution in mid-turn, while another client of the same person begins to listen."""
        word = self._pace(150, 0)
        talk.say(f"Tell me about the word {word}.")
        epoch = talk.hear(Acknowledged).frame.n
        with person.enter(talk.state.conversation) as late:
            late.resume()
            talk.hear(TextAppended)
            arn = self._deployed.machine_arn.replace(":stateMachine:", ":execution:")
            name = execution_name(make_lane("local", "default", talk.state.conversation), epoch)
            self._states.stop_execution(executionArn=f"{arn}:{name}")
            talk.answer()
            late.hear(TurnEnded)
        if not any(event.type == "round.restarted" for event in talk.events):
            raise BrokenTurnError("the turn was not taken over")

    def _count(self, talk: Talk, person: Person) -> None:
        """Find the turns counted, their slots free, and a report of every function that worked for them."""
        mine = person.ask("GET", "/v1/limits")["scopes"][0]
        if (
            mine["limits"]["turns_at_once"] != 2
            or not mine["used"].get("tokens_day")
            or mine["used"].get("turns")
        ):
            raise BrokenTurnError(f"the account says something else: {mine}")
        lane = self._lane(talk)
        soon(lambda: REPORTING - self._reports(lane), "no report of", self._patience)
        receipts = person.ask("GET", f"/v1/conversations/{lane.conversation}/receipts")
        if not receipts["aws_usd"]:
            raise BrokenTurnError(f"the receipts are without what AWS costs: {receipts}")

    def _reports(self, lane: Lane) -> set[str]:
        return {json.loads(row["body"]["B"])["function"] for row in self._rows(f"COST#{lane.key()}")}

    def _delete(self, talk: Talk, person: Person) -> None:
        """Delete the conversation; it is over at once, and soon nothing of what was said is left."""
        lane = self._lane(talk)
        person.ask("DELETE", f"/v1/conversations/{lane.conversation}")
        talk.hear_of_its_end()
        soon(lambda: self._content(lane), "not erased", self._patience)

    def _content(self, lane: Lane) -> list[str]:
        """Return the names of what is left of a conversation: its objects, and rows with content."""
        listed = client("s3", self._deployed)
        left = [
            found["Key"]
            for kind in CLASSES
            for found in listed.list_object_versions(
                Bucket=self._deployed.bucket, Prefix=f"{kind}/{lane.prefix()}/"
            ).get("Versions", ())
        ]
        left += [row["sk"]["S"] for row in self._rows(f"LOG#{lane.key()}") if "body" in row]
        beside = (self._rows(f"{word}#{lane.key()}") for word in ("CONV", "UPLOAD"))
        left += [row["sk"]["S"] for rows in beside for row in rows if row["sk"]["S"] not in ("HEAD", "TOMB")]
        kept = listed.list_objects_v2(Bucket=self._deployed.bucket, Prefix=tombstone_key(lane))
        return left + ([] if kept["KeyCount"] else ["no tombstone is kept"])

    def _leave(self, talk: Talk, person: Person) -> None:
        """Erase the person, who is notified and disconnected."""
        talk.watch()
        person.ask("POST", "/v1/me/erasure")
        talk.hear_farewell(ERASED)

    def _rows(self, pk: str) -> list[dict[str, Any]]:
        pages = (
            client("dynamodb", self._deployed)
            .get_paginator("query")
            .paginate(
                TableName=self._deployed.table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": pk}},
                ConsistentRead=True,
            )
        )
        return [row for page in pages for row in page["Items"]]

    def _lane(self, talk: Talk) -> Lane:
        return make_lane("local", "default", talk.state.conversation)

    def _sweep(self) -> None:
        """Let the sweeper look at everything, as by its clock."""
        answer = client("lambda", self._deployed).invoke(
            FunctionName=SWEEPER, Qualifier="live", Payload=json.dumps({}).encode()
        )
        if "FunctionError" in answer:
            raise BrokenTurnError(f"the sweeper fails: {answer['Payload'].read()!r}")

    def _pace(self, *delays_ms: int) -> str:
        """Return a word; the model writes about it with these pauses between pieces, the last ones for good."""
        self._stage.no_faults()
        word = a_word()
        for at, delay_ms in enumerate(delays_ms, start=1):
            count = 1 if at < len(delays_ms) else 50
            self._stage.fault(kind="slow_tokens", match=word, count=count, token_delay_ms=delay_ms)
        return word


def soon(left: Callable[[], Collection[str]], says: str, patience: int) -> None:
    """Wait until nothing is left. Raises BrokenTurnError after a while."""
    until_s = time.monotonic() + SOON_S * patience
    while found := left():
        if time.monotonic() > until_s:
            raise BrokenTurnError(f"{says}: {sorted(map(str, found))}")
        time.sleep(POLL_S)
