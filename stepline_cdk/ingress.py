"""Ingress: a websocket API for conversations, and an HTTP API around them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk.aws_apigatewayv2_authorizers import (
    HttpLambdaAuthorizer,
    HttpLambdaResponseType,
    WebSocketLambdaAuthorizer,
)
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration, WebSocketLambdaIntegration
from constructs import Construct

from stepline.model.tenancy.concurrency import NEW_ACCOUNT, Throttle
from stepline_cdk.access import INGRESS, Resources, embedding_arn
from stepline_cdk.choice.declare import LOCAL
from stepline_cdk.code import Code
from stepline_cdk.environment import ingress_settings
from stepline_cdk.function import ACTING, Function
from stepline_cdk.identity import Trust
from stepline_cdk.network import interfaces_arn, make_network
from stepline_cdk.service_log import HTTP_FIELDS, SOCKET_FIELDS, AccessLog
from stepline_cdk.shift import add_shift
from stepline_cdk.stage import Stage
from stepline_cdk.state import State

STAGE_NAME: Final = "live"
HTTP_STAGE_NAME: Final = "$default"
HTTP_PATHS: Final = ("/v1/{proxy+}", "/conversations/{proxy+}", "/resources/{proxy+}")
"""The function has the table of endpoints; the older addresses have no version."""
SEARCH_ROUTES: Final = (
    (apigateway.HttpMethod.GET, "/v1/search"),
    (apigateway.HttpMethod.POST, "/conversations/{tenant}/{project}/search"),
)
"""The endpoints of the function that has the packages of the memory index; a whole address counts before a greedy one."""
STREAM_ROUTES: Final = (
    (apigateway.HttpMethod.GET, "/v1/conversations/{conversation}/stream"),
    (apigateway.HttpMethod.HEAD, "/v1/conversations/{conversation}/stream"),
)
"""The endpoints of the function whose readers may wait; `api` answers them without waiting in a stage where none may."""
HTTP_METHODS: Final = tuple(apigateway.HttpMethod(name) for name in ("GET", "POST", "PUT", "PATCH", "DELETE"))
"""Not `ANY`: it would send a browser's preflight to the authorizer, which refuses it."""
# The emulator takes an API's id from this tag, so that its address survives a rebuild.
_PIN_TAG: Final = "ms-custom-id"


