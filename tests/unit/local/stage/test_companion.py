"""The issuer, the page and the scripted model as services: each has its own port, and answers for itself."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepline.local.stage.lifecycle import (
    COMPANIONS,
    choose_model,
    first_requests,
    model_variables,
    start_issuer,
    start_page,
)
from stepline.local.stage.service import LOOPBACK, Service, claimed_port, release_ports
from stepline.local.tour import APPROVAL, STEPS, TOUR

STARTS = {
    "issuer": lambda home, said: start_issuer(home, "http://127.0.0.1:1", said.append),
    "page": lambda home, said: start_page(home, said.append),
    "model": lambda home, said: model_variables(home, said.append)["ANTHROPIC_BASE_URL"],
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name in COMPANIONS:
        Service(name, tmp_path).stop(timeout_s=3)
    release_ports(tmp_path)


@pytest.mark.parametrize("name", COMPANIONS)
def test_a_second_start_finds_the_first(home, name):
    said = []
    url = STARTS[name](home, said)
    pid = Service(name, home).pid
    assert STARTS[name](home, said) == url
    assert Service(name, home).pid == pid
    assert len(said) == 1


def test_another_name_of_the_same_interpreter_starts_no_service_anew(home):
    """`python -m stepline` and `stepline`, whose first line names `python3`, are one stage."""
    names = (str(Path(sys.prefix) / "bin" / name) for name in ("python", "python3"))
    starts = f"from {start_page.__module__} import start_page; start_page(Path({str(home)!r}), print)"
    said = [
        subprocess.run(
            [name, "-c", f"from pathlib import Path; {starts}"], capture_output=True, text=True, check=True
        ).stdout
        for name in names
    ]
    assert said[0].startswith("starting the chat page")
    assert said[1] == ""


@pytest.mark.parametrize("name", COMPANIONS)
def test_a_killed_service_restarts_at_its_port(home, name):
    service = Service(name, home)
    url = STARTS[name](home, [])
    os.kill(service.pid, signal.SIGKILL)
    service.stop(timeout_s=3)
    assert STARTS[name](home, []) == url
    assert service.running


@pytest.mark.parametrize("name", COMPANIONS)
def test_a_service_leaves_its_port_to_a_process_that_took_it(home, name):
    url = STARTS[name](home, [])
    Service(name, home).stop(timeout_s=3)
    with socket.socket() as taker:
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taker.bind((LOOPBACK, claimed_port(name, home)))
        taker.listen()
        assert STARTS[name](home, []) != url


def test_a_stage_asks_the_scripted_model_by_its_name_and_a_real_one_by_the_default(home, monkeypatch):
    assert choose_model(model_variables(home, [].append)) == {"model_roles": '{"*": "scripted"}'}
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    assert choose_model(model_variables(home, [].append)) == {}


def test_a_real_model_gets_no_requests_for_the_scripted_one_only(home, monkeypatch):
    assert first_requests(model_variables(home, [].append)) == tuple(TOUR.values())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    assert {APPROVAL, STEPS}.isdisjoint(first_requests(model_variables(home, [].append)))


def test_an_issuer_of_another_page_starts_anew_at_its_port(home):
    said, service = [], Service("issuer", home)
    url = start_issuer(home, "http://127.0.0.1:1", said.append)
    pid = service.pid
    assert start_issuer(home, "http://127.0.0.1:2", said.append) == url
    assert service.pid != pid
    own = start_issuer(home, "http://127.0.0.1:2", said.append, origins=["http://localhost:5173"])
    assert own == url
    assert len(said) == 3
