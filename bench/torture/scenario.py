"""The scenario of each fault, written once for every subject. A scenario returns when the subject holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from bench.torture.cell import CellError, require
from bench.torture.reply import say
from bench.torture.subject import NotOfferedError, NotRunError, RefusedError
from bench.torture.trial import Trial, has_heard, piece_numbers
from bench.torture.watch import Watch

FEW: Final = 5
DEPLOYMENT: Final = 5
"""How many times longer an answer is that outlives a deployment."""


def killed_streaming(trial: Trial) -> None:
    """Kill the process in mid-answer."""
    trial.rest()
    _interrupted(trial, lambda: (trial.subject.kill(), trial.subject.restart()), *trial.long)


def release_streaming(trial: Trial) -> None:
    """Deploy in mid-answer."""
    pieces, ms = trial.long
    _interrupted(trial, lambda: trial.subject.deploy("next"), pieces * DEPLOYMENT, ms)


def _interrupted(trial: Trial, interrupt: Callable[[], object], pieces: int, ms: int) -> None:
    word = trial.word()
    with ExitStack() as stack:
        client = _open(trial, stack)
        trial.send(say(word, pieces, ms))
        _receive_few(trial, client, word)
        interrupt()
        seen = trial.answered(word)
    trial.require_answer(seen, word, pieces)
    trial.require_next(word)


def _open(trial: Trial, stack: ExitStack) -> Watch | None:
    """Connect a client; None, with a note, if answers are not streamed."""
    try:
        return stack.enter_context(trial.watch())
    except NotOfferedError as error:
        trial.note(str(error))
        return None


def _receive_few(trial: Trial, client: Watch | None, word: str) -> None:
    """Wait for the first pieces of an answer at the client, or else at the model."""
    if client is not None:
        client.until_pieces(FEW, trial.patience.wait_s)
    else:
        trial.wait(lambda: trial.model.sent(word) >= FEW, f"{FEW} pieces of the model's answer were not read")


def effect_record(trial: Trial) -> None:
    """Kill the process by a tool that has done its effect."""
    trial.rest()
    word = trial.word()
    trial.effects.kill_after(word)
    trial.send(f"@note {word}")
    trial.wait(lambda: trial.effects.is_killed(word), "the tool did not run")
    trial.subject.restart()
    try:
        seen = trial.answered(word)
    except CellError:
        count = trial.effects.count(word)
        require(
            count <= 1, "repeated", f"the tool's effect is there {count} times, and the turn was not answered"
        )
        raise
    trial.require_answer(seen, word)
    trial.require_effect(word)
    trial.require_next(word)


def approval_stored(trial: Trial) -> None:
    """Kill the process when the request for an approval has been shown."""
    trial.rest()
    word = trial.word()
    _ask(trial, word)
    trial.subject.kill()
    trial.subject.restart()
    _approve(trial, word)


def release_parked(trial: Trial) -> None:
    """Deploy while a call waits for a person."""
    word = trial.word()
    _ask(trial, word)
    trial.wait(
        lambda: trial.subject.read(trial.thread).state == "waiting", "the turn did not wait for the person"
    )
    trial.subject.deploy("next")
    _approve(trial, word)


def _ask(trial: Trial, word: str) -> None:
    """Let a call wait for a person, until a client is shown the request."""
    with ExitStack() as stack:
        client, missing = _open(trial, stack), "no request for an approval arrived"
        trial.send(f"@pay {word}")
        if client is not None:
            client.until(lambda event: event.kind == "approval", trial.patience.wait_s, missing)
        else:
            trial.wait(lambda: bool(trial.subject.read(trial.thread).pending), missing)
    require(trial.effects.count(word) == 0, "wrong", "the call ran without its approval")


def _approve(trial: Trial, word: str) -> None:
    def is_pending() -> bool:
        require(trial.effects.count(word) == 0, "wrong", "the call ran without its approval")
        return bool(trial.subject.read(trial.thread).pending)

    try:
        trial.wait(is_pending, "no approval was pending")
    except CellError as error:
        seen = trial.subject.read(trial.thread)
        verdict = "lost" if error.verdict == "stuck" and seen.state != "running" else error.verdict
        raise CellError(verdict, f"{error}; the thread is {seen.state}") from error
    pending = trial.subject.read(trial.thread).pending
    require(len(pending) == 1, "repeated", f"{len(pending)} approvals were pending")
    trial.subject.answer(trial.thread, pending[0], approve=True)
    seen = trial.answered(word)
    trial.require_answer(seen, word)
    trial.require_effect(word)
    trial.require_next(word)


def client_gone(trial: Trial) -> None:
    """Disconnect in mid-answer, and come back later."""
    pieces, ms = trial.long
    _missed(trial, pieces, ms, lambda _: time.sleep(trial.patience.gone_s))
    trial.notes.append(f"gone for {trial.patience.gone_s:.0f} s")


def events_missed(trial: Trial) -> None:
    """Miss nearly all pieces of a long answer."""
    pieces = trial.patience.missed

    def wait(word: str) -> None:
        trial.wait(
            lambda: trial.model.sent(word) >= pieces or trial.subject.read(trial.thread).state == "idle",
            f"the model's {pieces} pieces were not read, and the turn did not end",
        )

    _missed(trial, pieces, 0, wait)
    trial.notes.append(f"{pieces} pieces")


def _missed(trial: Trial, pieces: int, ms: int, absent: Callable[[str], None]) -> None:
    word = trial.word()
    with ExitStack() as stack:
        client = _open(trial, stack)
        trial.send(say(word, pieces, ms))
        _receive_few(trial, client, word)
    absent(word)
    with _returned(trial, client) as back:
        seen = trial.answered(word)
        trial.require_answer(seen, word, pieces)
        if back is not None:
            _shown(trial, back, word, pieces)
    trial.require_next(word)


class _NoStream:
    """A client that returns to a subject whose streams cannot be continued: it reads the thread."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return


