"""The rows of `MCP_TOOL_SPECS`: what they may say, and where their secrets come from."""

import pytest

from stepline.errors import InputError, ToolError
from stepline.tools.mcp.server_row import (
    SERVERS_MAX,
    McpServer,
    digest_of,
    fits,
    read_servers,
    resolve_server,
)

HTTP = {"alias": "crm", "url": "https://crm.example/mcp"}
STDIO = {"alias": "time", "command": "python", "args": ["-m", "mcp_server_time"]}


class Secrets:
    def __init__(self, **known: str) -> None:
        self.known = known

    def get_secret(self, path: str) -> str:
        if path not in self.known:
            raise ToolError("there is no such secret", code="secret_missing")
        return self.known[path]


def read(*rows, **configured):
    return read_servers(rows, configured)


def test_a_row_names_an_address_or_a_command():
    http, stdio = read(HTTP, STDIO)
    assert resolve_server(http, Secrets(), 5).address.url == "https://crm.example/mcp"
    assert resolve_server(stdio, Secrets(), 5).address.command == ("python", "-m", "mcp_server_time")


def test_the_rest_of_a_row_may_be_in_the_properties():
    (server,) = read(
        {"alias": "crm", "server_id": "main", "tools": ["get_*"]},
        main={"transport": "streamable-http", "url": "https://crm.example/mcp", "timeout_s": 5},
    )
    assert (server.url, server.tools, server.timeout_s) == ("https://crm.example/mcp", ("get_*",), 5)


@pytest.mark.parametrize(
    "row",
    [
        7,
        {"url": "https://crm.example/mcp"},
        {"alias": "Crm", "url": "https://crm.example/mcp"},
        {"alias": "crm"},
        {**HTTP, "command": "x"},
        {**HTTP, "transport": "stdio"},
        {**HTTP, "transport": "sse"},
        {**HTTP, "unknown": 1},
        {**HTTP, "timeout_s": 0},
        {**HTTP, "effects": {"get_*": "harmless"}},
        {**HTTP, "effects": ["get_*"]},
        {**HTTP, "timeout_s": 601},
        {**HTTP, "url": "ftp://crm.example/mcp"},
        {**HTTP, "url": "https://ada:word@crm.example/mcp"},
        {**HTTP, "url": "https:///mcp"},
        {**HTTP, "auth": {"type": "header", "secret": "a"}},
        {**HTTP, "auth": {"type": "bearer", "secret": "a", "header": "X"}},
        {**STDIO, "headers": {"a": "b"}},
        {**STDIO, "auth": {"type": "bearer", "secret": "a"}},
    ],
)
def test_a_wrong_row_is_an_error_with_a_code(row):
    with pytest.raises(InputError) as refused:
        read(row)
    assert refused.value.reason == "mcp_server_invalid"


@pytest.mark.parametrize(
    "rows", [[HTTP, HTTP], [{**HTTP, "alias": f"s{at}"} for at in range(SERVERS_MAX + 1)]]
)
def test_servers_have_unique_aliases_and_a_limited_number(rows):
    with pytest.raises(InputError) as refused:
        read(*rows)
    assert refused.value.reason == "mcp_server_invalid"


@pytest.mark.parametrize(
    ("auth", "headers"),
    [
        ({"type": "bearer", "secret": "b:token"}, {"Authorization": "Bearer s3cret"}),
        ({"type": "api_key", "secret": "b:token"}, {"X-API-Key": "s3cret"}),
        ({"type": "header", "secret": "b:token", "header": "X-Mine"}, {"X-Mine": "s3cret"}),
    ],
)
def test_a_secret_is_named_and_put_into_its_header_when_a_server_is_asked(auth, headers):
    (server,) = read({**HTTP, "auth": auth})
    found = resolve_server(server, Secrets(**{"b:token": "s3cret"}), 5)
    assert found.address.headers == headers
    assert found.secrets == ("s3cret",)
    assert "s3cret" not in repr(found.address)
    assert "s3cret" not in repr(server)


def test_headers_and_variables_name_secrets_in_their_texts():
    (http, stdio) = read(
        {**HTTP, "headers": {"Cookie": "a=${secret:one}; b=${secret:two}"}},
        {**STDIO, "env": {"KEY": "${secret:one}", "PLAIN": "${HOME}"}},
    )
    secrets = Secrets(one="1111", two="2222")
    assert resolve_server(http, secrets, 5).address.headers == {"Cookie": "a=1111; b=2222"}
    found = resolve_server(stdio, secrets, 5)
    assert found.address.env == {"KEY": "1111", "PLAIN": "${HOME}"}
    assert found.secrets == ("1111",)


def test_a_secret_that_is_not_there_is_an_error():
    (server,) = read({**HTTP, "auth": {"type": "bearer", "secret": "b:token"}})
    with pytest.raises(ToolError) as refused:
        resolve_server(server, Secrets(), 5)
    assert refused.value.reason == "secret_missing"


def test_a_row_has_its_own_time_or_the_deployments():
    own, other = read({**HTTP, "timeout_s": 7}, STDIO)
    assert (
        resolve_server(own, Secrets(), 5).address.timeout_s,
        resolve_server(other, Secrets(), 5).address.timeout_s,
    ) == (
        7,
        5,
    )


@pytest.mark.parametrize(
    ("pattern", "name", "offered"),
    [
        ("*", "anything", True),
        ("get", "get", True),
        ("get", "gets", False),
        ("get_*", "get_time", True),
        ("get_*", "set_time", False),
        ("*_time", "get_time", True),
        ("g*t*e", "get_time", True),
        ("a*a", "a", False),
        ("a**b", "ab", True),
        ("*x*", "get", False),
    ],
)
def test_the_tools_of_a_server_are_named_by_patterns(pattern, name, offered):
    assert fits(pattern, name) is offered


def test_another_row_is_another_digest():
    one, other = read(HTTP), read({**HTTP, "tools": ["get_*"]})
    assert digest_of(one) == digest_of(read(HTTP)) != digest_of(other)


def test_a_row_may_be_written_as_a_value():
    assert read(McpServer(alias="crm", url="https://crm.example/mcp")) == read(HTTP)
