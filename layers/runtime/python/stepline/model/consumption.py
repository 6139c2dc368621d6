"""The services that a function used while it worked for a conversation, as AWS bills them."""

from __future__ import annotations

from stepline.model.base import Row


class Consumption(Row):
    """Counts of one or more invocations.

    `mb_ms` is the time of a function times its memory, `exec_mb_ms` that of a program's task. Reads of the table are counted in
    halves of a unit (`read_units_x2`), since an eventually consistent one is half of one. Of tasks, `exec_ms` is the time
    of the program, its start and its collection.
    """

    invocations: int = 0
    lambda_ms: int = 0
    mb_ms: int = 0
    transitions: int = 0
    read_units_x2: int = 0
    write_units: int = 0
    s3_puts: int = 0
    s3_gets: int = 0
    posts: int = 0
    post_bytes: int = 0
    exec_ms: int = 0
    exec_mb_ms: int = 0
    searches: int = 0
    fetches: int = 0
    embeddings: int = 0
