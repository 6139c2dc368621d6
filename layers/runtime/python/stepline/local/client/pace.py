"""Intervals and retry limits of a client."""

from __future__ import annotations

from stepline.model.base import Value


class Pace(Value):
    """Intervals in seconds, and numbers of tries.

    Waits between tries are drawn at random, so that clients that lost one server do not come back in step.

    tick_s              how long one receive waits for a frame
    gap_s               how long a gap may close by itself: frames overtake each other
    resume_every_s      between two resumes, if the first did not bring everything
    resume_answer_s     until an unanswered resume is repeated
    answer_s            until an unanswered message, ping or renewal is repeated
    retry_after_max_s   longest pause that a server may ask for before a message is sent again
    tries               of one message on one connection, and of a resume that is refused
    connections         on which one message is sent before it is given up
    resumes             in a row without progress, before that is reported
    silent_s            of silence in an open turn before that is reported: longer than an execution may take
    ping_every_s        while a turn is open: finds a lost last frame
    idle_ping_every_s   otherwise: a gateway closes a connection after ten idle minutes
    pings               unanswered ones, after which the connection counts as broken
    renew_after         fraction of the token's remaining time
    replace_s           the age at which a connection is replaced: a gateway closes it after two hours
    reconnect_delays_s  upper bounds, one for each attempt to reconnect; after the last one the client gives up
    """

    tick_s: float = 0.25
    gap_s: float = 0.3
    resume_every_s: float = 0.5
    resume_answer_s: float = 10.0
    answer_s: float = 20.0
    retry_after_max_s: int = 120
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
