"""The modes of a round: whether it may take several actions, and the words in which a deployment says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

FanoutMode: TypeAlias = Literal["off", "safe_fanout", "classic"]

FANOUT_MODES: Final[Mapping[str, FanoutMode]] = {
    **dict.fromkeys(("off", "false", "0", "no"), "off"),
    **dict.fromkeys(("safe_fanout", "fanout", "on", "true", "1", "yes"), "safe_fanout"),
    "classic": "classic",
}
"""Each word that is understood, and the mode it stands for."""