def _returned(trial: Trial, client: Watch | None) -> Watch | _NoStream:
    """Return the client that continues, or one that reads the thread if streams cannot be continued."""
    if client is None:
        return _NoStream()
    if client.cursor:
        return trial.watch(client)
    trial.note("its streams have no cursor: the client reads the stored thread")
    return _NoStream()


def _shown(trial: Trial, back: Watch, word: str, pieces: int) -> None:
    """Require that the client that returned is shown the whole answer, once it has received its rest."""
    last = f"{word}.{pieces}"
    if last not in back.shown:
        missing = f"the rest of the answer did not arrive at the client that returned, which has {back.pieces} pieces"
        back.until(lambda _: last in back.shown, trial.patience.wait_s, missing)
    back.drain()
    numbers = piece_numbers(back.streamed, word, is_running=True)
    twice = len(numbers) - len(set(numbers))
    require(
        not twice, "repeated", f"{twice} of {pieces} pieces were streamed twice to the client that returned"
    )
    trial.require_pieces(back.shown, word, pieces, "what the client that returned was shown")


def two_clients(trial: Trial) -> None:
    """Let two clients send at the same time."""
    words, pieces = (trial.word(), trial.word()), 10
    errors: list[Exception] = []
    together = threading.Barrier(2)

    def client(word: str) -> None:
        try:
            together.wait(timeout=trial.patience.wait_s)
            trial.send(say(word, pieces, trial.patience.piece_ms))
        except (RefusedError, NotOfferedError, OSError) as error:
            errors.append(error)

    with ExitStack() as stack:
        clients = [_open(trial, stack) for _ in range(2)]
        senders = [threading.Thread(target=client, args=(word,)) for word in words]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(timeout=trial.patience.wait_s)
        if errors and isinstance(errors[0], NotOfferedError):
            raise errors[0]
        if errors:
            _refused_one(trial, words, errors[0])
        seen = trial.answered(*words)
        for word in words:
            trial.require_answer(seen, word, pieces)
            for client_of in clients:
                if (
                    client_of is not None and client_of.cursor
                ):  # else a client follows its own requests alone, and reads the stored thread
                    _shown_somewhere(trial, client_of, word, pieces)
    trial.require_next(*words)


def _refused_one(trial: Trial, words: tuple[str, str], error: Exception) -> None:
    """Judge a subject that refused one of two messages: the other one is answered."""
    trial.wait(
        lambda: trial.subject.read(trial.thread).state == "idle", "the other client's turn did not end"
    )
    seen = trial.subject.read(trial.thread)
    heard = [word for word in words if has_heard(seen, word)]
    require(len(heard) == 1, "lost", f"one message was refused ({error}), and {len(heard)} were answered")
    trial.require_next(heard[0])
    raise CellError("refused", f"the second client's message was refused: {error}")


def _shown_somewhere(trial: Trial, client: Watch, word: str, pieces: int) -> None:
    last = f"{word}.{pieces}"

    def shown() -> bool:
        return any(last in text for text in (*client.answers, client.shown))

    if not shown():
        client.until(
            lambda _: shown(),
            trial.patience.wait_s,
            "a client was not shown the answer to the other's message",
        )


