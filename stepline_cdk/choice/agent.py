"""The choices of the agent: its bundles, its models, its context, and the services that its tools use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from stepline.model.decision import FANOUT_MODES
from stepline.model.program.execution import WorkspaceMode
from stepline.model.version import CONTEXT_LAYOUTS, VERSIONS
from stepline.ports.channel import Inspect
from stepline.ports.model import ModelServer, RoleChoice
from stepline.settings import AvScan, BundleChoice, Protocol, ProviderName, SearchProvider, Tracing
from stepline_cdk.choice.declare import Choices, Count, SecretArn, Takes, choice, like, one_of

_OR_BUNDLE: Final = "unless `bundle_props` or `assembly` sets it"

MODEL: Final = re.compile(
    r"(?!arn:).*"
    r"|arn:aws[a-z-]*:bedrock:[a-z0-9-]*::foundation-model/anthropic\.[\w.:-]+"
    r"|arn:aws[a-z-]*:bedrock:[a-z0-9-]+:\d{12}:inference-profile/[\w.-]*anthropic\.[\w.:-]+"
    r"|arn:aws[a-z-]*:bedrock:[a-z0-9-]+:\d{12}:(application-inference-profile|provisioned-model)/[a-z0-9]+",
    re.ASCII,
)
"""The ways to name a model. Source: Service Authorization Reference, Amazon Bedrock, InvokeModelWithResponseStream."""


class AgentChoices(Choices):
    """The agent, its models and its context."""

    bundle: str = choice(
        "bundles.default",
        "Package whose `WORKFLOW` makes the agent ([bundles](../how-to/write-a-bundle.md))",
        guarded=True,
    )
    bundles: Mapping[str, BundleChoice] = choice(
        {},
        "Further bundles by name, which a conversation's first message may choose: a package, or an object with `module` and `props`"
        " ([several on one stage](../how-to/write-a-bundle.md#several-on-one-stage))",
    )
    bundle_props: Mapping[str, Any] = choice(
        {},
        "The bundle's properties; `config.react.max_iterations` or `react.max_iterations` comes first, and `multi_action`,"
        " `agent_version`, `cache_ttl_seconds`, `context.layout` and `context.max_tokens` beside it; `events.withhold` lists"
        " [client events](events.md#what-is-withheld) that are not sent to clients",
    )
    assembly: Mapping[str, Any] = choice(
        {},
        "The deployment's assembly; `ai.react.max_iterations`, `ai.react.react_agent_multiaction`, `ai.react.react_agent_version`,"
        " `ai.react.cache_ttl_seconds`, `ai.react.context.layout` and `ai.react.context.max_tokens` come second; `events.withhold`"
        " adds to the bundle's",
    )
    descriptors_dir: str = choice(
        "",
        "Folder with the [settings](../how-to/deploy.md#settings-and-secrets-of-a-bundle) that tools may read",
    )
    model_provider: Annotated[str, one_of(get_args(ProviderName))] = choice(
        "anthropic",
        "Provider of the models: `anthropic` or `openai`, or `bedrock`, which needs no key but access to the models in the account",
        guarded=True,
    )
    model_secret_arn: SecretArn = choice(
        "",
        "Secret whose text is the key of provider `anthropic` or `openai`",
        cost="0.40 USD a month",
        guarded=True,
        private=True,
    )
    model_providers: Mapping[str, ModelServer] = choice(
        {},
        "Map from the name of a [further provider](models.md#providers) to its address, or to its row; roles name its models as `name:model`",
        guarded=True,
    )
    model_roles: Mapping[str, RoleChoice] = choice(
        {}, "Map from role to model id, or to the role's choices ([models](models.md))"
    )
    max_iterations: int = choice(15, f"Maximum rounds of a turn, {_OR_BUNDLE}")
    multi_action: Annotated[str, Takes("off, safe_fanout, read_write_search", words=FANOUT_MODES)] = choice(
        "off",
        f"Whether a round may take several actions, {_OR_BUNDLE}: `off`, `safe_fanout` or `read_write_search`"
        " ([rounds](../concepts/turn.md#several-actions-in-one-round))",
    )
    max_actions_per_round: int = choice(8, "Maximum actions of one round, if it may take several")
    protocol: Annotated[str, one_of(get_args(Protocol))] = choice(
        "strict",
        "`strict`, or `tolerant`: a generation with a wrong beginning, or a call whose JSON was repaired, is accepted with a notice",
    )
    agent_version: Annotated[str, one_of(VERSIONS)] = choice(
        "v3",
        f"`v3`, or `v2`, {_OR_BUNDLE}: a gate names a new conversation, a round takes one action"
        " ([versions](../concepts/turn.md#two-versions))",
    )
    finalize_rounds: int = choice(2, "Rounds that a turn has to finish after a steer with a text")
    finalize_max_tokens: int = choice(3000, "Maximum tokens of an answer in one of these rounds")
    steer_poll_ms: int = choice(300, "How often a running step checks for a steer, in milliseconds")
    event_credit: int = choice(1, "Rounds that a reactive event adds to the turn that it joins; `0`: none")
    approvals: Mapping[str, str] = choice(
        {},
        "[Calls that need a person](../how-to/ask-a-person-first.md): tool ids, prefixes that end in `*` or `effect:<class>`, each"
        " with `always`, `never` or `first_use`",
        guarded=True,
    )
    approval_wait_s: int = choice(604_800, "Seconds that an answer to such a call may take; `0`: forever")
    context_layout: Annotated[str, one_of(CONTEXT_LAYOUTS)] = choice(
        "timeline",
        f"`timeline` or `journal`, {_OR_BUNDLE}: the content of a round's request ([the journal](../concepts/journal.md))",
    )
    context_max_tokens: int = choice(
        80_000,
        f"Maximum estimated tokens of a request, {_OR_BUNDLE} ([context](../concepts/context.md))",
    )
    context_window_tokens: int = choice(200_000, "The model's context window in tokens")
    cache_ttl_s: int = choice(
        300,
        "Seconds the provider keeps a prompt, after which older turns are shortened; `0`: never shortened for that reason",
    )
    keep_recent_turns: int = choice(6, "Newest turns that are then kept as turns")
    keep_intact_turns: int = choice(2, "How many of those are left complete")
    cache_minimum_tokens: Mapping[str, int] = choice(
        {},
        "Map from the prefix of a model's name to the shortest prompt its provider caches; takes precedence over the built-in values",
    )
    workspace: Annotated[str, one_of(get_args(WorkspaceMode))] = choice(
        "custom",
        "`custom`, or `git`: each turn that ends well is also a commit in the conversation's git history"
        " ([versions](../concepts/timeline.md#versions))",
    )
    inspect: Annotated[str, one_of(get_args(Inspect))] = choice(
        "owner",
        "Who sees the [requests](../concepts/context.md#the-recorded-request) that a conversation sent to the model, the replies and the"
        " log: its `owner`, an owner who is an `admin`, or `none`; the system part is shown to admins alone",
        kept="admin",
        guarded=True,
    )


class ToolChoices(Choices):
    """The services that tools and uploads use."""

    search_provider: Annotated[str, one_of(get_args(SearchProvider))] = choice(
        "collection",
        "The engine of `web_tools.web_search` ([engines](../concepts/sources.md#search-engines)): `collection`, `brave`, `tavily` or"
        " `searxng`",
    )
    search_corpus: str = choice(
        "",
        "Path at which the functions find [your own collection](../concepts/sources.md#the-collection), such as"
        " `/var/task/lambdas/library`",
        said="the collection of the library",
    )
    search_url: str = choice("", "Address of an instance of SearXNG")
    search_secret_arn: SecretArn = choice(
        "", "Secret whose text is the key of Brave or Tavily", cost="0.40 USD a month", private=True
    )
    memory: Annotated[str, one_of(("embedded", "s3_vectors"))] = choice(
        "embedded",
        "Where the index of memory is kept: `embedded`, or `s3_vectors` in"
        " [Amazon S3 Vectors](../how-to/memory-on-s3-vectors.md), with embeddings of Bedrock",
        cost="`s3_vectors`: by what is stored and asked for",
        guarded=True,
    )
    av: Annotated[str, one_of(get_args(AvScan))] = choice(
        "none",
        "The scanner that uploads must pass ([uploads](../how-to/uploads.md#malware)): `none`, `guardduty` or `clamd`",
        kept="guardduty",
        cost="`guardduty`: by the object and the GB that is scanned",
        guarded=True,
    )
    clamav_host: str = choice("", "For `clamd`: a host that functions reach")
    clamav_port: Count = choice(3310, "For `clamd`: the port of its daemon")
    mcp_timeout_s: int = choice(
        60, "Seconds that a call of a tool of an [MCP server](../how-to/connect-an-mcp-server.md) may take"
    )
    mcp_list_ttl_s: int = choice(3600, "Seconds for which a list of such tools is valid")
    mcp_task_s: int = choice(
        1200,
        "Seconds that a call may take that such a server runs as a"
        " [task](../how-to/connect-an-mcp-server.md#long-calls)",
    )
    redis_secret_arn: SecretArn = choice(
        "",
        "Secret whose text is the URL of a [Redis](../how-to/redis.md); everything works without one",
        cost="0.40 USD a month, and the Redis",
        private=True,
    )
    tracing: Annotated[str, one_of(get_args(Tracing))] = choice(
        "off",
        "[Traces of turns](../how-to/trace-a-turn.md): `off`, `on` without texts, or `text` with them",
        cost="X-Ray: 5 USD a million traces",
    )
    tracing_endpoint: Annotated[
        str,
        like(
            r"https?://[^\s/@]+[^\s@]*",
            "an address of http or https; credentials are headers, in tracing_secret_arn",
            empty=True,
        ),
    ] = choice("", "Server of OTLP over HTTP that receives them", said="X-Ray of the region", private=True)
    tracing_secret_arn: SecretArn = choice(
        "", "Secret whose text is the headers for that server", cost="0.40 USD a month", private=True
    )
