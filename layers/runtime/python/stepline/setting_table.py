"""The table of settings: what each is called, what it is by default, and what it means. `settings` reads it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Setting(NamedTuple):
    """One row: the field of `Settings`, the variable it is read from, its default as text, and what it means."""

    field: str
    variable: str
    default: str
    doc: str


TABLE: Final = (
    Setting("stage", "STEPLINE_STAGE", "dev", "Name of the deployment; `local` is the emulator's."),
    Setting("table", "STEPLINE_TABLE", "", "The DynamoDB table."),
    Setting("bucket", "STEPLINE_BUCKET", "", "The artifacts bucket."),
    Setting("machine_arn", "STEPLINE_MACHINE_ARN", "", "The state machine that runs turns."),
    Setting("callback_url", "STEPLINE_CALLBACK_URL", "", "Where frames are posted to connections."),
    Setting(
        "oidc_issuer", "STEPLINE_OIDC_ISSUER", "", "Issuer of the tokens we accept; none, none accepted."
    ),
    Setting("oidc_audience", "STEPLINE_OIDC_AUDIENCE", "stepline", "`aud` that a token must carry."),
    Setting(
        "oidc_jwks_url", "STEPLINE_OIDC_JWKS_URL", "", "Key set of the issuer; empty: discovered from it."
    ),
    Setting(
        "tenant_claim",
        "STEPLINE_TENANT_CLAIM",
        "tenant",
        "Claim that names the user's tenant; of a list, its one item `tenant:<name>` does.",
    ),
    Setting(
        "project_claim",
        "STEPLINE_PROJECT_CLAIM",
        "project",
        "Claim that names the user's project; of a list, its one item `project:<name>` does.",
    ),
    Setting("socket_url", "STEPLINE_SOCKET_URL", "", "Where a websocket is opened with a ticket."),
    Setting(
        "user_messages_per_minute",
        "STEPLINE_USER_MESSAGES_PER_MINUTE",
        "60",
        "Messages one user may send in a minute, over all connections; 0: as many as the stage's throttle lets through.",
    ),
    Setting(
        "allowed_origins",
        "STEPLINE_ALLOWED_ORIGINS",
        "",
        "Origins a browser may connect from, separated by commas. A client without an Origin header is no "
        "browser and passes; one with a foreign Origin never does.",
    ),
    Setting(
        "max_iterations",
        "AI_REACT_MAX_ITERATIONS",
        "15",
        "Rounds a turn may take, where neither the bundle's properties nor the assembly say; not positive: 15.",
    ),
    Setting(
        "multi_action",
        "AI_REACT_AGENT_MULTI_ACTION",
        "off",
        "Whether a round may take several actions, where neither the bundle's properties nor the assembly say: `off`; "
        "`safe_fanout` (or `fanout`, `on`, `true`, `1`, `yes`), those that cannot depend on each other; `classic`, by name.",
    ),
    Setting(
        "max_actions_per_round",
        "STEPLINE_MAX_ACTIONS_PER_ROUND",
        "8",
        "Actions of one round at most, where it may take several; not positive: 8.",
    ),
    Setting(
        "protocol",
        "STEPLINE_PROTOCOL",
        "strict",
        "`strict`: a generation that does not begin with its thinking is ended and tried again, and no call runs whose "
        "JSON had to be mended. `tolerant`: both count, with a notice.",
    ),
    Setting(
        "agent_version",
        "AI_REACT_AGENT_VERSION",
        "v3",
        "Where neither the bundle's properties nor the assembly say: `v3`; `v2`, in which a gate names a new conversation "
        "before its first round, a round takes one action whatever else is said, and the instructions are its own.",
    ),
    Setting(
        "context_max_tokens",
        "AI_REACT_CONTEXT_MAX_TOKENS",
        "80000",
        "Tokens of a request at most, estimated, where neither the bundle's properties nor the assembly say; before "
        "there are more the context is shortened. Not positive: 80000.",
    ),
    Setting(
        "context_window_tokens",
        "STEPLINE_CONTEXT_WINDOW_TOKENS",
        "200000",
        "The model's context window; a request and its answer fit into it, whatever else is said.",
    ),
    Setting(
        "cache_ttl_s",
        "STEPLINE_CACHE_TTL_S",
        "300",
        "How long the provider keeps a prompt; after that, older turns are shortened. 0: never for that reason.",
    ),
    Setting(
        "keep_recent_turns",
        "STEPLINE_KEEP_RECENT_TURNS",
        "6",
        "Newest turns, the open one among them, that stay turns when older ones are shortened; not positive: 6.",
    ),
    Setting(
        "keep_intact_turns",
        "STEPLINE_KEEP_INTACT_TURNS",
        "2",
        "The newest of them that nothing is taken from; not positive: 2.",
    ),
    Setting(
        "cache_minimum_tokens",
        "STEPLINE_CACHE_MINIMUM_TOKENS",
        "{}",
        "JSON map from the beginning of a model's name to the shortest prompt that its provider keeps; the first that "
        "fits counts, the built-in ones last.",
    ),
    Setting(
        "bundle",
        "STEPLINE_BUNDLE",
        "bundles.default",
        "Package whose `WORKFLOW` says what the agent is made of ([bundles](../how-to/write-a-bundle.md)).",
    ),
    Setting(
        "bundle_props",
        "STEPLINE_BUNDLE_PROPS",
        "{}",
        "JSON object: the bundle's properties. `config.react.max_iterations`, then `react.max_iterations`, cap a turn; "
        "`multi_action` and `context.max_tokens` at the same places bound a round and its request, `agent_version` is the "
        "agent's, and `events.withhold` lists client events that do not leave.",
    ),
    Setting(
        "assembly",
        "STEPLINE_ASSEMBLY",
        "{}",
        "JSON object: the deployment's assembly. `ai.react.max_iterations` caps a turn, "
        "`ai.react.react_agent_multiaction` bounds a round and `ai.react.context.max_tokens` its request, "
        "`ai.react.react_agent_version` is the agent's, all after the properties; `events.withhold` adds to theirs.",
    ),
    Setting(
        "turn_deadline_s",
        "STEPLINE_TURN_DEADLINE_S",
        "1800",
        "The sweeper stops a turn that runs for longer.",
    ),
    Setting(
        "steer_poll_ms",
        "STEPLINE_STEER_POLL_MS",
        "300",
        "How often a running step looks in the log whether the user steers; not positive: 300.",
    ),
    Setting(
        "finalize_rounds",
        "REACT_STEER_FINALIZE_ROUNDS",
        "2",
        "Rounds that a turn has left to come to an end once the user steered with a text; not positive: 2.",
    ),
    Setting(
        "finalize_max_tokens",
        "REACT_STEER_FINALIZE_MAX_TOKENS",
        "3000",
        "Tokens of an answer of such a round at most, and 512 at least; not positive: 3000.",
    ),
    Setting(
        "event_credit",
        "AI_REACT_REACTIVE_EVENT_CREDIT",
        "1",
        "Rounds that a reactive event adds to the turn it arrives in; 0 or less: none.",
    ),
    Setting(
        "redis_url",
        "STEPLINE_REDIS_URL",
        "",
        "A Redis that makes steers and servers faster, on a developer's machine: `redis://` or `rediss://`. Secret.",
    ),
    Setting(
        "redis_secret_arn",
        "STEPLINE_REDIS_SECRET_ARN",
        "",
        "Secret that holds its URL in AWS ([Redis](../how-to/redis.md)); neither: everything works without one.",
    ),
    Setting("model_provider", "STEPLINE_MODEL_PROVIDER", "anthropic", "`anthropic` or `bedrock`."),
    Setting(
        "model_roles", "STEPLINE_MODEL_ROLES", "{}", "JSON map from role to model id; the rest by default."
    ),
    Setting(
        "model_secret_arn", "STEPLINE_MODEL_SECRET_ARN", "", "Secret that holds the provider's key in AWS."
    ),
    Setting("anthropic_api_key", "ANTHROPIC_API_KEY", "", "The provider's key, on a developer's machine."),
    Setting("anthropic_base_url", "ANTHROPIC_BASE_URL", "", "Another server that speaks the Messages API."),
    Setting(
        "read_visible_max_chars",
        "AI_REACT_READ_VISIBLE_MAX_TEXT_SYMBOLS",
        "48000",
        "Characters of one `react.read` that the model sees.",
    ),
    Setting(
        "read_visible_max_tokens",
        "AI_REACT_READ_VISIBLE_MAX_TOKENS",
        "12000",
        "Estimated tokens of one `react.read` that the model sees.",
    ),
    Setting(
        "read_visible_max_bytes",
        "AI_REACT_READ_VISIBLE_MAX_BYTES",
        "10485760",
        "Bytes of a file that `react.read` shows at all.",
    ),
    Setting(
        "read_visible_context_fraction",
        "AI_REACT_READ_VISIBLE_CONTEXT_FRACTION",
        "0.15",
        "Share of a request that one `react.read` may fill.",
    ),
    Setting(
        "search_corpus",
        "STEPLINE_SEARCH_CORPUS",
        "",
        "File of JSON lines, or folder with `*.jsonl`, in which `web_tools.web_search` searches; empty: the collection "
        "that comes with the library.",
    ),
    Setting(
        "exec_mode",
        "EXEC_RUNTIME_MODE",
        "none",
        "Where programs run, if `execution.runtime` does not say: `none`, `process`, `docker` or `fargate`.",
    ),
    Setting("exec_image", "PY_CODE_EXEC_IMAGE", "py-code-exec:latest", "Image of mode `docker`."),
    Setting("exec_timeout_s", "PY_CODE_EXEC_TIMEOUT", "600", "Seconds a program may run at most."),
    Setting(
        "exec_network_mode", "PY_CODE_EXEC_NETWORK_MODE", "host", "Docker network of the supervisor alone."
    ),
    Setting("exec_strategy", "PY_CODE_EXEC_CONTAINER_STRATEGY", "split", "`split` or `combined`."),
    Setting("exec_python", "STEPLINE_EXEC_PYTHON", "", "Interpreter of programs in mode `process`."),
    Setting("exec_home", "STEPLINE_EXEC_HOME", "", "Folder that holds the package `executor`."),
    Setting("exec_packages", "STEPLINE_EXEC_PACKAGES", "", "Packages that programs may import, by commas."),
    Setting(
        "exec_text_preview_max_chars",
        "AI_REACT_EXEC_TEXT_PREVIEW_MAX_SYMBOLS",
        "8000",
        "Characters of a text file that a program wrote which the model sees.",
    ),
    Setting("fargate_cluster", "FARGATE_CLUSTER", "", "Cluster of mode `fargate`."),
    Setting("fargate_task_definition", "FARGATE_TASK_DEFINITION", "", "Family of its tasks."),
    Setting(
        "fargate_container_name", "FARGATE_CONTAINER_NAME", "supervisor", "Container that takes the run."
    ),
    Setting("fargate_subnets", "FARGATE_SUBNETS", "", "Subnets of its tasks, separated by commas."),
    Setting(
        "fargate_security_groups", "FARGATE_SECURITY_GROUPS", "", "Security groups, separated by commas."
    ),
    Setting(
        "fargate_assign_public_ip",
        "FARGATE_ASSIGN_PUBLIC_IP",
        "ENABLED",
        "`ENABLED` or `DISABLED`: a public address, without which a public subnet leads nowhere.",
    ),
    Setting(
        "fargate_platform_version", "FARGATE_PLATFORM_VERSION", "LATEST", "Platform version of its tasks."
    ),
    Setting("descriptors_dir", "PLATFORM_DESCRIPTORS_DIR", "", "Folder with the five descriptors."),
    Setting(
        "descriptor_payload_scope",
        "EXEC_DESCRIPTOR_PAYLOAD_SCOPE",
        "active_bundle",
        "Bundles whose descriptors go to a supervisor elsewhere: `active_bundle` or `all`.",
    ),
)
