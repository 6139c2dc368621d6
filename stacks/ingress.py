"""The websocket API: who may connect, and which function hears what is said."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk.aws_apigatewayv2_authorizers import WebSocketLambdaAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import WebSocketLambdaIntegration
from constructs import Construct

from stacks.function import Function
from stacks.stage import Stage

STAGE_NAME = "live"
# The emulator takes an API's id from this tag, so that its address survives a rebuild.
_PIN_TAG = "ms-custom-id"


class Ingress(Construct):
    """Made before the functions, which must know where to post; `serve` connects them."""

    def __init__(self, scope: Construct, stage: Stage) -> None:
        """Add the API and its one stage, throttled."""
        super().__init__(scope, "Ingress")
        self.api = apigateway.WebSocketApi(self, "Api", api_name=f"stepline-{stage.name}")
        self.stage = apigateway.WebSocketStage(
            self,
            "Stage",
            web_socket_api=self.api,
            stage_name=STAGE_NAME,
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(rate_limit=stage.requests_per_s, burst_limit=stage.burst),
        )
        if stage.is_local:
            cdk.Tags.of(self.api).add(_PIN_TAG, "stepline")
        self.callback_url = (
            f"{stage.endpoint}/_aws/execute-api/{self.api.api_id}/{STAGE_NAME}"
            if stage.is_local
            else self.stage.callback_url
        )
        self.url = self.callback_url.replace("http://", "ws://", 1) if stage.is_local else self.stage.url

    @property
    def connections_arn(self) -> str:
        """Posting to connections of this stage, and nothing else one can do with them."""
        return cdk.Stack.of(self).format_arn(
            service="execute-api",
            resource=self.api.api_id,
            resource_name=f"{STAGE_NAME}/POST/@connections/*",
        )

    def serve(self, *, authorizer: Function, socket: Function) -> None:
        """Route everything to `socket`, after `authorizer` let the connection in.

        No identity source: a browser sends its ticket where no header can be required, and an absent source
        answers 401 before the authorizer is asked.
        """
        gate = WebSocketLambdaAuthorizer("Authorizer", authorizer.live, identity_source=[])
        for route in ("$connect", "$disconnect", "$default"):
            self.api.add_route(
                route,
                integration=WebSocketLambdaIntegration(f"{route[1:].title()}Integration", socket.live),
                authorizer=gate if route == "$connect" else None,
            )
