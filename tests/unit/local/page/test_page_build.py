"""The time of the page's build, and the page shown meanwhile."""

import os
import threading
import time

import pytest

from stepline.errors import DependencyError
from stepline.local.page import page_build, page_server
from stepline.local.page.page_build import build_page, digest_sources, install_page_packages, is_built
from tests.unit.local.page.conftest import INDEX

PATIENCE_S = 60


@pytest.fixture
def sources(place):
    place.deploy()
    place.write("src/main.tsx", "1")
    place.write("package-lock.json", "{}")
    place.write("index.html", "<title>source</title>")
    return place


def finish(place):
    """Write the files of a build."""
    place.build_by_hand()
    place.write("dist/.sources", digest_sources(place.web))


def asked_until(visitor, seen):
    """Open the page until its answer is the one that a test waits for; return that answer."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not seen(answer := visitor.ask("/")) and time.monotonic() < give_up_s:
        pass
    return answer


def is_there(answer):
    return answer.status == 200


def test_the_page_is_built_once_on_the_first_request_and_shows_its_progress(sources):
    may, made = threading.Event(), []

    def make(_progress, _web):
        made.append(1)
        may.wait(PATIENCE_S)
        finish(sources)

    with sources.serving(make) as visitor:
        assert made == []
        for _ in range(2):
            meanwhile = visitor.ask("/c/chat-1")
            assert meanwhile.status == 503
            assert 'http-equiv="refresh"' in meanwhile.text
            assert meanwhile.headers["content-security-policy"].startswith("default-src 'none'")
        assert visitor.ask("/assets/main-abc.js").status == 404
        may.set()
        assert asked_until(visitor, is_there).text == INDEX
        assert made == [1]


def test_a_build_that_ends_during_a_request_is_not_repeated(sources, monkeypatch):
    begun, may, made = threading.Event(), threading.Event(), []

    def make(_progress, _web):
        made.append(threading.current_thread())
        begun.set()
        may.wait(PATIENCE_S)
        finish(sources)

    def read_then_finish(digest, web):
        found = is_built(digest, web)
        if made:
            may.set()
            made[0].join(PATIENCE_S)
        return found

    monkeypatch.setattr(page_server, "is_built", read_then_finish)
    page = page_server.PageBuild(sources.web, make)
    assert page.site() is None
    assert begun.wait(PATIENCE_S)
    assert page.site() is None
    assert page.site().find("/").body.decode() == INDEX
    assert len(made) == 1


def test_a_change_of_the_sources_is_built_when_the_page_is_opened_again(sources):
    may, made = threading.Event(), []

    def make(_progress, _web):
        made.append(1)
        may.wait(PATIENCE_S)
        finish(sources)

    finish(sources)
    with sources.serving(make) as visitor:
        assert (visitor.ask("/").status, made) == (200, [])
        sources.write("src/main.tsx", "2")
        assert visitor.ask("/assets/main-abc.js").status == 200
        assert made == []
        assert visitor.ask("/").status == 503
        may.set()
        assert asked_until(visitor, is_there).status == 200
        assert made == [1]


def test_a_failed_build_shows_its_output_and_is_retried_after_a_change(sources):
    may, made = threading.Event(), []

    def make(_progress, _web):
        made.append(1)
        may.wait(PATIENCE_S)
        raise DependencyError("vite build failed:\n<b>main.tsx</b>", code="page_build")

    with sources.serving(make) as visitor:
        assert visitor.ask("/").status == 503
        may.set()
        answer = asked_until(visitor, lambda answer: "refresh" not in answer.text)
        assert "&lt;b&gt;main.tsx" in answer.text
        visitor.ask("/")
        assert made == [1]
        sources.write("src/main.tsx", "2")
        asked_until(visitor, lambda _: made == [1, 1])
        assert made == [1, 1]


def test_an_installed_package_has_the_page_and_no_sources(place):
    place.build_by_hand()
    assert is_built(digest_sources(place.web), place.web)
    build_page(pytest.fail, place.web)


def test_an_installation_without_the_page_says_so(place):
    with pytest.raises(DependencyError, match="without the chat page"):
        build_page(pytest.fail, place.web)


@pytest.fixture
def npm(sources, monkeypatch):
    """A stand-in for npm; it records its arguments, and writes npm's files."""
    sources.write(
        "bin/npm",
        '#!/bin/sh\necho "$@" >>called; /bin/mkdir -p node_modules; echo {} >node_modules/.package-lock.json\n',
    )
    (sources.web / "bin/npm").chmod(0o755)
    monkeypatch.setattr(page_build, "install_environment", lambda: {"PATH": str(sources.web / "bin")})
    return sources.web / "called"


def test_packages_come_once_by_the_lock_file_and_run_no_script(sources, npm):
    said = []
    install_page_packages(said.append, sources.web)
    install_page_packages(said.append, sources.web)
    assert npm.read_text() == "ci --ignore-scripts --no-audit --no-fund\n"
    assert said == ["installing the packages of the chat page (250 MB, some seconds)"]


def test_packages_come_again_when_the_lock_file_is_newer(sources, npm):
    install_page_packages(lambda _: None, sources.web)
    os.utime(sources.web / "node_modules/.package-lock.json", (1, 1))
    install_page_packages(lambda _: None, sources.web)
    assert len(npm.read_text().splitlines()) == 2


def test_a_failed_command_is_reported_with_its_last_output(sources, npm):
    sources.write("bin/npm", "#!/bin/sh\necho 'E404 no such package'; exit 1\n")
    with pytest.raises(DependencyError, match="npm ci failed:\nE404 no such package"):
        build_page(lambda _: None, sources.web)
    (sources.web / "bin/npm").unlink()
    with pytest.raises(DependencyError, match="npm is not in the environment"):
        build_page(lambda _: None, sources.web)
