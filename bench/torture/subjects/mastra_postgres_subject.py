"""Mastra with its state in Postgres, which its page on crash recovery shows; its events stay in the Redis cache."""

from __future__ import annotations

from bench.torture.subject import Place
from bench.torture.subjects import mastra_subject, peer_process


def versions() -> str:
    """Return the versions that run."""
    return peer_process.versions(mastra_subject.NAME, "@mastra/core", "@mastra/pg", "@mastra/redis")


def open_subject(place: Place) -> mastra_subject.Mastra:
    """Return the app with its state in Postgres. Raises NoPeerError."""
    return mastra_subject.Mastra(place, with_postgres=True)
