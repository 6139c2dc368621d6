"""The chat on a real terminal, with a real websocket: the input at each moment, and its effect."""

from __future__ import annotations

import signal
import termios

import pytest

from stepline.model.wire.event import DeltaFrame, ErrorFrame
from tests.support.warm_python import WarmPython
from tests.unit.local.client.answering_gateway import Agent
from tests.unit.local.client.gateway import running_gateway
from tests.unit.local.terminal.pty_chat import CTRL_C, CTRL_D, LINES, READY, typing

EVIL = "\x1b]8;;https://evil\x07link\x1b[2J\x9b31m\x01\r\x08\u202eabc&#8238;&#x9b;&#27;[2J\x02"


@pytest.fixture
def gateway():
    with running_gateway() as running:
        running.agent = running.script = Agent(patience=10_000)
        yield running


@pytest.fixture(scope="module")
def python():
    there = WarmPython(
        "stepline.local.terminal.chat", "stepline.local.terminal.line_editor", "stepline.adapters.system"
    )
    yield there
    there.close()


@pytest.fixture
def person(gateway, tmp_path, python):
    with typing(gateway.url, tmp_path, warm=python) as there:
        yield there


@pytest.fixture
def closed(gateway):
    gateway.accepting.clear()
    yield gateway.accepting
    gateway.accepting.set()


def heard(gateway):
    return [text for _, text in gateway.agent.heard]


def test_lines_typed_before_the_chat_starts_arrive_one_by_one_in_order(gateway, person):
    person.type("".join(f"{line}\n" for line in ["one", "", "two", "three"]) + "half ")
    person.until(lambda: len(heard(gateway)) == 3)
    person.type("a line\r")
    person.until(lambda: len(heard(gateway)) == 4)
    assert heard(gateway) == ["one", "two", "three", "half a line"]


def test_lines_that_are_typed_while_it_connects_are_shown_and_arrive(gateway, closed, person):
    person.type("one\rtwo\rthr")
    person.until(lambda: "> one\n> two\n> thr" in person.screen())
    assert not gateway.agent.heard
    closed.set()
    person.until(lambda: heard(gateway) == ["one", "two"])
    person.type("ee\r")
    person.until(lambda: heard(gateway) == ["one", "two", "three"])


