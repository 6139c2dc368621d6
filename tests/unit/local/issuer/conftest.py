import threading

import pytest

from stepline.local.stage.issuer.authorization import SignIns
from stepline.local.stage.issuer.issuer_server import make_issuer_server
from stepline.local.stage.issuer.owner_key import load_owner_key
from tests.unit.local.issuer.browser import OWN, PAGE, Browser


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="package")
def home(tmp_path_factory):
    """The folder of one key: creating one takes longer than a sign-in."""
    return tmp_path_factory.mktemp("issuer")


@pytest.fixture
def browser(home, clock):
    server = make_issuer_server(0, home, page=PAGE, origins=(OWN,), name="o'hara", sign_ins=SignIns(clock))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield Browser(f"http://127.0.0.1:{server.server_address[1]}", key=load_owner_key(home))
    server.shutdown()
    thread.join()
    server.server_close()
