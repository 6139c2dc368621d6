import json

from lambdas import decide, socket
from stepline import metrics
from tests.unit.loop.scene import answered

from .conftest import recorded


def test_a_metric_tells_its_deployment_from_others_in_the_account(stage, capsys) -> None:
    stage.model.add(answered("done"))
    stage.call(socket.handler, recorded("connect"))
    stage.call(socket.handler, recorded("message"))
    stage.call(decide.handler, recorded("step"))
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents
    for document in documents:
        (directive,) = document["_aws"]["CloudWatchMetrics"]
        (names,) = directive["Dimensions"]
        assert {name: document[name] for name in names} == metrics.dimensions(stage.app.settings.stage)
