"""The address of the chat page: a private bucket served through CloudFront, with the response headers of `web/headers.json`.

It is created before everything that has to know the page's origin; the files are uploaded last, by page.py.
Source: docs/how-to/deploy.md#the-page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stepline_cdk.former_export import keep_export
from stepline_cdk.page_files import FRAME, INDEX, Headers, PageFiles, fill_headers
from stepline_cdk.stage import Stage

CSP: Final = "Content-Security-Policy"
NOSNIFF: Final = "X-Content-Type-Options"
REFERRER: Final = "Referrer-Policy"
ANY_ORIGIN: Final = "Access-Control-Allow-Origin"
_OF_CLOUDFRONT: Final = (CSP, NOSNIFF, REFERRER, ANY_ORIGIN)
"""Headers with fields of their own in a policy; all others are set by name."""
_HSTS_AGE: Final = cdk.Duration.days(365)
_REQUEST: Final = cloudfront.FunctionEventType.VIEWER_REQUEST
_RESPONSE: Final = cloudfront.FunctionEventType.VIEWER_RESPONSE


class Edge:
    """The bucket of the page's files and the distribution in front of it.

    `origin` is the page's, as browsers send it: of its own domain, or of the distribution's.
    """

    def __init__(self, scope: Construct, stage: Stage, files: PageFiles) -> None:
        """Add both to a scope; the bucket is empty until the page's own part is deployed."""
        self.scope = scope
        self._prefix = stage.needed_name("edge", cdk.Stack.of(scope).region)
        self._files = files
        self.bucket = s3.Bucket(
            scope,
            "Site",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            # A deployment can write all of it again.
            removal_policy=cdk.RemovalPolicy.DESTROY,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=cdk.Duration.days(1))],
        )
        self.distribution = self._distribute(stage)
        domain = stage.page_domain or self.distribution.distribution_domain_name
        # Kept with a custom domain, too: while the domain changes, later stacks still have the former origin.
        keep_export(scope, stage, self.distribution.distribution_domain_name)
        self.origin = f"https://{domain}"
        cdk.CfnOutput(scope, "PageUrl", value=f"{self.origin}/")
        cdk.CfnOutput(scope, "PageHost", value=self.distribution.distribution_domain_name)

    def _distribute(self, stage: Stage) -> cloudfront.Distribution:
        self._origin = origins.S3BucketOrigin.with_origin_access_control(
            self.bucket,
            origin_access_control=cloudfront.S3OriginAccessControl(
                self.scope, "Access", origin_access_control_name=self._prefix
            ),
        )
        # Every object has its own `Cache-Control`.
        self._cache = cloudfront.CachePolicy(
            self.scope,
            "Cache",
            cache_policy_name=self._prefix,
            min_ttl=cdk.Duration.seconds(0),
            default_ttl=cdk.Duration.seconds(0),
            max_ttl=cdk.Duration.days(365),
            enable_accept_encoding_brotli=True,
            enable_accept_encoding_gzip=True,
        )
        routes = self._function("Routes", "page_routes.js", FILES=self._files.plain())
        policy = self._function("Policy", "page_policy.js")
        named: dict[str, Any] = (
            {
                "domain_names": [stage.page_domain],
                "certificate": acm.Certificate.from_certificate_arn(
                    self.scope, "Certificate", stage.page_certificate_arn
                ),
                # The distribution's own domain has a fixed protocol policy of AWS's.
                "minimum_protocol_version": cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021,
            }
            if stage.page_domain
            else {}
        )
        return cloudfront.Distribution(
            self.scope,
            "Distribution",
            comment=f"Stepline's chat page, stage {stage.name}",
            default_root_object=INDEX,
            web_acl_id=stage.page_web_acl_arn or None,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            default_behavior=self._behavior("page", {_REQUEST: routes, _RESPONSE: policy}),
            additional_behaviors={
                "/assets/*": self._behavior("assets", {}),
                f"/{FRAME}": self._behavior("frame", {}),
                "/ui/*": self._behavior("bundle", {_REQUEST: routes}),
            },
            **named,
        )

    def _behavior(
        self, kind: str, functions: dict[cloudfront.FunctionEventType, cloudfront.Function]
    ) -> cloudfront.BehaviorOptions:
        """Return how one kind of address is answered."""
        return cloudfront.BehaviorOptions(
            origin=self._origin,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_GET_HEAD,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
            compress=True,
            cache_policy=self._cache,
            response_headers_policy=self._headers(kind, fill_headers(self._files.headers[kind])),
            function_associations=[
                cloudfront.FunctionAssociation(event_type=event, function=function)
                for event, function in functions.items()
            ],
        )

    def _headers(self, kind: str, headers: Headers) -> cloudfront.ResponseHeadersPolicy:
        """Add the response headers of one kind of address, and HTTPS for a year.

        The policy of the page allows its own host alone; the other hosts are added where the response leaves.
        """
        csp, referrer = headers.get(CSP), headers.get(REFERRER)
        return cloudfront.ResponseHeadersPolicy(
            self.scope,
            f"{kind.title()}Headers",
            response_headers_policy_name=f"{self._prefix}-{kind}",
            security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
                content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                    content_security_policy=csp, override=True
                )
                if csp
                else None,
                content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True)
                if NOSNIFF in headers
                else None,
                referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                    referrer_policy=cloudfront.HeadersReferrerPolicy[referrer.upper().replace("-", "_")],
                    override=True,
                )
                if referrer
                else None,
                strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                    access_control_max_age=_HSTS_AGE, override=True
                ),
            ),
            cors_behavior=_cors(headers),
            custom_headers_behavior=cloudfront.ResponseCustomHeadersBehavior(
                custom_headers=[
                    cloudfront.ResponseCustomHeader(header=name, value=value, override=True)
                    for name, value in headers.items()
                    if name not in _OF_CLOUDFRONT
                ]
            ),
        )

    def _function(self, name: str, file: str, **lists: list[str]) -> cloudfront.Function:
        """Add a function of the edge, with these lists in place of its empty ones."""
        code = Path(__file__).with_name(file).read_text(encoding="utf-8")
        for constant, values in lists.items():
            code = code.replace(f"{constant} = []", f"{constant} = {json.dumps(values)}")
        return cloudfront.Function(
            self.scope,
            name,
            function_name=f"{self._prefix}-{name.lower()}",
            code=cloudfront.FunctionCode.from_inline(code),
            runtime=cloudfront.FunctionRuntime.JS_2_0,
        )


def _cors(headers: Headers) -> cloudfront.ResponseHeadersCorsBehavior | None:
    """Return the rule by which a sandboxed document, which has no origin, loads what is its own; None without one."""
    if ANY_ORIGIN not in headers:
        return None
    return cloudfront.ResponseHeadersCorsBehavior(
        access_control_allow_origins=[headers[ANY_ORIGIN]],
        access_control_allow_methods=["GET", "HEAD"],
        access_control_allow_headers=["*"],
        access_control_allow_credentials=False,
        origin_override=True,
    )
