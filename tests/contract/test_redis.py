"""The way to a Redis: verified, quiet about who we are, and never waited for."""

import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from stepline.adapters.redis.connection import (
    REST_FIRST_S,
    REST_MAX_S,
    RedisAddress,
    RedisLink,
    Waker,
    channel_of,
    parse_address,
)
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.model.ids import Lane

from .redis_server import PASSWORD

DEAD = "redis://127.0.0.1:1"
PATIENCE_S = 60.0


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def linked(url: str, **fields) -> closing[RedisLink]:
    return closing(RedisLink(lambda: url, stage="test", **fields))


def listened(link: RedisLink, lane: Lane, *messages: bytes) -> list[bytes | None]:
    """Listen, publish, and return what was heard."""
    with closing(Waker()) as waker, closing(link.listen(lane, "steer", waker)) as listener:
        assert link.publish(lane, "steer", messages)
        return [listener.hear(PATIENCE_S) for _ in messages]


# --- where it is, and who we are there


def test_a_url_has_the_servers_address_and_the_credentials():
    assert parse_address("rediss://ada:p%40ss@cache.example.com:6380/3") == RedisAddress(
        host="cache.example.com", port=6380, tls=True, db=3, username="ada", password="p@ss"
    )
    assert parse_address(" redis://localhost\n") == RedisAddress(host="localhost", port=6379, tls=False)
    assert parse_address("rediss://h?db=2&ssl_ca_certs=/etc/ca.pem") == RedisAddress(
        host="h", port=6379, tls=True, db=2, ca_certs="/etc/ca.pem"
    )


@pytest.mark.parametrize(
    "url",
    [
        *("", "cache.example.com:6379", "https://secret@h", "unix:///run/secret.sock", "redis://"),
        *("redis://:secret@h:port", "redis://:secret@h/x", "redis://:secret@h:99999"),
        "rediss://:secret@h?ssl_cert_reqs=none",
        "rediss://:secret@h?ssl_cert_reqs=",
        "rediss://:secret@h?ssl_check_hostname=false",
        "rediss://:secret@h?SSL_CERT_REQS=none",
        "rediss://:secret@h?db=1&ssl_ciphers=NULL",
        "rediss://:secret@h?socket_timeout=3600",
        "rediss://:secret@h?secret",
        "rediss://:secret@[::1",
    ],
)
def test_a_url_that_says_anything_else_is_refused_and_not_repeated(url):
    with pytest.raises(InputError) as refused:
        parse_address(url)
    assert refused.value.reason == "bad_redis_url"
    assert "secret" not in f"{refused.value}{refused.value.context}"
    assert refused.value.__cause__ is None


def test_no_printed_text_has_the_password(redis_server):
    address = parse_address(redis_server.url)
    assert address.password == PASSWORD
    assert PASSWORD not in f"{address!r} {address} {[address]}"
    assert PASSWORD not in repr(RedisLink(lambda: redis_server.url, stage="test"))


def test_channels_of_stages_tenants_and_uses_differ():
    lane = Lane(tenant="acme", project="docs", conversation="c-1")
    assert channel_of("prod", lane, "steer") == "stepline:prod:acme:docs:c-1:steer"
    assert channel_of("prod", lane, "events") == "stepline:prod:acme:docs:c-1:events"


# --- verified


def test_a_server_is_reached_over_tls_that_is_verified(tls_server, lane):
    with linked(tls_server.url) as link:
        assert listened(link, lane, b"1", b"2") == [b"1", b"2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.partition("?")[0],
        lambda url: url.replace("127.0.0.1", "localhost"),
        lambda url: url.replace("rediss:", "redis:").partition("?")[0],
    ],
    ids=["unknown authority", "another name", "no TLS"],
)
def test_a_server_that_cannot_be_verified_gets_nothing(tls_server, lane, change, caplog):
    with linked(change(tls_server.url)) as link:
        assert not link.publish(lane, "steer", [b"1"])
        with closing(Waker()) as waker, pytest.raises(DependencyError):
            link.listen(lane, "steer", waker)
    assert PASSWORD not in caplog.text


def test_a_wrong_password_is_a_server_that_cannot_be_reached(redis_server, lane, caplog):
    caplog.set_level(logging.DEBUG)
    with linked(redis_server.url.replace(PASSWORD, "secret-but-wrong")) as link:
        assert not link.publish(lane, "steer", [b"1"])
    record = caplog.records[-1]
    assert (record.message, record.error) == ("redis not reached", "AuthenticationError")
    assert "secret-but-wrong" not in f"{caplog.text}{[vars(r) for r in caplog.records]}"


# --- never waited for


def test_a_server_that_failed_is_left_alone_for_longer_each_time(lane, caplog):
    time = Time()
    with linked(DEAD, now_s=time) as link:
        rests = []
        for _ in range(9):
            assert not link.publish(lane, "steer", [b"1"])
            rests.append(caplog.records[-1].rest_s)
            assert not link.publish(lane, "steer", [b"1"])
            assert len(caplog.records) == len(rests)
            time.now_s += rests[-1]
    assert rests == [min(REST_MAX_S, REST_FIRST_S * 2**i) for i in range(9)]