class Ingress:
    """The ingress: gateways → authorizer → socket, api, search or stream. The machine they start is known by its name."""

    def __init__(
        self,
        scope: Construct,
        stage: Stage,
        *,
        state: State,
        code: Code,
        page_origin: str = "",
        dashboards: Iterable[str] = (),
    ) -> None:
        """Add both APIs to a scope, each with a throttle, and the functions they call.

        Browsers may send requests from the chat page, at `page_origin`, and from the allowed origins. `dashboards` are the names of the
        bundles that have one.
        """
        self.scope = scope
        self._stack = cdk.Stack.of(scope)
        self._origins = stage.origins(page_origin)
        self.network = make_network(scope, stage)
        self._domains: dict[str, str] = {}
        self._make_socket_api(stage)
        self._make_http_api(stage)
        self.functions = self._make_functions(stage, state, code)
        add_shift(scope, stage, "ingress", self.functions.values())
        self._serve_socket()
        self._serve_http()
        self.page_config = make_page_config(
            stage,
            state.trust,
            http_url=self.http_url,
            socket_url=self.socket_url,
            dashboards=dashboards,
        )
        outputs = {
            "WebSocketUrl": self.socket_url,
            "HttpUrl": self.http_url,
            "PageConfig": self._stack.to_json_string(self.page_config),
        }
        for name, value in (outputs | self._domains).items():
            cdk.CfnOutput(scope, name, value=value)
        warn_unknown(scope, stage)

    def _make_socket_api(self, stage: Stage) -> None:
        self.socket_api = apigateway.WebSocketApi(self.scope, "SocketApi", api_name=stage.needed_name("api"))
        gateway = apigateway.WebSocketStage(
            self.scope,
            "SocketStage",
            web_socket_api=self.socket_api,
            stage_name=STAGE_NAME,
            auto_deploy=True,
            throttle=_throttle(stage.socket_throttle),
            access_log_settings=AccessLog(self.scope, stage, "socket", SOCKET_FIELDS)
            if stage.socket_access_log
            else None,
        )
        self.callback_url, self.socket_url = gateway.callback_url, gateway.url
        self.socket_origin = self.socket_api.api_endpoint
        if stage.socket_domain:
            # The functions still post to connections at the API's own address, which needs no record of the owner's.
            self._domains["SocketOwnUrl"] = self.socket_url
            self._map(stage, "Socket", stage.socket_domain, self.socket_api, gateway)
            self.socket_origin = f"wss://{stage.socket_domain}"
            self.socket_url = f"{self.socket_origin}/"
        if stage.is_local:
            cdk.Tags.of(self.socket_api).add(_PIN_TAG, _pin(stage))
            self.callback_url = _emulated_url(stage, self.socket_api.api_id, STAGE_NAME)
            self.socket_url = self.callback_url.replace("http://", "ws://", 1)

    def _make_http_api(self, stage: Stage) -> None:
        origins = list(self._origins)
        self.http_api = apigateway.HttpApi(
            self.scope,
            "HttpApi",
            api_name=stage.needed_name("api", "-http"),
            create_default_stage=False,
            cors_preflight=apigateway.CorsPreflightOptions(
                allow_origins=origins,
                allow_methods=[
                    apigateway.CorsHttpMethod(method.value)
                    for method in (*HTTP_METHODS, apigateway.HttpMethod.HEAD)
                ],
                allow_headers=["authorization", "content-type", "idempotency-key", "if-none-match"],
                expose_headers=["etag", "stream-cursor", "stream-next-offset", "stream-up-to-date"],
                max_age=cdk.Duration.minutes(10),
            )
            if origins
            else None,
        )
        gateway = apigateway.HttpStage(
            self.scope,
            "HttpStage",
            http_api=self.http_api,
            stage_name=HTTP_STAGE_NAME,
            auto_deploy=True,
            throttle=_throttle(stage.http_throttle),
            access_log_settings=None if stage.is_local else AccessLog(self.scope, stage, "http", HTTP_FIELDS),
        )
        self.http_url, self.http_origin = gateway.url, self.http_api.api_endpoint
        if stage.api_domain:
            self._map(stage, "Api", stage.api_domain, self.http_api, gateway)
            self.http_origin = f"https://{stage.api_domain}"
            self.http_url = f"{self.http_origin}/"
        if stage.is_local:
            cdk.Tags.of(self.http_api).add(_PIN_TAG, f"{_pin(stage)}-http")
            self.http_url = _emulated_url(stage, self.http_api.api_id, HTTP_STAGE_NAME)

    def _map(
        self, stage: Stage, kind: str, domain: str, api: apigateway.IApi, gateway: apigateway.IStage
    ) -> None:
        """Map a domain of the owner's to an API, and add the name to which its record points to the outputs."""
        certificate = acm.Certificate.from_certificate_arn(
            self.scope, f"{kind}Certificate", stage.api_certificate_arn
        )
        made = apigateway.DomainName(
            self.scope,
            f"{kind}Domain",
            domain_name=domain,
            certificate=certificate,
            endpoint_type=apigateway.EndpointType.REGIONAL,
            security_policy=apigateway.SecurityPolicy.TLS_1_2,
        )
        apigateway.ApiMapping(self.scope, f"{kind}Mapping", api=api, domain_name=made, stage=gateway)
        self._domains[f"{kind}Host"] = made.regional_domain_name

    @property
    def connections_arn(self) -> str:
        """The ARN for posting to connections of this stage, and no other action on them."""
        return self._connections_arn("POST")

    @property
    def endings_arn(self) -> str:
        """The ARN for closing connections of this stage, and no other action on them."""
        return self._connections_arn("DELETE")

    def _connections_arn(self, method: str) -> str:
        return self._stack.format_arn(
            service="execute-api",
            resource=self.socket_api.api_id,
            resource_name=f"{STAGE_NAME}/{method}/@connections/*",
        )

    def _make_functions(self, stage: Stage, state: State, code: Code) -> dict[str, Function]:
        resources = Resources(
            table=state.table,
            bucket=state.bucket,
            machine_arn=stage.machine_arn(self._stack),
            executions_arn=stage.executions_arn(self._stack),
            eraser_arn=stage.eraser_arn(self._stack),
            decide_arn=stage.decide_arn(self._stack),
            connections_arn=self.connections_arn,
            cluster_arn=stage.cluster_arn(self._stack),
            tasks_arn=stage.tasks_arn(self._stack),
            handovers_arn=stage.handovers_arn(self._stack),
            redis_secret_arn=stage.redis_secret_arn,
            memory_arn=state.memory_arn,
            keys=state.keys,
            embedding_arn=embedding_arn(self._stack) if state.memory_arn else "",
            network_arns=self.network.arns(self._stack) if self.network else (),
            interfaces_arn=interfaces_arn(self._stack),
        )
        settings = ingress_settings(
            stage,
            state,
            machine_arn=resources.machine_arn,
            callback_url=self.callback_url,
            socket_url=self.socket_url,
            eraser_arn=resources.eraser_arn,
            decide_arn=resources.decide_arn,
            origins=self._origins,
        )
        package = code.add_to(self.scope, acting=(*ACTING["search"], *ACTING["authorizer"]))
        return {
            name: Function(
                self.scope,
                name,
                stage=stage,
                package=package,
                settings=settings,
                resources=resources,
                network=self.network,
            )
            for name in INGRESS
            if stage.stream_readers or name != "stream"
        }

    def _serve_socket(self) -> None:
        """Route everything to `socket`, after the authorizer.

        No identity source: a browser sends its ticket where no header can be required, and a missing source
        answers 401 before the authorizer is called.
        """
        gate = WebSocketLambdaAuthorizer(
            "SocketAuthorizer", self.functions["authorizer"].live, identity_source=[]
        )
        for route in ("$connect", "$disconnect", "$default"):
            self.socket_api.add_route(
                route,
                integration=WebSocketLambdaIntegration(
                    f"{route[1:].title()}Integration", self.functions["socket"].live
                ),
                authorizer=gate if route == "$connect" else None,
            )

    def _serve_http(self) -> None:
        """Route searches to `search`, streams to `stream` and all other requests to `api`, after the same authorizer.

        Its answers are not cached: a cached one would outlive its token, and skip the check of the origin.
        """
        found = {
            name: HttpLambdaIntegration(f"{name.title()}Integration", self.functions[name].live)
            for name in ("api", "search", "stream")
            if name in self.functions
        }
        gate = HttpLambdaAuthorizer(
            "HttpAuthorizer",
            self.functions["authorizer"].live,
            authorizer_name="HttpAuthorizer",
            response_types=[HttpLambdaResponseType.SIMPLE],
            results_cache_ttl=cdk.Duration.seconds(0),
        )
        for path in HTTP_PATHS:
            self.http_api.add_routes(
                path=path, methods=list(HTTP_METHODS), integration=found["api"], authorizer=gate
            )
        own = ((SEARCH_ROUTES, found["search"]), (STREAM_ROUTES, found.get("stream", found["api"])))
        for routes, integration in own:
            for method, path in routes:
                self.http_api.add_routes(
                    path=path, methods=[method], integration=integration, authorizer=gate
                )


