"""The address of the chat page: who reaches the bucket, what answers which address, with which headers."""

import json
import re

import pytest

from stepline.errors import InputError
from stepline_cdk.page_files import fill_headers, read_headers

from .conftest import PAGE, ROOT, read_page, synthesise
from .edge_function import run_function

HEADERS = read_headers(ROOT)
HOSTS = {
    "http": "https://abc.execute-api.eu-west-1.amazonaws.com",
    "socket": "wss://def.execute-api.eu-west-1.amazonaws.com",
    "issuer": "https://cognito-idp.eu-west-1.amazonaws.com https://chat.auth.eu-west-1.amazoncognito.com",
    "files": "https://files.s3.eu-west-1.amazonaws.com",
}
KINDS = {"": "page", "/assets/*": "assets", "/frame.html": "frame", "/ui/*": "bundle"}
HSTS = {"Strict-Transport-Security": "max-age=31536000"}


def only(synthesis, kind):
    (found,) = synthesis.resources(kind, of_page=True).values()
    return found


@pytest.fixture(scope="module")
def site(prod):
    return only(prod, "AWS::CloudFront::Distribution")["DistributionConfig"]


@pytest.fixture(scope="module")
def behaviors(site):
    others = {one["PathPattern"]: one for one in site["CacheBehaviors"]}
    return {"": site["DefaultCacheBehavior"], **others}


@pytest.fixture(scope="module")
def functions(prod):
    """The code of the functions by the ends of their names."""
    found = prod.resources("AWS::CloudFront::Function", of_page=True).values()
    return {str(one["Name"]).split("-")[-1].strip("'}]"): one["FunctionCode"] for one in found}


def headers_of(policy):
    """Return the headers that a policy sets, by name."""
    config = policy["ResponseHeadersPolicyConfig"]
    security = config["SecurityHeadersConfig"]
    found = {one["Header"]: one["Value"] for one in config["CustomHeadersConfig"]["Items"]}
    parts = [*security.values(), *config["CustomHeadersConfig"]["Items"]]
    assert all(part["Override"] for part in parts)
    age = security["StrictTransportSecurity"]["AccessControlMaxAgeSec"]
    found["Strict-Transport-Security"] = f"max-age={age}"
    if "ContentSecurityPolicy" in security:
        found["Content-Security-Policy"] = security["ContentSecurityPolicy"]["ContentSecurityPolicy"]
    if "ContentTypeOptions" in security:
        found["X-Content-Type-Options"] = "nosniff"
    if "ReferrerPolicy" in security:
        found["Referrer-Policy"] = security["ReferrerPolicy"]["ReferrerPolicy"]
    if "CorsConfig" in config:
        cors = config["CorsConfig"]
        assert cors["AccessControlAllowCredentials"] is False
        (found["Access-Control-Allow-Origin"],) = cors["AccessControlAllowOrigins"]["Items"]
    return found


@pytest.mark.parametrize(("address", "kind"), KINDS.items())
def test_every_kind_of_address_is_answered_with_its_headers_and_no_other_host(prod, behaviors, address, kind):
    policies = prod.resources("AWS::CloudFront::ResponseHeadersPolicy", of_page=True)
    policy = policies[behaviors[address]["ResponseHeadersPolicyId"]["Ref"]]
    assert headers_of(policy) == {**fill_headers(HEADERS[kind]), **HSTS}


def test_no_policy_has_a_placeholder_or_allows_scripts_or_styles_of_a_text(prod):
    policies = json.dumps(prod.resources("AWS::CloudFront::ResponseHeadersPolicy", of_page=True))
    assert "{http}" not in policies
    assert "unsafe-eval" not in policies
    # The frame's own styles are the one exception.
    assert policies.count("unsafe-inline") == HEADERS["frame"]["Content-Security-Policy"].count(
        "unsafe-inline"
    )


def test_only_documents_of_bundles_which_have_no_origin_may_be_loaded_from_anywhere(prod):
    policies = prod.resources("AWS::CloudFront::ResponseHeadersPolicy", of_page=True)
    assert [name for name, one in policies.items() if "CorsConfig" in str(one)] == [
        name for name in policies if name.startswith("BundleHeaders")
    ]


