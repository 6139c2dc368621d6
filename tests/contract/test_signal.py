"""Every watcher learns of a steer, by any signal; the log decides what a steer is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from stepline.adapters.aws.table import Table
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.signal import MemorySignals
from stepline.adapters.polling_signals import EXIT_S, PollingSignals
from stepline.adapters.redis.connection import RedisLink
from stepline.adapters.redis.signal import RedisSignals
from stepline.errors import DependencyError, SteplineError
from stepline.model.batch import Batch, State
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.ports.log import Log, Written
from stepline.ports.signal import Signals

AT = "2026-11-21T10:15:00.000Z"
PATIENCE_S = 60.0
POLL_S = 0.01
NEVER_S = 3600.0
WAYS = ["memory", "polling", "polling-moto", "redis", "redis-silent", "redis-away"]
threaded = pytest.mark.parametrize("place", WAYS[1:], indirect=True)


class SeenLog:
    """A log that records how far it was read, and fails on demand."""

    def __init__(self, log: Log) -> None:
        self.puts = log
        self.error: SteplineError | None = None
        self.failed = threading.Event()
        self.at_absence: Callable[[], None] | None = None
        self._absent: list[int] = []
        self._read = threading.Condition()

    def get(self, lane: Lane, n: int, *, consistent: bool = True) -> Batch | None:
        error = self.error  # read once: the test takes it back in another thread
        if error is not None:
            self.failed.set()
            raise error
        found = self.puts.get(lane, n, consistent=consistent)
        if found is None:
            with self._read:
                self._absent.append(n)
                self._read.notify_all()
            do, self.at_absence = self.at_absence, None
            if do is not None:
                do()
        return found

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        return self.puts.since(lane, n, upto=upto, consistent=consistent)

    def wait_until_read(self, upto: int) -> None:
        """Wait until a reader has read everything up to a batch, and found nothing after it."""
        with self._read:
            assert self._read.wait_for(lambda: upto + 1 in self._absent, PATIENCE_S)


class Place:
    """Signals over a log, and a writer of it."""

    def __init__(self, log: SeenLog, signals: Signals, *, looks: bool = True) -> None:
        self.log = log
        self.signals = signals
        self._looks = looks

    def put(self, lane: Lane, n: int, event: str, text: str = "", *, reactive: bool = False) -> None:
        said = Inbound(message_id=f"m-{n}", event=event, text=text, user="ada", at=AT, reactive=reactive)
        batch = Batch(n=n, by=f"w{n}", at=AT, entries=(said,), state=State(status="open", owner="ada"))
        assert self.log.puts.put(lane, batch) == Written()

    def steer(self, lane: Lane, n: int, text: str = "turn left") -> None:
        """Steer, and notify the watchers."""
        self.put(lane, n, "steer", text)
        self.signals.notify(lane, n)

    def wait_until_read(self, upto: int) -> None:
        if self._looks:
            self.log.wait_until_read(upto)


@pytest.fixture
def link(redis_server) -> Iterator[RedisLink]:
    with closing(RedisLink(lambda: redis_server.url, stage="test")) as made:
        yield made


@pytest.fixture(params=WAYS)
def place(request) -> Place:
    """Every way to learn of a steer; of a Redis that is heard, says nothing, and is not there."""
    kind = request.param
    stored = request.getfixturevalue("moto_aws").log if kind == "polling-moto" else MemoryLog()
    log = SeenLog(stored)
    match kind:
        case "memory":
            return Place(log, MemorySignals(log), looks=False)
        case "polling" | "polling-moto":
            return Place(log, PollingSignals(log, POLL_S))
        case "redis":
            link = request.getfixturevalue("link")
            return Place(log, RedisSignals(log, link, poll_s=NEVER_S, hearing_s=NEVER_S))
        case "redis-silent":
            link = request.getfixturevalue("link")
            return Place(log, Mute(log, link, poll_s=NEVER_S, hearing_s=POLL_S))
        case _:
            return Place(log, RedisSignals(log, RedisLink(nowhere, stage="test"), poll_s=POLL_S))


class Mute(RedisSignals):
    """Signals whose every message is lost."""

    def notify(self, lane: Lane, n: int) -> None:
        """It got lost."""


def nowhere() -> str:
    return "redis://127.0.0.1:1"


@pytest.fixture
def heard(link) -> Place:
    """Signals by Redis alone: the poll would be too late."""
    log = SeenLog(MemoryLog())
    return Place(log, RedisSignals(log, link, poll_s=NEVER_S, hearing_s=NEVER_S))


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "watch"]


def test_a_steer_after_the_start_is_seen(place, lane):
    place.put(lane, 1, "prompt", "hello", reactive=True)
    with place.signals.watch(lane, 1) as watch:
        place.steer(lane, 2)
        assert watch.wait(PATIENCE_S)
        assert watch.requested
        assert watch.steer() == 2


def test_a_stop_is_seen_as_a_steer(place, lane):
    with place.signals.watch(lane, 0) as watch:
        place.steer(lane, 1, "")
        assert watch.wait(PATIENCE_S)
        assert watch.steer() == 1


def test_a_steer_before_the_beginning_is_not_seen(place, lane):
    place.put(lane, 1, "steer", "long ago")
    with place.signals.watch(lane, 1) as watch:
        place.wait_until_read(1)
        assert not watch.requested
        assert watch.steer() == 0
        assert not watch.wait(0)


def test_other_entries_are_skipped_and_a_later_steer_is_seen(place, lane):
    with place.signals.watch(lane, 0) as watch:
        place.put(lane, 1, "prompt", "hello", reactive=True)
        place.put(lane, 2, "followup", "and this", reactive=True)
        place.put(lane, 3, "alert", "smoke")
        place.signals.notify(lane, 3)
        place.wait_until_read(3)
        assert not watch.requested
        place.steer(lane, 4)
        assert watch.wait(PATIENCE_S)
        assert watch.steer() == 4


def test_of_two_steers_the_newest_counts(place, lane):
    with place.signals.watch(lane, 0) as watch:
        place.steer(lane, 1)
        assert watch.wait(PATIENCE_S)
        place.steer(lane, 2, "")
        place.wait_until_read(2)
        assert watch.steer() == 2


def test_a_steer_of_another_conversation_is_not_ours(place, lane):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    with place.signals.watch(lane, 0) as ours, place.signals.watch(other, 0) as theirs:
        place.steer(other, 1)
        assert theirs.wait(PATIENCE_S)
        place.put(lane, 1, "alert", "smoke")
        place.signals.notify(lane, 1)
        place.wait_until_read(1)
        assert not ours.requested


def test_every_watcher_of_a_conversation_sees_its_steer(place, lane):
    place.put(lane, 1, "prompt", "hello", reactive=True)
    with place.signals.watch(lane, 0) as early, place.signals.watch(lane, 1) as late:
        place.steer(lane, 2)
        assert early.wait(PATIENCE_S)
        assert late.wait(PATIENCE_S)
        assert (early.steer(), late.steer()) == (2, 2)


def test_a_callback_runs_once_at_once_for_an_existing_steer(place, lane):
    calls: list[str] = []
    with place.signals.watch(lane, 0) as watch:
        place.steer(lane, 1)
        assert watch.wait(PATIENCE_S)
        with watch.calling(lambda: calls.append("abort")):
            assert calls == ["abort"]
        place.steer(lane, 2)
        place.wait_until_read(2)
    assert calls == ["abort"]


def test_a_watch_without_a_steer_runs_no_callback(place, lane):
    calls: list[str] = []
    place.put(lane, 1, "prompt", "hello", reactive=True)
    with place.signals.watch(lane, 0) as watch, watch.calling(lambda: calls.append("abort")):
        place.wait_until_read(1)
    assert calls == []


@threaded
def test_a_steer_that_comes_later_calls_once_from_another_thread(place, lane):
    callers: list[threading.Thread] = []
    called = threading.Event()

    def abort() -> None:
        callers.append(threading.current_thread())
        called.set()

    with place.signals.watch(lane, 0) as watch, watch.calling(abort):
        place.steer(lane, 1)
        assert called.wait(PATIENCE_S)
        place.steer(lane, 2)
        place.wait_until_read(2)
    assert len(callers) == 1
    assert callers[0] is not threading.current_thread()


@threaded
def test_a_callback_may_read_the_steer_that_was_seen(place, lane):
    seen: list[tuple[bool, int]] = []
    called = threading.Event()

    def abort() -> None:
        seen.append((watch.requested, watch.steer()))
        called.set()

    with place.signals.watch(lane, 0) as watch, watch.calling(abort):
        place.steer(lane, 1)
        assert called.wait(PATIENCE_S)
    assert seen == [(True, 1)]


@threaded
def test_several_callbacks_run_and_none_whose_block_has_ended(place, lane):
    calls: list[str] = []
    with place.signals.watch(lane, 0) as watch:
        with watch.calling(lambda: calls.append("over")):
            pass
        with watch.calling(lambda: calls.append("one")), watch.calling(lambda: calls.append("two")):
            place.steer(lane, 1)
            place.wait_until_read(1)
    assert sorted(calls) == ["one", "two"]


@threaded
def test_no_thread_of_a_watch_outlives_its_block(place, lane):
    calls: list[str] = []
    before = watching()
    with place.signals.watch(lane, 0) as watch:
        assert len(watching()) == len(before) + 1
        calling = watch.calling(lambda: calls.append("abort"))
        calling.__enter__()
    assert watching() == before
    place.steer(lane, 1)
    assert not watch.requested
    assert watch.steer() == 0
    assert calls == []
    calling.__exit__(None, None, None)


def test_the_end_of_a_watch_outlasts_the_longest_look(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    patience = Table("conversations").client.meta.config
    tries = patience.retries["total_max_attempts"]
    assert tries * (patience.connect_timeout + patience.read_timeout) < EXIT_S


@threaded
def test_a_block_that_raises_ends_the_watch_and_keeps_its_error(place, lane):
    with pytest.raises(DependencyError), place.signals.watch(lane, 0):
        raise DependencyError("the step's own")
    assert watching() == []


@threaded
def test_an_unavailable_log_is_read_again_and_only_logged(place, lane, caplog):
    place.log.error = DependencyError("away", code="dependency")
    with place.signals.watch(lane, 0) as watch:
        place.put(lane, 1, "steer", "turn left")
        assert place.log.failed.wait(PATIENCE_S)
        assert not watch.requested
        place.log.error = None
        place.signals.notify(lane, 1)
        assert watch.wait(PATIENCE_S)
    said = [record for record in caplog.records if record.message == "log not read for steers"]
    assert said
    assert len({record.code for record in said}) == 1


@threaded
def test_a_log_that_refuses_us_ends_the_looking_and_not_the_step(place, lane, caplog):
    place.log.error = SteplineError("no right to read")
    with place.signals.watch(lane, 0) as watch:
        assert place.log.failed.wait(PATIENCE_S)
        assert not watch.requested
    assert "watch stopped" in caplog.messages


def test_an_unentered_watch_reads_nothing(place, lane):
    before = watching()
    place.log.error = SteplineError("a read")
    place.signals.watch(lane, 0)
    assert watching() == before
    assert not place.log.failed.is_set()


def test_a_message_makes_a_watch_look_at_once(heard, lane):
    with heard.signals.watch(lane, 0) as watch:
        heard.log.wait_until_read(0)  # it hears from now on, and would not look for an hour
        heard.steer(lane, 1)
        assert watch.wait(PATIENCE_S)


def test_a_message_that_is_ahead_of_the_log_is_looked_after_until_the_log_shows_it(heard, lane):
    with heard.signals.watch(lane, 0) as watch:
        heard.log.wait_until_read(0)
        heard.log.at_absence = lambda: heard.put(lane, 1, "steer", "turn left")
        heard.signals.notify(lane, 1)
        assert watch.wait(PATIENCE_S)
        assert watch.steer() == 1


def test_a_message_that_lies_makes_no_steer(heard, lane):
    with heard.signals.watch(lane, 0) as watch:
        heard.log.wait_until_read(0)
        heard.put(lane, 1, "alert", "smoke")
        heard.signals.notify(lane, 9)
        heard.log.wait_until_read(1)
        assert not watch.requested


@pytest.mark.parametrize("body", [b"", b"nine", b"-1", b"9" * 40, b"\xff"])
def test_a_message_that_is_no_number_is_passed_over(heard, link, lane, body):
    with heard.signals.watch(lane, 0) as watch:
        heard.log.wait_until_read(0)
        assert link.publish(lane, "steer", [body])
        heard.steer(lane, 1)
        assert watch.wait(PATIENCE_S)


def test_a_watch_reconnects_to_a_restarted_server(redis_server, link, lane):
    log = SeenLog(MemoryLog())
    place = Place(log, RedisSignals(log, link, poll_s=POLL_S, hearing_s=NEVER_S))
    with place.signals.watch(lane, 0) as watch:
        log.wait_until_read(0)
        redis_server.restart()
        place.put(lane, 1, "alert", "smoke")
        log.wait_until_read(1)  # without a notice: the lost connection was the reason to look
        place.steer(lane, 2)
        assert watch.wait(PATIENCE_S)


def test_steers_are_seen_while_the_server_is_away_and_after_it_came_back(redis_server, link, lane):
    log = SeenLog(MemoryLog())
    place = Place(log, RedisSignals(log, link, poll_s=POLL_S, hearing_s=NEVER_S))
    redis_server.stop()
    try:
        with place.signals.watch(lane, 0) as watch:
            place.steer(lane, 1)
            assert watch.wait(PATIENCE_S)
    finally:
        redis_server.start()
    with place.signals.watch(lane, 1) as watch:
        place.steer(lane, 2)
        assert watch.wait(PATIENCE_S)


def test_an_unavailable_server_prevents_no_steer(lane, caplog):
    signals = RedisSignals(MemoryLog(), RedisLink(nowhere, stage="test"), poll_s=POLL_S)
    signals.notify(lane, 1)
    signals.notify(lane, 2)
    assert caplog.messages == ["redis not reached"]  # and then it is left alone
