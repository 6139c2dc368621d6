"""The output of a running program, for clients that watch, that lose frames, and that are late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.sandbox.live_log import LiveLog
from stepline.delivery.follow import Follower
from stepline.delivery.program_log import post_log
from stepline.errors import DependencyError
from stepline.events.filter import EventFilter, EventRule
from stepline.events.types import EVENT_TABLE
from stepline.local.client.change import LaneEnded, LaneKnown, StreamSettled
from stepline.local.client.state import ClientState
from stepline.model.program.execution import Run
from stepline.model.program.running_log import LOG_CHARS, RunningLog, log_key
from stepline.model.wire.event import FRAME_MAX_BYTES, DeltaFrame
from stepline.ports.executor import Job
from tests.support.conversation import LANE, Conversation, frames, of
from tests.support.fold import fold_frames
from tests.support.generation import answered, coded

NAME = "exec.0.log"


class Printing(Conversation):
    """A conversation with one program; `while_running` is done while it runs, with its job."""

    def __init__(self, while_running: Callable[[Job], None]) -> None:
        super().__init__(coded("print(1)", "a.csv"), answered("Done."))

        def run(job: Job) -> Run:
            while_running(job)
            return Run(returncode=0, program_log="the end\n", log_bytes=8)

        self.programs(run)


def keep(job: Job, text: str, *, since: int = 0, start: int = 0, ended: bool = False) -> None:
    job.keep_log(msgspec.json.encode(RunningLog(lane=NAME, start=start, since=since, text=text, ended=ended)))


def shown(inbox: list[bytes], state: ClientState | None = None) -> ClientState:
    return fold_frames(state or ClientState(conversation=LANE.conversation), frames(inbox))[0]


def test_a_client_that_watches_sees_what_a_program_prints_while_it_runs() -> None:
    seen: list[str] = []

    def print_twice(job: Job) -> None:
        keep(job, "one ")
        seen.append(shown(inbox).text(NAME))
        keep(job, "one two", since=4, ended=True)
        seen.append(shown(inbox).text(NAME))

    conversation = Printing(print_twice)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    assert seen == ["one ", "one two"]
    state, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))
    (known,) = [effect for effect in effects if isinstance(effect, LaneKnown) and effect.lane == NAME]
    (call,) = [event.data["call_id"] for event in events(inbox) if event.type == "react.tool.call"]
    assert (known.facts.sub_type, known.facts.execution_id) == ("code_exec.log", call)
    assert [effect.chars for effect in effects if isinstance(effect, LaneEnded) and effect.lane == NAME] == [
        7
    ]
    assert StreamSettled(claim=known.claim) in effects
    assert not state.behind()


def events(inbox: list[bytes]):
    return [event for frame in frames(inbox) for event in getattr(frame, "events", ())]


def test_a_late_client_gets_the_same_program_log() -> None:
    clients: list[ClientState] = []

    def print_on(job: Job) -> None:
        keep(job, "one ")
        late = shown(conversation.resume_as("late", ClientState(conversation=LANE.conversation)))
        again = shown(conversation.resume_as("again", late), late)
        keep(job, "one two", since=4)
        clients.extend([shown(inbox), shown(conversation.resume_as("third", again), again)])

    conversation = Printing(print_on)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    watching, late = clients
    assert watching.text(NAME) == late.text(NAME) == "one two"
    assert (watching.claim, watching.lanes) == (late.claim, late.lanes)


def test_a_log_in_pieces_fits_into_frames() -> None:
    conversation = Printing(lambda job: keep(job, "\x01" * LOG_CHARS))
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    pieces = [body for body in inbox if isinstance(frames([body])[0], DeltaFrame) and b"exec.0.log" in body]
    assert len(pieces) > 16
    assert max(map(len, pieces)) < FRAME_MAX_BYTES


def test_a_client_gets_the_end_of_a_long_log_and_its_offset() -> None:
    states: list[ClientState] = []

    def print_much(job: Job) -> None:
        keep(job, "early")
        keep(job, "x" * LOG_CHARS, since=5, start=1_000_000)
        states.append(shown(inbox))
        states.append(shown(conversation.resume_as("late", ClientState(conversation=LANE.conversation))))

    conversation = Printing(print_much)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    for state in states:
        assert state.lanes[NAME].base == 1_000_000
        assert state.text(NAME) == "x" * LOG_CHARS
        assert not state.behind()


@given(
    st.lists(
        st.tuples(st.integers(1, 40_000), st.sampled_from(["seen", "lost", "late"])), min_size=1, max_size=8
    ),
    st.randoms(use_true_random=False),
)
def test_a_resume_completes_a_log_after_lost_or_reordered_frames(prints, random) -> None:
    found: list[tuple[ClientState, RunningLog]] = []

    def print_all(job: Job) -> None:
        state, printed, since, kept = ClientState(conversation=LANE.conversation), "", 0, []
        for size, fate in prints:
            printed += chr(ord("a") + len(printed) % 26) * size
            start = max(0, len(printed) - LOG_CHARS)
            log = RunningLog(lane=NAME, start=start, since=since, text=printed[start:])
            job.keep_log(msgspec.json.encode(log))
            since = len(printed)
            came = frames(inbox)
            inbox.clear()
            random.shuffle(came)
            if fate == "late":
                kept += came
            elif fate == "seen":
                state, _ = fold_frames(state, [*came, *kept])
                kept = []
        for attempt in range(2):
            state = shown(conversation.resume_as(f"k{attempt}", state), state)
        found.append((state, log))

    conversation = Printing(print_all)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    ((state, log),) = found
    assert not state.behind()
    assert (state.lanes[NAME].base, state.text(NAME)) == (log.start, log.text)


def test_a_follower_gets_the_log_across_its_gaps() -> None:
    texts: list[str] = []

    def print_on(job: Job) -> None:
        follower = Follower(conversation.ports, LANE, after=0, claim=0, have={})
        keep(job, "one ")
        sent = follower.catch_up()
        inbox.clear()
        keep(job, "one two ", since=4)
        inbox.clear()
        keep(job, "one two three", since=8)
        sent += [out for body in inbox for out in follower.take(body)]
        texts.append(shown(sent).text(NAME))
        keep(job, "y" * LOG_CHARS, since=13, start=99_000)
        sent += [out for body in inbox for out in follower.take(body)]
        texts.append(shown(sent).text(NAME))

    conversation = Printing(print_on)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    assert texts == ["one two three", "y" * LOG_CHARS]


def test_output_after_the_end_of_a_program_is_not_shown() -> None:
    jobs: list[Job] = []
    conversation = Printing(jobs.append)
    conversation.send()
    conversation.run()
    inbox = conversation.listen()
    keep(jobs[0], "a late copy")
    assert inbox == []
    state = shown(conversation.resume_as("late", ClientState(conversation=LANE.conversation)))
    assert state.lanes == {}
    assert post_log(conversation.ports, LANE, jobs[0].request.turn, jobs[0].request.exec_id) == 0


def test_an_unreadable_program_log_delays_no_event() -> None:
    states: list[ClientState] = []

    def away(_key: str) -> bytes:
        raise DependencyError("the store is away")

    def ask(job: Job) -> None:
        keep(job, "one")
        artifacts = conversation.ports.artifacts
        artifacts.get = away  # type: ignore[method-assign]  # the memory twin's own
        states.append(shown(conversation.resume_as("late", ClientState(conversation=LANE.conversation))))
        del artifacts.get  # type: ignore[method-assign]  # see above

    conversation = Printing(ask)
    conversation.send()
    conversation.run()
    (state,) = states
    assert (state.lanes, state.behind(), state.open) == ({}, False, True)


def test_a_run_without_a_log_posts_none() -> None:
    posted: list[int] = []

    def ask(job: Job) -> None:
        posted.append(post_log(conversation.ports, LANE, job.request.turn, job.request.exec_id))

    conversation = Printing(ask)
    conversation.send()
    conversation.run()
    assert posted == [0]


@pytest.mark.parametrize("withheld", [True, False])
def test_a_deployment_that_withholds_the_end_of_the_output_shows_no_log_but_that_it_runs(
    withheld: bool,
) -> None:
    types = frozenset(row.type for row in EVENT_TABLE) - ({"code_exec.log"} if withheld else set())
    conversation = Printing(lambda job: keep(job, "one", ended=True))
    outward = EventFilter((EventRule(types=types),))
    conversation.ports = replace(conversation.ports, outward=outward)
    artifacts = conversation.ports.artifacts
    artifacts.replaced = lambda key: post_log(conversation.ports, LANE, *key.split("/")[4:6])  # type: ignore[attr-defined]  # the memory twin's own
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    assert bool([frame for frame in of(DeltaFrame, inbox) if frame.lane == NAME]) is not withheld
    state, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))
    ends = [effect.chars for effect in effects if isinstance(effect, LaneEnded) and effect.lane == NAME]
    assert (ends, state.behind()) == ([0 if withheld else 3], False)


def test_a_watching_client_gets_the_log_of_a_real_run() -> None:
    def print_live(job: Job) -> None:
        with LiveLog(job.request, job.keep_log, interval_s=3600) as log:
            log.begin()
            log.write("grüße\n".encode())

    conversation = Printing(print_live)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    (frame,) = [frame for frame in of(DeltaFrame, inbox) if frame.lane == NAME]
    assert frame.text == "grüße\n"
    effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))[1]
    (known,) = [effect for effect in effects if isinstance(effect, LaneKnown) and effect.lane == NAME]
    (over,) = [effect for effect in effects if isinstance(effect, LaneEnded) and effect.lane == NAME]
    assert "" < known.facts.began_at <= over.at
    call = conversation.backends["process"].jobs[0].request
    assert log_key(LANE, call.turn, call.exec_id) in conversation.ports.artifacts.objects  # type: ignore[attr-defined]  # the memory twin's own
