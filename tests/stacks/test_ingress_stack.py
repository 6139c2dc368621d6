import pytest

from stepline.api.doors import durable_stream
from stepline.api.memory_search import ENDPOINTS
from stepline_cdk.ingress import HTTP_METHODS, HTTP_PATHS, SEARCH_ROUTES, STREAM_ROUTES

SEARCHES = {f"{method.value} {path}" for method, path in SEARCH_ROUTES}
PAGE_ORIGIN = "https://<Distribution.DomainName>"
STREAMS = {f"{method.value} {path}" for method, path in STREAM_ROUTES}
HTTP_ROUTES = (
    {f"{method.value} {path}" for method in HTTP_METHODS for path in HTTP_PATHS} | SEARCHES | STREAMS
)


def apis(synthesis):
    return {api["ProtocolType"]: api for api in synthesis.resources("AWS::ApiGatewayV2::Api").values()}


def gates(synthesis):
    return {gate["Name"]: gate for gate in synthesis.resources("AWS::ApiGatewayV2::Authorizer").values()}


def routes(synthesis):
    return {route["RouteKey"]: route for route in synthesis.resources("AWS::ApiGatewayV2::Route").values()}


def test_there_is_one_door_to_talk_through_and_one_for_requests(any_stage):
    assert set(apis(any_stage)) == {"WEBSOCKET", "HTTP"}
    assert apis(any_stage)["HTTP"]["Name"] == f"stepline-{any_stage.stage.name}-http"
    assert set(routes(any_stage)) == {"$connect", "$disconnect", "$default", *HTTP_ROUTES}


def test_searches_go_to_the_function_that_has_the_packages_of_the_index(any_stage):
    assert {f"{one.method} {one.path}" for one in ENDPOINTS} == SEARCHES
    uris = {
        name: str(made["IntegrationUri"])
        for name, made in any_stage.resources("AWS::ApiGatewayV2::Integration").items()
    }
    for key in HTTP_ROUTES:
        (name,) = [name for name in uris if name in str(routes(any_stage)[key]["Target"])]
        assert ("SearchLive" in uris[name]) is (key in SEARCHES), key
        waits = key in STREAMS and any_stage.stage.stream_readers > 0
        assert ("StreamLive" in uris[name]) is waits, key


def test_streams_have_routes_of_their_own(prod, dev):
    assert {f"{one.method} {one.path}" for one in durable_stream.ENDPOINTS} == STREAMS
    assert ("stream" in prod.functions, "stream" in dev.functions) == (True, False)


def test_a_browser_is_let_in_by_the_authorizer_and_not_refused_before(any_stage):
    gate = gates(any_stage)["SocketAuthorizer"]
    assert gate["AuthorizerType"] == "REQUEST"
    assert not gate.get("IdentitySource")
    assert routes(any_stage)["$connect"]["AuthorizationType"] == "CUSTOM"


def test_no_answer_of_the_authorizer_outlives_its_request(any_stage):
    gate = gates(any_stage)["HttpAuthorizer"]
    assert gate["AuthorizerResultTtlInSeconds"] == 0
    assert gate["EnableSimpleResponses"] is True
    assert gate["AuthorizerPayloadFormatVersion"] == "2.0"
    assert {routes(any_stage)[key]["AuthorizationType"] for key in HTTP_ROUTES} == {"CUSTOM"}


def test_one_function_guards_both_doors(any_stage):
    uris = {str(gate["AuthorizerUri"]) for gate in gates(any_stage).values()}
    assert len(uris) == 1
    assert "AuthorizerLive" in uris.pop()


def throttles(synthesis):
    stages = synthesis.resources("AWS::ApiGatewayV2::Stage").values()
    settings = {stage["StageName"]: stage["DefaultRouteSettings"] for stage in stages}
    return {name: (one["ThrottlingRateLimit"], one["ThrottlingBurstLimit"]) for name, one in settings.items()}


@pytest.mark.parametrize(
    ("name", "socket", "http"),
    [("prod", (1307, 2614), (843, 1686)), ("dev", (50, 100), (50, 100)), ("local", (50, 100), (50, 100))],
)
def test_both_throttles_allow_the_requests_of_the_stages_turns(request, name, socket, http):
    assert throttles(request.getfixturevalue(name)) == {"live": socket, "$default": http}


@pytest.mark.parametrize(
    ("name", "others"), [("prod", ["https://chat.example"]), ("dev", []), ("bedrock", [])]
)
def test_browsers_may_ask_from_the_page_and_allowed_origins_and_from_no_other(request, name, others):
    synthesis = request.getfixturevalue(name)
    rules = apis(synthesis)["HTTP"]["CorsConfiguration"]
    origins = [synthesis.roles.text("ingress", origin) for origin in rules.pop("AllowOrigins")]
    assert origins == [PAGE_ORIGIN, *others]
    assert rules == {
        "AllowHeaders": ["authorization", "content-type", "idempotency-key", "if-none-match"],
        "AllowMethods": ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"],
        "ExposeHeaders": ["etag", "stream-cursor", "stream-next-offset", "stream-up-to-date"],
        "MaxAge": 600,
    }


def test_the_authorizer_compares_with_the_same_origins(prod):
    (heard,) = (
        one["Environment"]["Variables"]
        for one in prod.resources("AWS::Lambda::Function").values()
        if one["Handler"] == "lambdas.authorizer.handler"
    )
    said = prod.roles.text("ingress", heard["STEPLINE_ALLOWED_ORIGINS"])
    assert said == f"{PAGE_ORIGIN},https://chat.example"


def test_on_this_machine_no_browser_may_without_allowed_origins(local):
    assert "CorsConfiguration" not in apis(local)["HTTP"]


def test_the_emulated_apis_keep_their_addresses(local, prod):
    assert {api["Tags"]["ms-custom-id"] for api in apis(local).values()} == {"stepline", "stepline-http"}
    assert not any("Tags" in api for api in apis(prod).values())


def test_the_outputs_name_both_api_addresses(any_stage):
    for name in ("WebSocketUrl", "HttpUrl"):
        any_stage.templates["ingress"].has_output(name, {})
