"""The names of the metrics, for the code that counts and the alarms that watch."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "Stepline"

TURNS_STARTED: Final = "TurnsStarted"
TURNS_CLOSED: Final = "TurnsClosed"
TURNS_FAILED: Final = "TurnsFailed"
TURNS_TAKEN_OVER: Final = "TurnsTakenOver"
ROUNDS_DECIDED: Final = "RoundsDecided"
DECISIONS_REJECTED: Final = "DecisionsRejected"
FIRST_DELTA_MS: Final = "FirstDeltaMs"
TOOL_CALLS: Final = "ToolCalls"
TOOL_FAILURES: Final = "ToolFailures"
PROGRAMS_RUN: Final = "ProgramsRun"
PROGRAMS_FAILED: Final = "ProgramsFailed"
EXEC_SECONDS: Final = "ExecSeconds"
LOG_CONFLICTS: Final = "LogConflicts"
FRAMES_POSTED: Final = "FramesPosted"
SOCKETS_GONE: Final = "SocketsGone"
INPUT_TOKENS: Final = "InputTokens"
CACHED_TOKENS: Final = "CachedTokens"
OUTPUT_TOKENS: Final = "OutputTokens"
EDGE_ERRORS: Final = "EdgeErrors"
