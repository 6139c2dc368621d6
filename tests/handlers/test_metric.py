import json

from lambdas import decide, socket
from lambdas.edge.runtime import PowertoolsMeter
from stepline import metrics
from tests.support.generation import answered

from .conftest import recorded


def test_a_metric_distinguishes_its_deployment_from_others_in_the_account(runtime, capsys) -> None:
    runtime.model.add(answered("done"))
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    runtime.call(decide.handler, recorded("step"))
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents
    for document in documents:
        (directive,) = document["_aws"]["CloudWatchMetrics"]
        (names,) = directive["Dimensions"]
        named = {name: document[name] for name in names}
        spent = {metric["Name"] for metric in directive["Metrics"]} <= {metrics.MODEL_USD, metrics.AWS_USD}
        tenant = {"tenant": "acme"} if spent else {}
        assert named == metrics.dimensions(runtime.app.settings.stage) | tenant


def test_a_count_with_a_reason_is_counted_under_the_reason_and_in_total(runtime, capsys) -> None:
    runtime.model.add(answered("done"))
    runtime.call(socket.handler, recorded("connect"))
    capsys.readouterr()
    PowertoolsMeter().count(metrics.CACHE_BUSTS, reason="hide")
    runtime.call(socket.handler, recorded("message"))
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counted = [document for document in documents if metrics.CACHE_BUSTS in document]
    assert [(document[metrics.CACHE_BUSTS], document.get("reason")) for document in counted] == [
        ([1.0], "hide"),
        ([1.0], None),
    ]
    own = metrics.dimensions(runtime.app.settings.stage)
    assert all({name: document[name] for name in own} == own for document in counted)
    (directive,) = counted[0]["_aws"]["CloudWatchMetrics"]
    assert sorted(directive["Dimensions"][0]) == sorted([*own, "reason"])
