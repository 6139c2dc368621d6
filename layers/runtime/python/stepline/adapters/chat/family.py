"""The families of models that chat completions reach: the fields that each takes, and the files that it reads.

A server refuses a whole request for one field that a model does not support, so a model without a family gets only what
every server takes, and the fields that the deployment chose for its role.

Source: developers.openai.com, "Reasoning", "Images and vision", "File inputs" and the reference of chat completions, as
in the types of the package `openai` 3.57; the list of models of the package `litellm` 1.110.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stepline.model.base import Value
from stepline.ports.model import Effort, MediaKind, RoleChoice

CACHE_TOKENS: Final = 1024
"""The shortest prompt that OpenAI caches; other servers name none."""
_ALL: Final[tuple[Effort, ...]] = ("low", "medium", "high", "xhigh", "max")
_TO_XHIGH: Final[tuple[Effort, ...]] = ("low", "medium", "high", "xhigh")
_OLDER: Final[tuple[Effort, ...]] = ("low", "medium", "high")
_FILES: Final[tuple[MediaKind, ...]] = ("pictures", "documents")


class ChatFamily(Value):
    """One family of models.

    `thinks`: it thinks before it answers, takes no `temperature`, and its thinking is counted in the limit of an answer,
    whose field is then `max_completion_tokens`. `off`: the effort `none` switches its thinking off. `efforts` are its other
    levels, if they are known. `takes` are the kinds of files that it reads.
    """

    thinks: bool = False
    off: bool = False
    efforts: tuple[Effort, ...] = ()
    takes: tuple[MediaKind, ...] = ("pictures",)


UNKNOWN: Final = ChatFamily()
CHAT_FAMILIES: Final[Mapping[str, ChatFamily]] = MappingProxyType(
    {
        # By the beginning of the model's name; the first match applies, so a version precedes its family.
        "gpt-6-sol": ChatFamily(thinks=True, off=True, efforts=_ALL, takes=_FILES),
        "gpt-6-luna": ChatFamily(thinks=True, off=True, efforts=_ALL, takes=_FILES),
        "gpt-6.1-terra": ChatFamily(thinks=True, off=True, efforts=_ALL, takes=_FILES),
        "gpt-6": ChatFamily(thinks=True, efforts=_ALL, takes=_FILES),
        "gpt-5.1": ChatFamily(thinks=True, off=True, efforts=_OLDER, takes=_FILES),
        "gpt-5.": ChatFamily(thinks=True, off=True, efforts=_TO_XHIGH, takes=_FILES),
        "gpt-5": ChatFamily(thinks=True, efforts=_OLDER, takes=_FILES),
        "gpt-4o": ChatFamily(takes=_FILES),
        "gpt-4.": ChatFamily(takes=_FILES),
        "gpt-4-turbo": ChatFamily(takes=_FILES),
        "gpt-4": ChatFamily(takes=()),
        "gpt-3.5": ChatFamily(takes=()),
        "gpt-oss": ChatFamily(takes=()),
        "o1-mini": ChatFamily(thinks=True, takes=()),
        "o3-mini": ChatFamily(thinks=True, efforts=_OLDER, takes=()),
        "o1": ChatFamily(thinks=True, efforts=_OLDER, takes=_FILES),
        "o3": ChatFamily(thinks=True, efforts=_OLDER, takes=_FILES),
        "o4": ChatFamily(thinks=True, efforts=_OLDER, takes=_FILES),
    }
)


def chat_family(model: str) -> ChatFamily:
    """Return the family of a model; a gateway puts the name of a maker before it, as in `openai/gpt-5.5`."""
    name = model.rpartition("/")[2]
    return next((family for prefix, family in CHAT_FAMILIES.items() if name.startswith(prefix)), UNKNOWN)


def is_off(role: RoleChoice, family: ChatFamily) -> bool:
    """Return True if a role switches the thinking of its model off."""
    return family.off and role.thinking == "disabled"


def find_chat_refusals(role: RoleChoice) -> list[str]:
    """Return the choices for a role that its model refuses, one sentence each."""
    family, found = chat_family(role.named), []
    if is_off(role, family):
        if role.effort:
            found.append(f"{role.named} takes no effort {role.effort} while its thinking is disabled")
        return found
    if isinstance(role.thinking, str):
        found.append(f"{role.named} takes no thinking {role.thinking}, only an effort or a number of tokens")
    if role.effort and family.efforts and role.effort not in family.efforts:
        found.append(f"{role.named} refuses effort {role.effort}; it takes {', '.join(family.efforts)}")
    return found
