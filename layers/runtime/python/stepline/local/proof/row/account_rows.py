"""Accounts and data: limits, receipts, uploads, and the erasure of a conversation."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from stepline.adapters.system import SystemClock
from stepline.api.files import LinkRequest
from stepline.api.tenancy.limit_endpoints import NewLimits
from stepline.errors import SteplineError
from stepline.ingress.upload import UploadRequest
from stepline.inspection.receipt import OtherReceipt, Receipts, RoundReceipt
from stepline.inspection.rounds import Tokens
from stepline.local.client.change import Acknowledged, Refused
from stepline.local.client.uploader import Uploader
from stepline.local.proof.judge_stream import judge_ends
from stepline.local.proof.proof_row import Evidence, NotHeldError, require
from stepline.local.proof.proved_stage import ProvedStage
from stepline.local.proof.row.stream_rows import QUESTION, settle_turn
from stepline.local.user_archive import fetch_file
from stepline.model.tenancy.limits import Limits

LIMIT: Final = "limit_tokens"
DELETED: Final = "conversation_deleted"
REFUSED_NAME: Final = "proof.exe"
REFUSED_CODE: Final = "type_not_allowed"
CENT: Final = 1e-6
WRITE_REQUEST: Final = "Write a file proof.md with the word finch in it and read it back."


def prove_limits(stage: ProvedStage, conversation: str) -> Evidence:
    """Set a limit that is used up, try a message, and remove the limit."""
    admin = stage.admin()
    here = admin.read_limits()
    account = (here.tenant, here.project, here.user)
    ask(stage, conversation)  # so that tokens are counted
    before = admin.read_user_limits(*account)
    given = msgspec.to_builtins(before.given)
    admin.write_user_limits(
        *account, msgspec.convert({**given, "tokens_day": 1, "version": before.version}, NewLimits)
    )
    try:
        code = refusal_of(stage, conversation)
    finally:
        after = admin.write_user_limits(*account, msgspec.convert(given, NewLimits))
    require(
        code == LIMIT,
        f"over the limit, a message is answered with {code or 'an acknowledgement'}, and not with {LIMIT}",
    )
    judge_restored(before.given, after.given)
    ask(stage, conversation, turns=2)
    return {"refused": code, "versions": f"{before.version} to {after.version}"}


def judge_restored(before: Limits, after: Limits) -> None:
    """Require that the account has the limits that it had."""
    require(before == after, f"the limits of the account are {after} now, and were {before}")


def prove_receipts(stage: ProvedStage, conversation: str) -> Evidence:
    """Let a turn of several rounds run, and add up its receipt."""
    ask(stage, conversation, WRITE_REQUEST)
    receipts = stage.api.get_receipts(conversation)
    judge_receipts(receipts)
    (turn,) = receipts.turns
    return {
        "turn": turn.turn_id,
        "rounds": len(turn.rounds),
        "output_tokens": turn.tokens.output_tokens,
        "unreported": turn.attempts_unreported,
    }


def judge_receipts(receipts: Receipts) -> None:
    """Require that rounds and other calls add up to their turn, turns to the whole, and units of AWS to their sums."""
    require(bool(receipts.turns), "the conversation has no receipt of a turn")
    for turn in receipts.turns:
        calls: tuple[RoundReceipt | OtherReceipt, ...] = (*turn.rounds, *turn.other)
        require(bool(turn.rounds), f"turn {turn.turn_id} has no round")
        found = add_tokens(*(call.tokens for call in calls))
        require(
            found == turn.tokens,
            f"the calls of turn {turn.turn_id} add up to {found}, and not to {turn.tokens}",
        )
        require(turn.tokens.output_tokens > 0, f"turn {turn.turn_id} has no output tokens")
        if turn.priced:
            _same_usd(sum(call.usd or 0.0 for call in calls), turn.usd, f"the calls of turn {turn.turn_id}")
        _same_usd(sum(line.usd for line in turn.aws), turn.aws_usd, f"the services of turn {turn.turn_id}")
    found = add_tokens(*(turn.tokens for turn in receipts.turns), *(one.tokens for one in receipts.replays))
    require(found == receipts.tokens, f"the turns add up to {found}, and not to {receipts.tokens}")
    _same_usd(sum(line.usd for line in receipts.aws), receipts.aws_usd, "the services")


def add_tokens(*tokens: Tokens) -> Tokens:
    """Return the sum of all counts."""
    return Tokens(**{name: sum(getattr(one, name) for one in tokens) for name in Tokens.__struct_fields__})


def _same_usd(found: float, given: float, subject: str) -> None:
    same = math.isclose(found, given, abs_tol=CENT)
    require(same, f"{subject} add up to ${found:.6f}, and not to ${given:.6f}")


def prove_upload(stage: ProvedStage, conversation: str) -> Evidence:
    """Upload a file, attach it to a message, and fetch it again; then try a kind that no stage accepts."""
    data = f"A note of {conversation}.\n".encode()
    upload = Uploader(stage.api, SystemClock(), conversation, report=lambda _: None).upload("note.txt", data)
    ask(stage, conversation, "Read note.txt.", uploads=(upload,))
    wanted = hashlib.sha256(data).hexdigest()
    files = [row for row in stage.api.list_files(conversation).items if row.sha256 == wanted]
    require(len(files) == 1, f"{len(files)} files of the conversation have the content that was uploaded")
    link = stage.api.create_link(conversation, LinkRequest(path=files[0].logical_path))
    require(fetch_file(link.url) == data, "the file's link gives other bytes than were uploaded")
    request = UploadRequest(filename=REFUSED_NAME, size_bytes=len(data), sha256=wanted)
    code = code_of(lambda: stage.api.begin_upload(conversation, request))
    require(
        code == REFUSED_CODE,
        f"{REFUSED_NAME} is answered with {code or 'a grant'}, and not with {REFUSED_CODE}",
    )
    return {"upload": upload, "path": files[0].logical_path, "refused": code}


def prove_erasure(stage: ProvedStage, conversation: str) -> Evidence:
    """Delete a conversation, and try to read it in every way, and to write to it."""
    ask(stage, conversation)
    erased = stage.api.delete_conversation(conversation)
    codes = {name: code_of(read) for name, read in _reads(stage, conversation).items()}
    judge_gone(codes)
    listed = [row.conversation for row in stage.api.list_all().items]
    require(conversation not in listed, "the deleted conversation is listed")
    code = refusal_of(stage, conversation)
    require(
        code == DELETED,
        f"a message to the deleted conversation is answered with {code or 'an acknowledgement'}",
    )
    return {"deleted": conversation, "state": erased.state, "reads": len(codes), "message": code}


def judge_gone(codes: Mapping[str, str]) -> None:
    """Require that every read was refused because the conversation is deleted."""
    odd = {name: code or "an answer" for name, code in codes.items() if code != DELETED}
    require(not odd, f"a deleted conversation is read: {odd}")


def _reads(stage: ProvedStage, conversation: str) -> dict[str, Callable[[], object]]:
    api = stage.api
    return {
        "row": lambda: api.read_conversation(conversation),
        "events": lambda: api.read_events(conversation),
        "files": lambda: api.list_files(conversation),
        "receipts": lambda: api.get_receipts(conversation),
        "rounds": lambda: api.list_conversation_rounds(conversation),
        "log": lambda: api.get_log(conversation),
        "export": lambda: api.export(conversation),
    }


def code_of(read: Callable[[], object]) -> str:
    """Return the code of the refusal, "" for an answer."""
    try:
        read()
    except SteplineError as error:
        return error.reason
    return ""


def ask(
    stage: ProvedStage,
    conversation: str,
    text: str = QUESTION,
    *,
    uploads: tuple[str, ...] = (),
    turns: int = 1,
) -> None:
    """Send a message and require an answer; the conversation then has this number of turns."""
    with stage.listen(conversation) as client:
        client.session.say(text, uploads=uploads)
        settle_turn(client)
    judge_ends(client.ends, turns)


def refusal_of(stage: ProvedStage, conversation: str) -> str:
    """Send a message; return the code of its refusal, "" if it is accepted."""
    with stage.listen(conversation) as client:
        message = client.session.say(QUESTION)
        for effect in client.session.effects():
            match effect:
                case Refused(frame=frame):
                    return frame.code
                case Acknowledged(frame=frame) if frame.message_id == message:
                    client.settle()
                    return ""
                case _:
                    continue
    raise NotHeldError("a message was not answered")
