from datetime import UTC, datetime, timedelta

import pytest

from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.system import SystemClock
from stepline.ports.clock import Clock


@pytest.fixture(params=[MemoryClock, SystemClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    return request.param()


def test_now_is_aware_and_in_utc(clock):
    assert clock.now().utcoffset() == timedelta(0)


def test_a_pause_moves_both_times_on_by_at_least_its_length(clock):
    before, since_s = clock.now(), clock.monotonic_s()
    clock.pause(0.001)
    assert clock.monotonic_s() - since_s >= 0.001
    assert clock.now() > before


def test_the_system_clock_shows_the_present():
    assert abs(SystemClock().now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_memory_clock_moves_only_on_request():
    clock = MemoryClock(datetime(2026, 11, 21, tzinfo=UTC))
    assert clock.now() == clock.now() == datetime(2026, 11, 21, tzinfo=UTC)
    clock.pause(90)
    assert clock.now() == datetime(2026, 11, 21, 0, 1, 30, tzinfo=UTC)
    assert clock.monotonic_s() == 90