def test_the_bucket_is_private_encrypted_and_read_by_this_distribution_alone(prod):
    bucket = only(prod, "AWS::S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert "AES256" in json.dumps(bucket["BucketEncryption"])
    statements = only(prod, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    refused = [one for one in statements if one["Effect"] == "Deny"]
    (allowed,) = [one for one in statements if one["Effect"] == "Allow"]
    assert [one["Condition"] for one in refused] == [{"Bool": {"aws:SecureTransport": "false"}}]
    assert (allowed["Action"], allowed["Principal"]) == (
        "s3:GetObject",
        {"Service": "cloudfront.amazonaws.com"},
    )
    assert "Distribution" in json.dumps(allowed["Condition"]["StringEquals"])
    access = only(prod, "AWS::CloudFront::OriginAccessControl")["OriginAccessControlConfig"]
    assert (access["SigningBehavior"], access["SigningProtocol"]) == ("always", "sigv4")


def test_a_browser_is_led_to_https_and_may_only_read(site, behaviors):
    assert site["HttpVersion"] == "http2and3"
    assert site["DefaultRootObject"] == "index.html"
    for behavior in behaviors.values():
        assert behavior["ViewerProtocolPolicy"] == "redirect-to-https"
        assert behavior["AllowedMethods"] == ["GET", "HEAD"]
        assert behavior["Compress"] is True


def test_an_object_is_kept_as_long_as_it_says_and_not_longer(prod):
    policy = only(prod, "AWS::CloudFront::CachePolicy")["CachePolicyConfig"]
    assert (policy["MinTTL"], policy["DefaultTTL"]) == (0, 0)


def test_a_custom_domain_is_the_pages_origin_and_speaks_tls_1_2(tmp_path_factory):
    named = synthesise(
        tmp_path_factory,
        name="named",
        page_domain="chat.example.com",
        page_certificate_arn="arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d",
    )
    config = only(named, "AWS::CloudFront::Distribution")["DistributionConfig"]
    assert config["Aliases"] == ["chat.example.com"]
    assert config["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
    outputs = named.documents()["edge"]["Outputs"]
    assert outputs["PageUrl"]["Value"] == "https://chat.example.com/"
    assert "DomainName" in str(outputs["PageHost"]["Value"])
    exports = json.dumps(named.documents()["edge"]["Outputs"])
    assert re.search(r"ExportsOutputFnGetAttDistribution\w+DomainName", exports), (
        "the former origin is still asked for"
    )
    (client,) = named.resources("AWS::Cognito::UserPoolClient").values()
    assert client["CallbackURLs"] == ["https://chat.example.com/callback"]
    (bucket,) = named.resources("AWS::S3::Bucket").values()
    assert bucket["CorsConfiguration"]["CorsRules"][0]["AllowedOrigins"] == ["https://chat.example.com"]


@pytest.mark.parametrize(
    ("address", "object_key"),
    [
        ("/", "/index.html"),
        ("/c/chat-abc", "/index.html"),
        ("/c/chat-abc/f/out/plot.svg", "/index.html"),
        ("/c/chat-abc/timeline/turn_1/2", "/index.html"),
        ("/search", "/index.html"),
        ("/callback", "/index.html"),
        ("/signed-out", "/index.html"),
        ("/no/such/route", "/index.html"),
        ("/index.html", "/index.html"),
        ("/config.json", "/config.json"),
        ("/mark.svg", "/mark.svg"),
        ("/ui/default/", "/ui/default/index.html"),
        ("/ui/default/app.js", "/ui/default/app.js"),
    ],
)
def test_an_address_is_a_file_or_a_route_of_the_page(functions, address, object_key):
    request = {"uri": address, "method": "GET", "querystring": {"q": {"value": "a"}}, "headers": {}}
    found = run_function(functions["routes"], {"request": request})
    assert found == {**request, "uri": object_key}


def policy_after(functions, status, *, hosts=None):
    narrow = fill_headers(HEADERS["page"])["Content-Security-Policy"]
    headers = {"content-security-policy": {"value": narrow}, "etag": {"value": '"a"'}}
    if hosts:
        headers["x-amz-meta-connect"] = {"value": hosts}
    response = run_function(functions["policy"], {"response": {"statusCode": status, "headers": headers}})
    assert "x-amz-meta-connect" not in response["headers"]
    assert response["headers"]["etag"] == {"value": '"a"'}
    return response["headers"].get("content-security-policy", {}).get("value")


def test_the_page_gets_exactly_the_hosts_of_its_deployment(functions):
    expected = fill_headers(HEADERS["page"], **HOSTS)["Content-Security-Policy"]
    assert policy_after(functions, 200, hosts=" ".join(HOSTS.values())) == expected


def test_a_file_without_hosts_may_call_the_page_alone(functions):
    narrow = fill_headers(HEADERS["page"])["Content-Security-Policy"]
    assert policy_after(functions, 200) == narrow
    assert "connect-src 'self';" in narrow


def test_a_page_that_did_not_change_keeps_the_policy_that_the_browser_has(functions):
    assert policy_after(functions, 304) is None


def test_a_function_of_the_edge_fits_into_it(functions):
    assert set(functions) == {"routes", "policy"}
    assert all(len(code.encode()) < 10_240 for code in functions.values())


def test_the_page_names_its_files_but_those_with_an_address_of_their_own(prod):
    assert read_page(ROOT, prod.stage.named_modules, dist=PAGE).plain() == ["/config.json", "/mark.svg"]


def test_a_page_that_was_not_built_is_refused_with_the_command_that_builds_it(tmp_path):
    with pytest.raises(InputError, match="make web") as caught:
        read_page(ROOT, {}, dist=tmp_path)
    assert caught.value.reason == "page_missing"


def test_a_bundle_has_a_dashboard_if_its_folder_ui_has_an_index(tmp_path, monkeypatch):
    for name, file in (("shop_with", "index.html"), ("shop_without", "notes.txt")):
        (tmp_path / name / "ui").mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "ui" / file).touch()
    monkeypatch.syspath_prepend(tmp_path)
    found = read_page(ROOT, {"default": "shop_with", "other": "shop_without"}, dist=PAGE)
    assert found.dashboards == {"default": tmp_path / "shop_with/ui"}
