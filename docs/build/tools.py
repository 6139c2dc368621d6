"""docs/reference/tools.md: every tool, from its own schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from docs.build import DOCS
from docs.build.errors import TOOLS as CODES
from stepline.loop.programs.tool_program import CALL_S
from stepline.tools.catalogue import default_registry
from stepline.tools.documents.rendering_tools import CONTENT_CHARS_MAX, TOKENS_MAX
from stepline.tools.knowledge import SEARCH_KNOWLEDGE
from stepline.tools.parameter import inner_objects, render_type
from stepline.tools.pull import REFS_MAX, TREE_FILES_MAX
from stepline.tools.spec import ToolSpec
from stepline.tools.workfiles import checkout, patch, rg, syntax_check, unified_diff

PATH: Final = DOCS / "reference/tools.md"

_HEAD = """\
# Tools

Generated from the tools' own schemas by `make docs`; a test compares them. The same
schema makes the model's catalogue and checks every call. Unknown parameters are refused, and a refused call is a
result that the model reads and can correct. The grammar of paths: [paths](paths.md).

Effect: `pure` may run again, `keyed` repeats under the same name, `once` is recorded before it starts and never
runs twice. A deployment that runs no programs has none of the tools for programs, and an agent whose
[bundle](../how-to/write-a-bundle.md) has no documents has no `react.search_knowledge`.

## References

A parameter `ref:<path>` of `react.write`, or of a tool outside `react.*`, is replaced by the content at that path
before the tool runs, so the model never writes a text twice. A value that begins with `ref:` is a reference, at any depth; a literal text
cannot begin so. `exec_tools.execute_code_python` accepts none: its contract is shown before it runs.

| reference | content |
|---|---|
| `ref:fi:<turn>.outputs/a.md`, `ref:tc:<turn>.<call>.result`, any path of the log | its text; if the tool does not accept a text, the value of its JSON |
| `ref:so:sources_pool[1,3]` | these rows, as a list; `sources_list` accepts nothing else |
| `ref:<turn>/outputs/a.md`, `ref:outputs/a.md`, `ref:files/…`, `ref:attachments/…` | the same, by the logical path; the notice `protocol_warning.ref_path_normalized` names it |

A reference reads only content of this conversation's log that the model has in view: a path of a piece that it reads, an open plan, a row
of the pool. A reference cannot read a bundle's skills and documents, or a folder. A decision with any other reference is refused, with the
notice `protocol_violation.param_ref_not_visible`, whose `violations` begin with a code:

| code | |
|---|---|
| `ref_not_visible` | no path, no content, or not in view |
| `ref_internal_not_visible` | a file of channel `internal`, for `rendering_tools.write_*` |
| `sources_list_requires_sources_pool` | `sources_list` accepts rows of the pool |
| `ref_not_text`, `content_too_large` | bytes, or more than 16 MiB |

The decision records the content of each reference by its hash (`bound`), before anything runs. A retried call gets that
content, even if the path has changed. References within the content are not resolved. A write by reference shows clients
nothing while it is generated; its file arrives with its result.
"""

_DOCUMENTS = f"""\
## Documents

