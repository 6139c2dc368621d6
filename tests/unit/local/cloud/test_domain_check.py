from stepline.local.cloud.checks.domain_check import check_domains, resolves

OUTPUTS = {
    "ApiHost": "d-1.execute-api.example",
    "HttpUrl": "https://api.example.com/",
    "SocketHost": "d-2.execute-api.example",
    "WebSocketUrl": "wss://socket.example.com/",
}


def test_a_stage_without_domains_of_its_own_needs_no_record():
    outputs = {name: url for name, url in OUTPUTS.items() if not name.endswith("Host")}
    check = check_domains(outputs, is_found=lambda _domain: False)
    assert (check.ok, check.note) == (True, "")


def test_domains_with_records_are_fine():
    check = check_domains(OUTPUTS, is_found=lambda _domain: True)
    assert (check.ok, check.note, check.detail) == (True, "", "api.example.com, socket.example.com")


def test_a_missing_record_is_named_and_fails_nothing():
    check = check_domains(OUTPUTS, is_found=lambda domain: domain.startswith("api."))
    assert (check.ok, check.note) == (True, "warn")
    assert check.remedy == "add DNS records: socket.example.com CNAME d-2.execute-api.example"


def test_a_domain_that_cannot_exist_has_no_address():
    assert not resolves("socket.stepline.invalid")
