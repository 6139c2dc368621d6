"""The SQLite checkpointer, as langgraph.json names it."""

from contextlib import asynccontextmanager

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@asynccontextmanager
async def make_checkpointer():
    """Yield the checkpointer."""
    async with AsyncSqliteSaver.from_conn_string("checkpoints.db") as saver:
        yield saver
