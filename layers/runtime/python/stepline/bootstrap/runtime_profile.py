"""Resolves `execution.runtime`: the backend and the limits of a program, from all sources that may set them.

From the highest precedence to the lowest:

    the call            a profile's name
    the bundle          its properties, then its descriptor, then the defaults of its code
    the assembly        `execution.runtime`, then `platform.services.proc.exec` for limits
    the deployment      `default` and `limits`, from its variables

Each key comes from the highest source that has it. Within a source, keys next to `profiles` override the chosen
profile. Everything is validated, including profiles that are not chosen: unknown keys are refused.

Source: docs/reference/execution.md#profiles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args

from msgspec.structs import replace

from stepline.bundle.property import (
    Reader,
    look_up,
    read_choice,
    read_decimal,
    read_flag,
    read_mapping,
    read_positive,
    read_size,
    read_text,
    read_texts,
    read_word,
    reject_setting,
)
from stepline.model.program.execution import (
    ContainerStrategy,
    DescriptorScope,
    RunLimits,
    RuntimeProfile,
    TaskConfig,
)
from stepline.settings import EXEC_MODES, PLACEMENTS

PATHS: Final = ("execution.runtime", "exec_runtime")
"""The paths in properties, descriptor and assembly; the second is the older name."""

PLATFORM_LIMITS: Final = "platform.services.proc.exec"
SELECTORS: Final = ("profile", "selected_profile", "default_profile", "use")
INTERVAL_MIN_S: Final = 0.1
UNLIMITED_BYTES: Final = 2**62
"""The number that means no limit, in a range that the kernel accepts."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def _read_cpus(value: Any, place: str) -> str:
    return f"{read_decimal(value, place):g}"


def _read_memory(value: Any, place: str) -> int:
    return read_size(value, place) or reject_setting(place, "a size like 2g")


def _read_limit(value: Any, place: str) -> int:
    return read_size(value, place) or UNLIMITED_BYTES


def _read_interval(value: Any, place: str) -> float:
    return max(INTERVAL_MIN_S, read_decimal(value, place))


def _read_names(value: Any, place: str) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name for name in value.split(",") if name.strip()]
    return read_texts(value, place)


def _read_switch(value: Any, place: str) -> str:
    if isinstance(value, bool):
        return "ENABLED" if value else "DISABLED"
    return str(read_choice({"ENABLED": "ENABLED", "DISABLED": "DISABLED"})(value, place))


LIMITS: Final[Mapping[str, tuple[str, Reader]]] = {
    "timeout_s": ("timeout_s", read_positive),
    "max_file_bytes": ("max_file_bytes", _read_limit),
    "max_exec_workspace_delta_bytes": ("max_delta_bytes", _read_limit),
    "max_workspace_bytes": ("max_workspace_bytes", read_size),
    "workspace_monitor_interval_s": ("monitor_interval_s", _read_interval),
}
"""The keys of limits, each with its field in `RunLimits` and its reader."""

FARGATE: Final[Mapping[str, Reader]] = {
    "cluster": read_text,
    "task_definition": read_text,
    "container_name": read_text,
    "subnets": _read_names,
    "security_groups": _read_names,
    "assign_public_ip": _read_switch,
    "launch_type": read_choice({"FARGATE": "FARGATE"}),
    "platform_version": read_text,
    "region": read_text,
}
"""Keys of mode `fargate`, which may also be in a mapping `fargate`, which has precedence."""

PROFILE_KEYS: Final[Mapping[str, Reader]] = {
    "mode": read_choice(EXEC_MODES),
    "enabled": read_flag,
    "image": read_word,
    "container_strategy": read_choice({name: name for name in get_args(ContainerStrategy)}),
    "network_mode": read_word,
    "cpus": _read_cpus,
    "memory": _read_memory,
    "extra_args": read_texts,
    "descriptor_payload_scope": read_choice({name: name for name in get_args(DescriptorScope)}),
    **FARGATE,
    **{key: reader for key, (_, reader) in LIMITS.items()},
}
"""Every key of `execution.runtime` and of a profile, with its reader."""

ALIASES: Final = {"py_code_exec_container_strategy": "container_strategy"}

_PROFILE_FIELDS: Final = (
    "image",
    "container_strategy",
    "network_mode",
    "cpus",
    "extra_args",
    "descriptor_payload_scope",
)


class _Source(NamedTuple):
    """The parsed content of one source: keys next to the profiles, the profiles, the chosen profile if any."""

    keys: Mapping[str, Any] = NOTHING
    profiles: Mapping[str, Mapping[str, Any]] = NOTHING
    selected: str = ""


def resolve_runtime(
    props: Mapping[str, Any],
    assembly: Mapping[str, Any],
    default: RuntimeProfile,
    *,
    profile: str | None = None,
    descriptor: Mapping[str, Any] = NOTHING,
    code: Mapping[str, Any] = NOTHING,
    limits: RunLimits = RunLimits(),  # noqa: B008 - a frozen value
    region: str = "",
) -> tuple[RuntimeProfile, RunLimits]:
    """Return the profile for a call's program, and its limits; without a backend the program has no placement.

    `profile` is the name requested by the call. `default` and `limits` are the fallback. `region` is the
    deployment's own region, the only one that a profile may name. Raises InputError `bad_setting` with the path of
    an unknown key or a wrong type.
    """
    said = [
        _find(props, "bundle properties"),
        _find(descriptor, "bundle descriptor"),
        _find(code, "bundle defaults"),
        _find(assembly, "assembly"),
    ]
    names = {name for place, runtime in said for name in _profiles(place, runtime)}
    sources = [_read_source(place, runtime, names) for place, runtime in said]
    for (place, _), source in zip(said, sources, strict=True):
        _check_region(source, place, region)
    selected = next((source.selected for source in sources if source.selected), "")
    chosen = _known(profile, "the profile of the call", names) if profile else selected
    merged = _read_platform(assembly)
    for source in reversed(sources):
        merged |= source.profiles.get(chosen, NOTHING)
        merged |= source.keys
    return _build_profile(default, chosen, merged), _build_limits(limits, merged)