def test_a_paste_of_many_lines_is_one_message_byte_for_byte(gateway, person):
    person.until(READY)
    person.paste("\n".join(LINES))
    person.until(lambda: person.screen().count("👩👩👧👦 é") == person.rows // 2)
    assert "39 " in person.screen()
    assert not gateway.agent.heard
    person.type("\r")
    person.until(lambda: gateway.agent.heard)
    person.paste("/stop\n")
    person.type("\x1b\rlast\r")
    person.until(lambda: len(gateway.agent.heard) == 2)
    assert gateway.agent.heard == [("prompt", "\n".join(LINES)), ("followup", "/stop\n\nlast")]


def test_a_paste_without_brackets_is_a_message_a_line_while_the_agent_works(gateway, person):
    person.until(READY)
    person.type("".join(f"{line}\r" for line in LINES))
    person.until(lambda: len(heard(gateway)) == len(LINES))
    assert heard(gateway) == LINES


def test_no_line_is_lost_between_two_prompts(gateway, person):
    gateway.agent.patience = 0
    person.type("".join(f"{line}\r" for line in LINES))
    person.until(lambda: len(heard(gateway)) == len(LINES))
    assert heard(gateway) == LINES


def test_lines_typed_while_output_streams_all_arrive(gateway, person):
    agent = gateway.agent

    def babble(request):
        frames = agent(request)
        if request["action"] == "send":
            claim = agent.n
            frames += [
                DeltaFrame(
                    conversation=agent.conversation, claim=claim, lane="answer.0", off=n * 6, text="words\n"
                )
                for n in range(200)
            ]
            frames += [
                agent.batch(agent.event("react.tool.call", tool_id=f"tool_{agent.n}")) for _ in range(50)
            ]
        return frames

    gateway.script = babble
    person.until(READY)
    person.type("go\r")
    person.paste("\n".join(LINES))
    person.type("\r" + "".join(f"{line}\r" for line in LINES))
    person.until(lambda: len(heard(gateway)) == 2 + len(LINES))
    assert heard(gateway) == ["go", "\n".join(LINES), *LINES]


def test_ctrl_c_clears_a_line_then_stops_the_turn_and_then_leaves(gateway, person):
    person.until(READY)
    person.type("never this" + CTRL_C)
    person.type("go\r" + CTRL_C)
    person.until("■ stopped")
    person.type("again\r")
    person.until(lambda: len(gateway.agent.heard) == 3)
    person.type("nor this" + CTRL_C)
    assert gateway.agent.open
    gateway.script = lambda _: []
    person.type(CTRL_C)
    person.until("Ctrl-C again leaves")
    person.type(CTRL_C)
    assert person.left() == 0
    assert gateway.agent.heard == [("prompt", "go"), ("stop", ""), ("prompt", "again")]
    assert "chat --conversation chat-" in person.screen()
    assert termios.tcgetattr(person.near) == person.before
    assert person.raw.endswith(b"\x1b[?2004l")


def test_ctrl_c_at_an_empty_prompt_leaves_at_the_second_time(gateway, person):
    person.until(READY)
    person.type(CTRL_C)
    person.until("Ctrl-C again leaves")
    person.type("a")
    person.until(lambda: "again leaves" not in person.screen())
    person.type(CTRL_C + CTRL_C + CTRL_C)
    assert person.left() == 0
    assert not gateway.agent.heard


def test_ctrl_c_leaves_while_it_connects_and_names_what_was_not_sent(closed, person):
    person.type("unsent\r")
    person.until("> unsent")
    person.type(CTRL_C + CTRL_C)
    assert person.left() == 0
    assert "not sent: unsent" in person.screen()
    assert termios.tcgetattr(person.near) == person.before


def test_ctrl_c_leaves_a_chat_that_is_slow_to_begin_and_names_what_was_not_sent(gateway, tmp_path):
    """The prompt reads keys while the chat is still being created: here until two Ctrl-C have arrived."""
    slow = (
        "import signal, time\n"
        "def made(self, *given, **named):\n"
        "    while signal.SIGINT not in signal.sigpending(): time.sleep(0.01)\n"
        "    return begin(self, *given, **named)\n"
        "begin, Chat.__init__ = Chat.__init__, made"
    )
    with typing(gateway.url, tmp_path, first=slow) as person:
        person.type("unsent\r")
        person.until("> unsent")
        person.type(CTRL_C + CTRL_C)
        assert person.left() == 0
        assert "not sent: unsent" in person.screen()


def test_a_terminated_chat_restores_the_terminal(person):
    person.until(READY)
    person.type("half a line")
    person.until("> half a line")
    person.process.terminate()
    assert person.left() == 128 + signal.SIGTERM
    assert "not sent: half a line" in person.screen()
    assert termios.tcgetattr(person.near) == person.before


@pytest.mark.parametrize("leave", ["/quit\r", CTRL_D])
def test_leaving_in_a_turn_sends_the_lines_typed_before(gateway, person, leave):
    person.until(READY)
    person.type("".join(f"{line}\r" for line in LINES) + leave)
    assert person.left() == 0
    assert heard(gateway) == LINES


def test_a_message_that_a_stopped_turn_did_not_read_can_be_edited_and_sent_again(gateway, person):
    person.until(READY)
    person.type("go\rand this\r/stop\r")
    # Before that, the prompt shows the line because it was typed.
    person.until("not read, the turn was stopped first")
    person.until(lambda: person.prompt().startswith("and this"))
    person.type(" too\r\x1b[A")
    person.until(lambda: len(gateway.agent.heard) == 4)
    assert gateway.agent.heard[-1] == ("prompt", "and this too")
    person.until(lambda: person.prompt().startswith("and this too"))


def test_a_refused_message_is_restored_before_the_current_draft(gateway, person):
    def refuse(request):
        said = request.get("message_id", "")
        return [ErrorFrame(code="rate_limited", message="later", message_id=said)] if said else []

    person.until(READY)
    gateway.script = refuse
    person.paste("one\ntwo")
    person.type("\rthree")
    person.until(lambda: person.prompt() == "one\n  two\n  three")


def test_a_new_conversation_takes_the_lines_that_are_typed_ahead(gateway, person):
    gateway.agent.patience = 0
    person.type("one\r")
    person.until("all heard")
    person.type("/new\r/hlep\rtwo\r")
    person.until(lambda: "> two\nall heard" in person.screen())
    assert "/hlep is not a command and was not sent" in person.screen()
    assert person.screen().count("conversation chat-") == 2
    assert heard(gateway) == ["one", "two"]


def test_no_control_of_a_stranger_reaches_the_terminal(gateway, person):
    agent = gateway.agent

    def attack(request):
        if request["action"] != "send":
            return agent(request)
        frames = agent(request)
        hostile = [agent.event("react.tool.call", tool_id=EVIL, params={EVIL: EVIL})]
        for lane in ("thinking.0", "answer.0", f"canvas.{EVIL}", "code.0"):
            off = DeltaFrame(conversation=agent.conversation, claim=1, lane=lane, off=0, text=EVIL)
            frames.append(off)
        agent.open = False
        return [
            *frames,
            agent.batch(*hostile),
            agent.batch(agent.event("chat.complete", answer=f"{EVIL} done")),
        ]

    gateway.script = attack
    person.until(READY)
    person.until(lambda: b"\x1b[?2004h" in person.raw)  # before it, the kernel shows the typed text
    person.paste(EVIL)
    person.until("[2J␂")  # as the line editor shows it
    person.type("\r")
    person.until(" done")
    person.type(CTRL_D)
    assert person.left() == 0
    shown = person.raw.decode()
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert not {"\x01", "\x02", "\x07", "\x9b", "\u202e"} & set(shown)