`rendering_tools.write_*` make documents from Markdown (CommonMark with tables and ~~strikethrough~~): [details](../concepts/execution.md#documents).
A call in a round runs as a program, and its file is offered to the user; a program can call them
too, and offers the files of its contract. The file is opened and checked before it is delivered; its status has `size_bytes`, `pages`,
`slides` or the like, `sources_used`, and `write_warning` `file_unusually_small`. Notices before it are warnings.

| limit | |
|---|---|
| content, title | {CONTENT_CHARS_MAX:,} and 300 characters |
| citations | {TOKENS_MAX:,} different ones |
| lists and quotes | 12 levels |
| tables | 20,000 cells, 50 columns |
| pictures | 100 of 20 MiB and 40 million pixels each; one with an edge of more than 3,000 pixels is scaled down |
| pages, slides | 1,000 and 300 |
| a generated picture | 40 million pixels, a height of 14,400 points before scaling |
| time | {CALL_S} s of a call in a round |

| refused or failed with | at |
|---|---|
| `extension_mismatch`, `format_unsupported`, `empty_content`, `too_many_citations`, a [path's code](paths.md#what-is-refused) | the check before anything runs |
| `missing_assets`, `nested_too_deep`, `document_too_large`, `no_tables`, `rendering_failed`, `artifact_invalid` | the drawing |
| `file_unusually_small`, `content_type_mismatch` and the other codes of [outputs](execution.md#outputs); `timeout`, `memory_limit` and the other [errors](execution.md#errors) of programs | the run |

| warning | |
|---|---|
| `tool_call_warning.missing_sources` | the pool has no such source, or the citation cannot be read; it is left out |
| `tool_call_warning.characters_not_in_font` | a PDF or a picture shows boxes for these letters, whose script is named |
| `tool_call_warning.letters_not_joined` | a PDF or a picture shows these letters, whose script is named, without joining them |
| `tool_call_warning.text_left_out` | `write_xlsx` uses only tables and the headings before them |
| `tool_call_warning.picture_cut` | `write_png` with `fit` viewport: the rest does not fit |
"""


_MIB: Final = 1024 * 1024
_READ_REF: Final = (
    *("not_a_fi_ref", "unresolvable_fi_ref", "turn_not_found", "not_found"),
    *("output_pulls_require_exact_file_ref", "attachment_pulls_require_exact_file_ref"),
)

NOTES: Final[Mapping[str, str]] = {
    "react.patch": f"""\
A hunk applies where its header says, or at the only other location with its lines (`moved`), or in the same way ignoring white
space (`white_space_ignored`); context is never dropped. Counts in a header are recomputed. All hunks apply, or nothing changes. The
applied diff is a separate view, after the file. Limits: a file of {patch.PATCHED_MAX_BYTES // _MIB} MiB, a patch of
{patch.PATCH_MAX_CHARS:,} characters and {unified_diff.HUNKS_MAX} hunks. The text of `.py`, `.json`, `.js`, `.jsx`, `.ts`, `.tsx` and
`.html` files of up to {syntax_check.CHECKED_MAX_BYTES // 1024} KiB is checked afterwards; of scripts the brackets and quotes, of pages the tags.
""",
    "react.rg": f"""\
Files are listed in the order of their paths, without hidden ones (a name that begins with a dot); with `pattern`, files with a NUL
byte are skipped. Expressions are those of [RE2](https://github.com/google/re2/wiki/Syntax): no look-around, no back-references,
linear time. Limits: {rg.FILES_MAX:,} files (`files_scan_truncated`), {rg.TOTAL_MAX_BYTES // _MIB} MiB read in all, and less for an expression
of more than {rg.STEPS_MAX // rg.TOTAL_MAX_BYTES} instructions (`scan_truncated`), {rg.RESULT_CHARS:,} characters of previews
(`matches_truncated`), {rg.MATCH_PREVIEW_CHARS} of a line.
""",
    "react.pull": f"""\
A refused path does not affect the others. A path of a bundle's [own](../how-to/write-a-bundle.md#paths-of-its-own) becomes a file
of this turn; refusals of its resolver are listed under `errors`. Limits: {REFS_MAX} paths; a folder's row lists {TREE_FILES_MAX} files.
""",
    "react.checkout": f"""\
No byte is copied: the files of this turn name the bytes of the earlier one, and one result of the log records all of them, so a checkout
is complete or did not happen. A pull before it is allowed, and not needed. Files that this turn wrote below `files/` are not removed by
`replace` without `force`; `removed` lists the removed ones. The origin of the files is at `ar:<turn>.react.workspace.checkout`.
Limits: {REFS_MAX} paths, {checkout.CHECKOUT_FILES_MAX:,} files.
""",
}
CODES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "react.patch": (
        *(
            "missing_patch",
            "patch_requires_current_turn_path",
            "patch_unsupported_namespace",
            "patch_target_missing",
        ),
        *(
            "patch_target_unreadable",
            "patch_contains_preview_line_numbers",
            "patch_several_files",
            "patch_too_large",
        ),
        *(
            "invalid_hunk_header",
            "invalid_hunk_line",
            "hunk_out_of_order",
            "hunk_mismatch",
            "post_patch_check_failed",
        ),
        "body_missing",
    ),
    "react.rg": ("rg_invalid_root", "rg_invalid_regex", "rg_root_not_pulled", "body_missing"),
    "react.pull": ("pull_paths_missing", *_READ_REF),
    "react.checkout": (
        *("protocol_violation.checkout_missing_paths", "protocol_violation.checkout_invalid_paths"),
        *(
            "react.checkout.nonempty",
            "react.checkout.failed",
            "checkout_too_large",
            "not_below_files",
            "current_turn",
        ),
        *_READ_REF,
    ),
}
"""Notes on some tools in addition to their contract: how they work, their limits, and their own codes."""


def documented_specs() -> tuple[ToolSpec, ...]:
    """Return the contracts of all tools in the library, including those of only some agents."""
    return (*default_registry(executes=True).specs, SEARCH_KNOWLEDGE)


def render() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(spec) for spec in documented_specs()), _DOCUMENTS])


def _section(spec: ToolSpec) -> str:
    lines = [
        f"## {spec.tool_id}",
        "",
        spec.purpose,
        "",
        f"Effect `{spec.effect}`.{_callers(spec)}{_ending(spec)}{_beside(spec)} Returns {spec.returns}.",
        "",
    ]
    if spec.key_order:
        lines += [
            f"Parameters are written in this order: {', '.join(f'`{key}`' for key in spec.key_order)}.",
            "",
        ]
    lines += [
        "| parameter | type | default | meaning |",
        "|---|---|---|---|",
        *_rows(spec.schema, prefix=""),
        "",
    ]
    if note := NOTES.get(spec.tool_id):
        lines += [note]
    if codes := CODES_OF.get(spec.tool_id):
        lines += ["| code | |", "|---|---|", *(f"| `{code}` | {CODES[code]} |" for code in codes), ""]
    for example in spec.examples:
        lines += ["```json", json.dumps(example, ensure_ascii=False, indent=2), "```", ""]
    return "\n".join(lines)


def _callers(spec: ToolSpec) -> str:
    if not spec.in_exec:
        return ""
    if not spec.in_react:
        return " Only programs may call it."
    return f"{' Runs as a program.' if spec.isolated else ''} Programs may call it as well."


def _beside(spec: ToolSpec) -> str:
    if spec.strategies == ("unknown",):
        return " Alone in its round."
    kinds = ", ".join(spec.strategies)
    return f" Of kind {kinds} [next to other actions](channels.md#several-actions)."


def _ending(spec: ToolSpec) -> str:
    return " Ends early when the user steers." if spec.cancellable else ""


def _rows(schema: Mapping[str, Any], prefix: str) -> list[str]:
    rows = []
    for name, rule in schema["properties"].items():
        required = name in schema.get("required", ())
        default = "required" if required else _default(rule)
        kind = render_type(rule).replace("|", "\\|")
        rows.append(f"| `{prefix}{name}` | {kind} | {default} | {rule['description']} |")
        for _, inner in inner_objects(rule):
            rows += _rows(inner, prefix=f"{prefix}{name}[].")
    return rows


def _default(rule: Mapping[str, Any]) -> str:
    return f"`{json.dumps(rule['default'])}`" if "default" in rule else ""
