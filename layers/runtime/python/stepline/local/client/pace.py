"""How patient a client is: its intervals, in seconds, and how often it tries."""

from __future__ import annotations

from stepline.model.base import Value


class Pace(Value):
    """Waits between tries are drawn, so that clients that lost one server do not come back in step.

    tick_s              how long a look at the connection waits for a frame
    gap_s               how long a gap may close by itself: frames overtake each other
    resume_every_s      between two resumes, the second because the first did not bring it all
    resume_answer_s     until a resume is asked for again
    answer_s            until a message, a ping or a renewal is
    tries               of one message on one connection, and of a resume that is refused
    connections         on which one message goes out, after which it is given up
    resumes             in a row that bring nothing new, after which that is told
    silent_s            of an open turn, after which that is told: longer than an execution may take
    ping_every_s        while a turn is open: finds a lost last frame
    idle_ping_every_s   else: a gateway closes what is silent for ten minutes
    pings               unanswered ones, after which the connection counts as broken
    renew_after         of the time that the token has left
    replace_s           the age at which a connection is replaced: a gateway closes it after two hours
    reconnect_delays_s  at most, before each new try to connect; none of them left means to give up
    """

    tick_s: float = 0.25
    gap_s: float = 0.3
    resume_every_s: float = 0.5
    resume_answer_s: float = 10.0
    answer_s: float = 20.0
    tries: int = 5
    connections: int = 20
    resumes: int = 12
    silent_s: float = 4500.0
    ping_every_s: float = 25.0
    idle_ping_every_s: float = 240.0
    pings: int = 3
    renew_after: float = 0.8
    replace_s: tuple[float, float] = (6000.0, 6900.0)
    reconnect_delays_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 16.0, 16.0)