def test_a_server_that_stays_away_for_weeks_is_still_asked(lane):
    time = Time()
    with linked(DEAD, now_s=time) as link, closing(Waker()) as waker:
        for _ in range(1100):
            assert not link.publish(lane, "steer", [b"1"])
            time.now_s += REST_MAX_S
        with pytest.raises(DependencyError):
            link.listen(lane, "steer", waker)


def test_concurrent_failures_count_as_one(lane, caplog):
    together = threading.Barrier(8)

    def meet() -> str:
        together.wait(PATIENCE_S)
        return DEAD

    def fail(_number: int) -> str:
        with closing(Waker()) as waker, pytest.raises(DependencyError) as refused:
            link.listen(lane, "steer", waker)
        return refused.value.reason

    with closing(RedisLink(meet, stage="test", now_s=Time())) as link, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(fail, range(8))) == {"redis_unreachable"}
    assert [record.rest_s for record in caplog.records] == [REST_FIRST_S]


def test_a_resting_link_accepts_no_listener(lane):
    with linked(DEAD, now_s=Time()) as link, closing(Waker()) as waker:
        assert not link.rests
        for _ in range(2):
            with pytest.raises(DependencyError) as refused:
                link.listen(lane, "steer", waker)
            assert refused.value.reason == "redis_unreachable"
            assert link.rests


def test_a_server_that_answers_again_is_asked_as_ever(redis_server, lane, caplog):
    time, urls = Time(), [DEAD, redis_server.url]
    with closing(RedisLink(lambda: urls.pop(0), stage="test", now_s=time)) as link:
        assert not link.publish(lane, "steer", [b"1"])
        time.now_s += REST_FIRST_S
        assert link.publish(lane, "steer", [b"1"])
        assert link.publish(lane, "steer", [b"1"])
    assert caplog.messages == ["redis not reached"]
    assert urls == []  # it was asked again after the failure, and not after the success


def test_a_secret_that_cannot_be_read_is_a_server_that_cannot_be_reached(lane, caplog):
    def unreadable() -> str:
        raise DependencyError("not now", code="secret_unreadable")

    with closing(RedisLink(unreadable, stage="test")) as link:
        assert not link.publish(lane, "steer", [b"1"])
    assert [record.code for record in caplog.records] == ["secret_unreadable"]


def test_an_invalid_url_stops_no_work(lane, caplog):
    with linked("cache.example.com") as link, closing(Waker()) as waker:
        assert not link.publish(lane, "steer", [b"1"])
        with pytest.raises(SteplineError):
            link.listen(lane, "steer", waker)
    assert [record.code for record in caplog.records] == ["bad_redis_url"]


def test_an_idle_connection_that_died_is_reopened(redis_server, lane, caplog):
    with linked(redis_server.url) as link:
        assert link.publish(lane, "steer", [b"1"])
        redis_server.restart()
        assert link.publish(lane, "steer", [b"2"])
    assert caplog.messages == []


FORKING = """
import os, sys
from stepline.adapters.redis import connection
from stepline.adapters.redis.connection import RedisLink, Waker
from stepline.model.ids import Lane

connection.CONNECT_S = connection.ANSWER_S = 60.0
lane = Lane(tenant="acme", project="docs", conversation="forked")
link = RedisLink(lambda: sys.argv[1], stage="test")
waker = Waker()  # one that is gone ends every wait
listener = link.listen(lane, "steer", waker)
assert link.publish(lane, "steer", [b"before"])
child = os.fork()
if child == 0:
    published = link.publish(lane, "steer", [b"child"])
    os._exit(0 if published and link._kept.pid == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
assert link.publish(lane, "steer", [b"parent"])
print(*(listener.hear(30).decode() for _ in range(3)))
"""


def test_a_child_process_does_not_speak_over_its_parents_connection(redis_server):
    done = subprocess.run(
        [sys.executable, "-c", FORKING, redis_server.url], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["before", "child", "parent"]


def test_a_wait_ends_by_a_call_before_or_after_its_start(redis_server, lane):
    with linked(redis_server.url) as link:
        for early in (True, False):
            with closing(Waker()) as waker:
                if early:
                    waker.end()
                with closing(link.listen(lane, "steer", waker)) as listener:
                    waker.end()
                    assert listener.hear(PATIENCE_S) is None
                    assert waker.ended.is_set()


def test_a_listener_reports_the_end_of_its_server(redis_server, lane):
    with (
        linked(redis_server.url) as link,
        closing(Waker()) as waker,
        closing(link.listen(lane, "steer", waker)) as listener,
    ):
        redis_server.restart()
        with pytest.raises(DependencyError) as lost:
            listener.hear(PATIENCE_S)
    assert lost.value.reason == "redis_unreachable"


def test_a_right_that_is_missing_is_a_failure_and_no_crash(redis_server, lane, caplog):
    with linked(redis_server.url) as link:
        assert link.publish(lane, "steer", [b"1"])
        link._kept.send_command("ACL", "SETUSER", "poor", "on", ">poor", "resetchannels", "+@all")
        link._kept.read_response()
    with linked(redis_server.url.replace(f":{PASSWORD}@", "poor:poor@")) as link:
        assert not link.publish(lane, "steer", [b"1"])
    assert caplog.records[-1].error == "NoPermissionError"
