"""The channels of a deployment for followers and steers: the gateway and the log, plus Redis if it has one."""

import subprocess
import sys

import pytest

from stepline.adapters.memory.clock import MemoryMeter
from stepline.adapters.polling_signals import PollingSignals
from stepline.adapters.redis.signal import RedisSignals
from stepline.adapters.s3_vectors.memory_index import S3VectorsMemoryIndex
from stepline.bootstrap.app import App
from stepline.bootstrap.aws_wiring import on_aws
from stepline.delivery.posting import GatewayBroadcast
from stepline.log.bindings import Ports
from stepline.settings import Settings

SECRET = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:redis"


def ports(**said: str) -> Ports:
    return on_aws(Settings.from_env(said), MemoryMeter(), App).ports


LOADED = """
import sys
from stepline.adapters.memory.clock import MemoryMeter
from stepline.bootstrap.app import App
from stepline.bootstrap.aws_wiring import on_aws
from stepline.settings import Settings

app = on_aws(Settings.from_env({"STEPLINE_REDIS_URL": sys.argv[1]}), MemoryMeter(), App)
print(type(app.ports.signals).__name__, *sorted({"redis", "stepline.adapters.redis.connection"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("url", "loaded"),
    [("", "PollingSignals"), ("rediss://cache.example", "RedisSignals stepline.adapters.redis.connection")],
)
def test_redis_is_loaded_only_if_configured_and_its_package_on_first_use(url, loaded):
    done = subprocess.run([sys.executable, "-c", LOADED, url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == loaded


def test_redis_is_a_second_channel_for_events_and_text():
    plain = ports()
    assert isinstance(plain.broadcast, GatewayBroadcast)
    assert isinstance(plain.signals, PollingSignals)
    assert plain.relay.broadcast is None
    live = ports(STEPLINE_REDIS_SECRET_ARN=SECRET)
    gateway, redis = live.broadcast.ways
    assert isinstance(gateway, GatewayBroadcast)
    assert isinstance(live.signals, RedisSignals)
    assert live.relay.broadcast is redis


@pytest.mark.parametrize(("said", "poll_s"), [("", 0.3), ("500", 0.5), ("0", 0.3), ("-5", 0.3)])
def test_the_deployment_sets_the_polling_interval_of_a_step(said, poll_s):
    assert ports(STEPLINE_STEER_POLL_MS=said).signals.poll_s == poll_s
    assert ports(STEPLINE_STEER_POLL_MS=said, STEPLINE_REDIS_SECRET_ARN=SECRET).signals.poll_s == poll_s


def test_memory_is_in_vectors_where_a_bucket_is_named():
    bucket = "arn:aws:s3vectors:eu-west-1:111122223333:bucket/memory"
    assert isinstance(ports(STEPLINE_MEMORY_BUCKET_ARN=bucket).memory, S3VectorsMemoryIndex)
    assert not isinstance(ports().memory, S3VectorsMemoryIndex)
