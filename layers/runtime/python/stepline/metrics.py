"""Metric names, shared by the code that counts and the alarms."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "Stepline"
SERVICE: Final = "stepline"

TURNS_STARTED: Final = "TurnsStarted"
TURNS_CLOSED: Final = "TurnsClosed"
TURNS_FAILED: Final = "TurnsFailed"
TURNS_TAKEN_OVER: Final = "TurnsTakenOver"
APPROVALS_REQUESTED: Final = "ApprovalsRequested"
ROUNDS_DECIDED: Final = "RoundsDecided"
DECISIONS_REJECTED: Final = "DecisionsRejected"
FIRST_DELTA_MS: Final = "FirstDeltaMs"
TOOL_CALLS: Final = "ToolCalls"
TOOL_FAILURES: Final = "ToolFailures"
HOOKS_FAILED: Final = "HooksFailed"
PROGRAMS_RUN: Final = "ProgramsRun"
PROGRAMS_FAILED: Final = "ProgramsFailed"
PROGRAMS_LOST: Final = "ProgramsLost"
PROGRAMS_CANCELLED: Final = "ProgramsCancelled"
EXEC_SECONDS: Final = "ExecSeconds"
EXEC_SECONDS_SPARED: Final = "ExecSecondsSpared"
HANDOVERS_STALE: Final = "HandoversStale"
LOG_CONFLICTS: Final = "LogConflicts"
SEGMENTS_SEALED: Final = "SegmentsSealed"
SEGMENTS_UNSEALED: Final = "SegmentsUnsealed"
SEGMENTS_UNREAD: Final = "SegmentsUnread"
WORKSPACES_UNSAVED: Final = "WorkspacesUnsaved"
MEMORY_BEHIND: Final = "MemoryBehind"
MEMORY_UNREAD: Final = "MemoryUnread"
MEMORY_UNPACKED: Final = "MemoryUnpacked"
MEMORY_UNWRITTEN: Final = "MemoryUnwritten"
EVENT_RULE_FAILURES: Final = "EventRuleFailures"
UPLOADS_READY: Final = "UploadsReady"
UPLOADS_REFUSED: Final = "UploadsRefused"
FRAMES_POSTED: Final = "FramesPosted"
SOCKETS_GONE: Final = "SocketsGone"
INPUT_TOKENS: Final = "InputTokens"
CACHED_TOKENS: Final = "CachedTokens"
OUTPUT_TOKENS: Final = "OutputTokens"
CACHE_BUSTS: Final = "CacheBusts"
COMPACTIONS: Final = "Compactions"
COMPACTIONS_SKIPPED: Final = "CompactionsSkipped"
STEERS: Final = "Steers"
EDGE_ERRORS: Final = "EdgeErrors"


def dimensions(stage: str) -> dict[str, str]:
    """Return the dimensions that separate a deployment's metrics from others in the same account."""
    return {"service": SERVICE, "stage": stage}