def _find(root: Mapping[str, Any], owner: str) -> tuple[str, Any]:
    """Return the path and the value of the runtime in a source: a mapping, one word, or None."""
    found = next(
        ((f"{owner}: {path}", value) for path in PATHS if (value := look_up(root, path)) is not None), None
    )
    outside = {key: root[key] for key in ALIASES if root.get(key) is not None}
    if found is None:
        return owner, outside or None
    place, runtime = found
    return place, {**outside, **runtime} if isinstance(runtime, Mapping) else runtime


def _profiles(place: str, runtime: Any) -> Mapping[str, Any]:
    if isinstance(runtime, Mapping) and runtime.get("profiles") is not None:
        return read_mapping(runtime["profiles"], f"{place}.profiles")
    return NOTHING


def _read_source(place: str, runtime: Any, names: Collection[str]) -> _Source:
    if runtime is None:
        return _Source()
    if isinstance(runtime, str):
        return _read_word(runtime, place, names)
    keys = dict(read_mapping(runtime, place))
    profiles = {
        name: _read_keys(read_mapping(profile, f"{place}.profiles.{name}"), f"{place}.profiles.{name}")
        for name, profile in _profiles(place, runtime).items()
    }
    keys.pop("profiles", None)
    named = {key: value for key in SELECTORS if (value := keys.pop(key, None)) is not None}
    selected = [_known(name, f"{place}.{key}", names) for key, name in named.items()]
    return _Source(_read_keys(keys, place), profiles, selected[0] if selected else "")


def _read_word(word: str, place: str, names: Collection[str]) -> _Source:
    """Parse the short form: the name of a profile, or a mode."""
    if word in names:
        return _Source(selected=word)
    if word not in EXEC_MODES:
        reject_setting(place, "the name of a profile or a mode")
    return _Source(keys={"mode": EXEC_MODES[word]})


def _known(name: Any, place: str, names: Collection[str]) -> str:
    if not isinstance(name, str) or name not in names:
        reject_setting(place, f"one of the profiles: {', '.join(sorted(names)) or 'there are none'}")
    return name


def _read_keys(said: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Parse the keys of a profile. Null is absent; a key overrides its older name, `fargate` overrides both."""
    nested = said.get("fargate")
    flat = {key: value for key, value in said.items() if key != "fargate"}
    read: dict[str, Any] = {}
    for key in sorted(flat, key=ALIASES.__contains__, reverse=True):
        name = ALIASES.get(key, key)
        if name not in PROFILE_KEYS:
            reject_setting(f"{place}.{key}", "a setting of a runtime")
        if flat[key] is not None:
            read[name] = PROFILE_KEYS[name](flat[key], f"{place}.{key}")
    if nested is not None:
        read |= _read_fargate(read_mapping(nested, f"{place}.fargate"), f"{place}.fargate")
    return read


def _read_fargate(said: Mapping[str, Any], place: str) -> dict[str, Any]:
    readers = {"enabled": read_flag, **FARGATE}
    for key in said:
        if key not in readers:
            reject_setting(f"{place}.{key}", "a setting of mode fargate")
    read = {key: readers[key](value, f"{place}.{key}") for key, value in said.items() if value is not None}
    if "enabled" in read:
        read["fargate_enabled"] = read.pop("enabled")
    return read


def _read_platform(assembly: Mapping[str, Any]) -> dict[str, Any]:
    place = f"assembly: {PLATFORM_LIMITS}"
    said = look_up(assembly, PLATFORM_LIMITS)
    if said is None:
        return {}
    read = {}
    for key, value in read_mapping(said, place).items():
        if key not in LIMITS:
            reject_setting(f"{place}.{key}", "a limit of execution")
        if value is not None:
            read[key] = PROFILE_KEYS[key](value, f"{place}.{key}")
    return read


def _check_region(source: _Source, place: str, region: str) -> None:
    """Refuse another region: cluster, image and network are in the deployment's own region."""
    named = {
        place: source.keys,
        **{f"{place}.profiles.{name}": keys for name, keys in source.profiles.items()},
    }
    for where, keys in named.items():
        if keys.get("region", region) != region:
            reject_setting(f"{where}.region", f"the region of the deployment, {region or 'which knows none'}")


def _build_profile(default: RuntimeProfile, name: str, merged: Mapping[str, Any]) -> RuntimeProfile:
    fields = {field: merged[field] for field in _PROFILE_FIELDS if field in merged}
    if "memory" in merged:
        fields["memory"] = str(merged["memory"])
    tasks = {field: merged[field] for field in TaskConfig.__struct_fields__ if field in merged}
    mode = merged.get("mode", default.backend or "none")
    enabled = merged.get("enabled", True)
    if mode == "fargate":
        enabled = enabled and merged.get("fargate_enabled", True)
    profile = replace(default, name=name, task=replace(default.task, **tasks), **fields)
    if not enabled or mode not in PLACEMENTS:
        return replace(profile, placement="inline", backend="")
    return replace(profile, placement=PLACEMENTS[mode], backend=mode)


def _build_limits(default: RunLimits, merged: Mapping[str, Any]) -> RunLimits:
    fields = {field: merged[key] for key, (field, _) in LIMITS.items() if key in merged}
    if "memory" in merged:
        fields["memory_bytes"] = merged["memory"]
    return replace(default, **fields)