def _throttle(planned: Throttle) -> apigateway.ThrottleSettings:
    return apigateway.ThrottleSettings(rate_limit=planned.requests_per_s, burst_limit=planned.burst)


def warn_unknown(scope: Construct, stage: Stage) -> None:
    """Warn that the stage runs few turns at once if the executions of its account are unknown."""
    if stage.concurrency or stage.is_local:
        return
    reads = "`stepline deploy` reads the number, or " if stage.has_own_stacks else ""
    warning = (
        f"the executions at once of the account are not known, so this stage runs {stage.most_turns} turns at once, as many as"
        f" a new account's {NEW_ACCOUNT} allow, and the rest are queued: {reads}give it with"
        f" {stage.spell('concurrency=N')} (aws lambda get-account-settings --query AccountLimit.UnreservedConcurrentExecutions)"
    )
    cdk.Annotations.of(scope).add_warning_v2("stepline:concurrency", warning)


def make_page_config(
    stage: Stage, trust: Trust, *, http_url: str, socket_url: str, dashboards: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the document by which a page finds its stage: addresses, the public client of the sign-in, features.

    It is public. The chat page has it as `config.json`; for your own site it is an output of the stack.
    `token` is the one that the stage accepts: the access token if the audience is not the client's. Source: docs/how-to/deploy.md#browsers.
    """
    return {
        "issuer": trust.oidc_issuer,
        "client_id": stage.oidc_client_id or trust.oidc_audience,
        "scopes": list(stage.oidc_scopes),
        "http_url": http_url,
        "socket_url": socket_url,
        "stage": stage.name,
        "inspect": stage.inspect,
        "uploads": True,
        "version": version("stepline"),
        "token": "access" if stage.oidc_client_id not in ("", stage.oidc_audience) else "id",
        "ui": list(dashboards),
    }


def _pin(stage: Stage) -> str:
    """Return the id of the websocket API on the emulator, which has one stage, and perhaps other agents of its app."""
    return "stepline" if stage.name == LOCAL else stage.name


def _emulated_url(stage: Stage, api_id: str, name: str) -> str:
    return f"{stage.endpoint}/_aws/execute-api/{api_id}/{name}"
