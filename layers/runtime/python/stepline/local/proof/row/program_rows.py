"""Programs: one runs on the stage's own backend and its result arrives, and its jail refuses every attempt to leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stepline.api.files import LinkRequest
from stepline.local.proof.escape_program import ATTEMPTS, PROGRAM
from stepline.local.proof.judge_stream import judge_ends
from stepline.local.proof.proof_client import ProofClient
from stepline.local.proof.proof_row import Evidence, NotHeldError, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.stream_rows import settle_turn
from stepline.local.user_archive import fetch_file

EXEC: Final = "exec_tools.execute_code_python"
CODE_EVENT: Final = "code_exec.code"
LOG: Final = "code_exec.log"
RESULT: Final = "react.tool.result"
NO_PROGRAMS: Final = frozenset(
    {"backend_unavailable", "execution_unavailable", "fargate_config_missing", "unsupported_platform"}
)
"""Codes of a stage that runs no programs, or not in the chosen mode."""
FINCH: Final = """\
import hashlib
word = hashlib.sha256(b"{seed}").hexdigest()
open("outputs/finch.txt", "w").write(word)
print(word)"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A recorded run: the id of its call, the end of its output, and the status and the code of its result."""

    call: str
    log: str
    status: str
    code: str = ""


def prove_program(stage: ProvedStage, conversation: str) -> Evidence:
    """Run a program, and fetch the file that it leaves."""
    with stage.listen(conversation) as client:
        ran = run_given(client, FINCH.format(seed=conversation))
        files = [item for _, event in client.events("chat.files") for item in event.data["items"]]
    word = hashlib.sha256(conversation.encode()).hexdigest()
    judge_ran(ran, word)
    judge_ends(client.ends)
    paths = [str(one["logical_path"]) for one in files if one.get("filename") == "finch.txt"]
    require(len(paths) == 1, f"the program left {len(paths)} files finch.txt, and not one")
    link = stage.api.create_link(conversation, LinkRequest(path=paths[0]))
    require(fetch_file(link.url) == word.encode(), "the file of the program has other bytes than it wrote")
    return {"call": ran.call, "path": paths[0], **find_isolation(stage, conversation, client, ran)}


def prove_jail(stage: ProvedStage, conversation: str) -> Evidence:
    """Run a program that makes every attempt of the list."""
    with stage.listen(conversation) as client:
        ran = run_given(client, PROGRAM)
    outcomes = read_outcomes(ran)
    judge_outcomes(outcomes)
    return {**find_isolation(stage, conversation, client, ran), **outcomes}


def ask_to_run(program: str) -> str:
    """Return the request to run a program, which every model understands."""
    return f"Run this program:\n```python\n{program}\n```"


def run_given(client: ProofClient, program: str) -> Ran:
    """Have a program run, to the end of its turn. Raises NotRunError if the model runs it changed or not at all."""
    client.session.say(ask_to_run(program))
    settle_turn(client)
    return find_run(client, program)


def find_run(client: ProofClient, program: str) -> Ran:
    """Return the first run of a program: what a model runs again is another call.

    Raises NotHeldError unless it has one result, NotRunError if the model did not run the program as it is.
    """
    calls = [
        str(event.data["execution_id"])
        for _, event in client.events(CODE_EVENT)
        if str(event.data["text"]).strip() == program.strip()
    ]
    if not calls:
        raise NotRunError("the model did not run the program as it was given")
    results = [event.data for _, event in client.events(RESULT) if event.data.get("call_id") == calls[0]]
    require(len(results) == 1, f"the call of the program has {len(results)} results")
    (result,) = results
    if result.get("code", "") in NO_PROGRAMS:
        raise NotRunError(f"the stage runs no programs: {result['code']}")
    logs = [event.data for _, event in client.events(LOG) if event.data.get("execution_id") == calls[0]]
    return Ran(
        call=calls[0],
        log="".join(str(data["text"]) for data in logs),
        status=str(result.get("status", "")),
        code=str(result.get("code", "")),
    )


def judge_ran(ran: Ran, printed: str) -> None:
    """Require that a program succeeded, and that its recorded output is what it printed."""
    require(ran.status == "ok", f"the program ended as {ran.status} ({ran.code or 'no code'})")
    require(ran.log.strip() == printed, f"the recorded output is {ran.log[:200]!r}, and not {printed!r}")


def read_outcomes(ran: Ran) -> dict[str, str]:
    """Return the outcome of each attempt by its name. Raises NotHeldError if the program did not report them."""
    require(ran.status == "ok", f"the program ended as {ran.status} ({ran.code or 'no code'})")
    try:
        found: dict[str, Any] = json.loads(ran.log)
    except ValueError as error:
        raise NotHeldError(f"the program did not report its attempts: {ran.log[:200]!r}") from error
    return {str(name): str(outcome) for name, outcome in found.items()}


def judge_outcomes(outcomes: Mapping[str, str]) -> None:
    """Require that each attempt of the list was made, and refused."""
    missing = sorted(ATTEMPTS.keys() - outcomes.keys())
    require(not missing, f"these attempts were not made: {', '.join(missing)}")
    reached = {name: outcome for name, outcome in outcomes.items() if outcome not in ATTEMPTS.get(name, ())}
    require(not reached, f"not refused: {reached}")


def find_isolation(stage: ProvedStage, conversation: str, client: ProofClient, ran: Ran) -> dict[str, str]:
    """Return the backend of a run and its jail, as its result records them: a user may read it on every stage."""
    turn = client.events("chat.start")[-1][1].data["turn_id"]
    blocks = stage.api.get_blocks(conversation, path=f"tc:{turn}.{ran.call}.result").blocks
    meta = blocks[0].meta if blocks else {}
    jail = meta.get("isolation") or {}
    facts = {
        "backend": meta.get("backend", ""),
        "kernel": jail.get("kernel", ""),
        "Landlock": jail.get("landlock_abi", ""),
        "signals": jail.get("signals", ""),
    }
    return {name: str(value) for name, value in facts.items() if value != ""}
