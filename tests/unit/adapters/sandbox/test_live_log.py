from __future__ import annotations

import threading

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.adapters.sandbox.live_log import LiveLog
from stepline.errors import DependencyError
from stepline.model.program.running_log import LOG_CHARS, RunningLog, log_key, read_log_key
from tests.support.conversation import LANE
from tests.unit.adapters.docker.test_docker_command_line import REQUEST

REQUEST_AT_3 = replace(REQUEST, index=3)


class Copies:
    """Stores copies without times; `kept` is set once there is one with text, `began` once there is any."""

    def __init__(self) -> None:
        self.logs: list[RunningLog] = []
        self.times: list[tuple[str, str]] = []
        self.began = threading.Event()
        self.kept = threading.Event()
        self.refuses = 0

    def __call__(self, copy: bytes) -> None:
        if self.refuses:
            self.refuses -= 1
            raise DependencyError("the store is away")
        log = msgspec.json.decode(copy, type=RunningLog)
        self.logs.append(replace(log, began_at="", ended_at=""))
        self.times.append((log.began_at, log.ended_at))
        self.began.set()
        if log.text:
            self.kept.set()


def last_of(*chunks: bytes) -> RunningLog:
    """Return the only copy of a program that printed these chunks immediately."""
    copies = Copies()
    with LiveLog(REQUEST_AT_3, copies, interval_s=3600) as log:
        for chunk in chunks:
            log.write(chunk)
        log.begin()
    return copies.logs[-1]


def test_output_is_stored_while_the_program_runs() -> None:
    copies = Copies()
    with LiveLog(REQUEST_AT_3, copies, interval_s=0.01) as log:
        log.begin()
        log.write(b"early ")
        assert copies.kept.wait(30)
        assert copies.logs[-1] == RunningLog(lane="exec.3.log", text="early ")
        log.write(b"late")
    assert copies.logs[-1] == RunningLog(lane="exec.3.log", since=6, text="early late", ended=True) or (
        copies.logs[-2:]
        == [
            RunningLog(lane="exec.3.log", since=6, text="early late"),
            RunningLog(lane="exec.3.log", since=10, text="early late", ended=True),
        ]
    )


def test_no_log_is_stored_for_a_program_that_never_began() -> None:
    copies = Copies()
    with LiveLog(REQUEST, copies, interval_s=0.001) as log:
        log.write(b"the container's own words")
    assert copies.logs == []


def test_a_silent_program_is_reported_to_have_begun_and_ended() -> None:
    copies = Copies()
    with LiveLog(REQUEST_AT_3, copies, interval_s=3600) as log:
        log.begin()
        assert copies.began.wait(30)
        log.end()
    running, over = RunningLog(lane="exec.3.log"), RunningLog(lane="exec.3.log", ended=True)
    assert copies.logs == [running, over]
    (began_at, unknown), (again_at, ended_at) = copies.times
    assert (began_at, unknown) == (again_at, "") == (log.began_at, "")
    assert "" < began_at <= ended_at


def test_output_after_the_end_changes_no_copy() -> None:
    copies = Copies()
    with LiveLog(REQUEST, copies, interval_s=0.001) as log:
        log.begin()
        log.write(b"all of it")
        log.end()
        while not (copies.logs and copies.logs[-1].ended):
            copies.kept.wait(30)
        log.write(b" and more")
    assert [copy.text for copy in copies.logs if copy.ended] == ["all of it"]


@given(st.text(), st.integers(1, 7))
def test_characters_are_whole_however_their_bytes_are_cut(text: str, size: int) -> None:
    printed = f"x{text}".encode(errors="replace")
    chunks = [printed[at : at + size] for at in range(0, len(printed), size)]
    assert last_of(*chunks).text == printed.decode()


def test_bytes_that_are_no_text_are_marked() -> None:
    assert last_of(b"a\xff", b"b\xe4").text == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


@given(st.lists(st.integers(1, LOG_CHARS), min_size=1, max_size=6))
@example([LOG_CHARS, 1])
def test_the_last_characters_are_kept_and_the_rest_is_counted(sizes: list[int]) -> None:
    whole = "".join(chr(ord("a") + n % 26) * size for n, size in enumerate(sizes))
    chunks, at = [], 0
    for size in sizes:
        chunks.append(whole[at : at + size].encode())
        at += size
    log = last_of(*chunks)
    assert log.text == whole[-LOG_CHARS:]
    assert (log.start, log.end) == (max(0, len(whole) - LOG_CHARS), len(whole))


def test_the_next_copy_contains_the_text_of_a_copy_that_failed() -> None:
    copies = Copies()
    copies.refuses = 3
    with LiveLog(REQUEST, copies, interval_s=0.001) as log:
        log.write(b"early")
        log.begin()
        assert copies.kept.wait(30)
    assert (copies.logs[0].since, copies.logs[0].text) == (0, "early")


def test_a_store_that_never_answers_does_not_hold_the_run_up(monkeypatch) -> None:
    monkeypatch.setattr("stepline.adapters.sandbox.live_log.CLOSE_S", 0.01)
    answers = threading.Event()
    with LiveLog(REQUEST, lambda _: answers.wait(30), interval_s=3600) as log:
        log.begin()
        log.write(b"early")
    answers.set()


def test_a_log_key_identifies_its_run() -> None:
    key = log_key(LANE, "turn_1", "tc_0123456789ab")
    assert read_log_key(key) == (LANE, "turn_1", "tc_0123456789ab")
    for other in (
        f"x{key}",
        f"{key}x",
        f"{key}\n",
        key.replace("log.json", "run.json"),
        key.replace("exec/", "out/"),
    ):
        assert read_log_key(other) is None