def stop_resumed(trial: Trial) -> None:
    """Continue a stream, then stop the turn."""
    word, (pieces, ms) = trial.word(), trial.long
    with trial.watch() as client:
        trial.send(say(word, pieces, ms))
        client.until_pieces(FEW, trial.patience.wait_s)
    if not client.cursor:
        raise NotOfferedError("its streams cannot be continued: they have no cursor")
    with trial.watch(client) as back:
        back.until_pieces(1, trial.patience.wait_s)
        trial.subject.stop(trial.thread)
        over = lambda: trial.subject.read(trial.thread).state != "running"  # noqa: E731 - a name for one condition
        trial.wait(over, "the turn did not end after the stop")
    sent = trial.model.sent(word)
    require(
        sent < pieces,
        "wrong",
        f"the model's answer was read to its end after the stop: {sent} of {pieces} pieces",
    )
    trial.notes.append(f"{sent} of {pieces} pieces were read")
    trial.require_next(word)


def steer_tool(trial: Trial) -> None:
    """Send a message while a tool runs."""
    word, second = trial.word(), trial.word()
    trial.effects.hold(word)
    try:
        trial.send(f"@note {word}")
        trial.wait(lambda: trial.effects.count(word) > 0, "the tool did not run")
        trial.subject.steer(trial.thread, say(second, 3), f"steer-{second}")
    except RefusedError as error:
        trial.effects.release(word)
        trial.answered(word)
        trial.require_effect(word)
        trial.require_next(word)
        raise CellError("refused", f"the message was refused while the tool ran: {error}") from error
    finally:
        trial.effects.release(word)
    seen = trial.answered(second)
    trial.require_answer(seen, word)
    trial.require_answer(seen, second, 3)
    trial.require_effect(word)
    trial.require_next(word, second)


def duplicate(trial: Trial) -> None:
    """Deliver a message twice at once, and again."""
    word, text = trial.word(), ""
    text, message_id = f"@note {word}", f"twice-{word}"
    refused: list[RefusedError] = []
    impossible: list[NotOfferedError | NotRunError] = []

    def deliver() -> None:
        try:
            trial.send(text, message_id)
        except RefusedError as error:
            refused.append(error)
        except (NotOfferedError, NotRunError) as error:
            impossible.append(error)

    both = [threading.Thread(target=deliver) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(timeout=trial.patience.wait_s)
    if impossible:
        raise impossible[0]
    require(len(refused) < 2, "refused", f"both deliveries were refused: {refused[:1]}")
    trial.answered(word)
    deliver()
    trial.require_next(word)  # a second turn for the late one would have ended before
    seen = trial.subject.read(trial.thread)
    trial.require_effect(word)
    trial.require_answer(seen, word)
    answers = sum(one.role == "assistant" and f"heard {word}: " in one.text for one in seen.messages)
    require(answers == 1, "repeated", f"the message is answered {answers} times")
    if refused:
        trial.notes.append(f"a further delivery was answered with an error: {refused[0]}")


def store_throttled(trial: Trial) -> None:
    """Throttle the store from the moment that a message is sent."""
    word = trial.word()
    message_id = f"throttled-{word}"
    trial.require_next()
    trial.subject.throttle(trial.patience.throttled_s)
    over_s = time.monotonic() + trial.patience.throttled_s
    refusals = _send_until_accepted(trial, f"@note {word}", message_id)
    time.sleep(max(0.0, over_s - time.monotonic()))
    seen = trial.answered(word)
    trial.require_answer(seen, word)
    trial.require_effect(word)
    trial.require_next(word)
    trial.notes.append(f"throttled for {trial.patience.throttled_s:.0f} s, {refusals} sends were refused")


def _send_until_accepted(trial: Trial, text: str, message_id: str) -> int:
    """Send a message until it is accepted, as a client does; return how many times it was refused."""
    deadline_s = time.monotonic() + trial.patience.throttled_s + trial.patience.wait_s
    refusals = 0
    while True:
        try:
            trial.send(text, message_id)
        except (RefusedError, OSError) as error:
            require(
                time.monotonic() < deadline_s,
                "stuck",
                f"the message was refused after the throttling: {error}",
            )
            refusals += 1
            time.sleep(1)
        else:
            return refusals


SCENARIOS: Final[Mapping[str, Callable[[Trial], None]]] = {
    scenario.__name__: scenario
    for scenario in (
        killed_streaming, effect_record, approval_stored, client_gone, events_missed, two_clients, stop_resumed,
        steer_tool, release_parked, release_streaming, duplicate, store_throttled,
    )
}  # fmt: skip
