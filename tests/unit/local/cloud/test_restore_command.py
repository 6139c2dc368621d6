"""`stepline restore`: the parameters of point-in-time recovery, the order of the steps, the restored bucket."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import replace

import pytest
from botocore.stub import Stubber

from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import DependencyError
from stepline.local.cloud.deployment import Deployment, load_deployment, save_deployment
from stepline.local.cloud.restore_stage import (
    PAUSE_S,
    ObjectChange,
    RestoredTable,
    Seen,
    bring_back,
    name_table,
    plan_change,
    restore_deployment,
)
from stepline.local.cloud.stage_choices import choices_file
from tests.unit.local.cloud.recorded_programs import ACCOUNT_ID, REGION, order, refused

EARLY, AT, NOW = (dt.datetime(2026, 11, 26, hour, tzinfo=dt.UTC) for hour in (1, 7, 9))
SOURCE, BUCKET = "the-table", "the-bucket"
TARGET = "stepline-dev-20261126070000"
OUTPUTS = {"TableName": SOURCE, "BucketName": BUCKET}


def later(minutes):
    return AT + dt.timedelta(minutes=minutes)


@pytest.fixture
def clock():
    return MemoryClock(NOW)


@pytest.fixture
def table(account, clock, prompts):
    return RestoredTable(account, SOURCE, clock, prompts.say)


@contextmanager
def recorded(account):
    """Yield DynamoDB's stub: every call must be the next queued one, with these parameters."""
    with Stubber(account.client("dynamodb")) as stub:
        yield stub
        stub.assert_no_pending_responses()


def backed_up(stub, status="ENABLED"):
    description = {"PointInTimeRecoveryStatus": status}
    if status == "ENABLED":
        description |= {"EarliestRestorableDateTime": EARLY, "LatestRestorableDateTime": NOW}
    stub.add_response(
        "describe_continuous_backups",
        {
            "ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": description,
            }
        },
        {"TableName": SOURCE},
    )


def asked_for(stub, point=AT):
    stub.add_response(
        "restore_table_to_point_in_time",
        {"TableDescription": {"TableName": TARGET, "TableStatus": "CREATING"}},
        {"SourceTableName": SOURCE, "TargetTableName": TARGET, "RestoreDateTime": point},
    )


def described(stub, status, index="ACTIVE", name=TARGET, **fields):
    indexes = [{"IndexName": "GSI1", "IndexStatus": index}, {"IndexName": "GSI2", "IndexStatus": "ACTIVE"}]
    found = {"TableName": name, "TableStatus": status, "GlobalSecondaryIndexes": indexes, **fields}
    stub.add_response("describe_table", {"Table": found}, {"TableName": name})


def settled(stub, *, expiry="DISABLED", protected=True):
    stub.add_response(
        "describe_time_to_live",
        {"TimeToLiveDescription": {"TimeToLiveStatus": expiry}},
        {"TableName": TARGET},
    )
    if expiry == "DISABLED":
        specification = {"Enabled": True, "AttributeName": "expires_at"}
        stub.add_response(
            "update_time_to_live",
            {"TimeToLiveSpecification": specification},
            {"TableName": TARGET, "TimeToLiveSpecification": specification},
        )
    stub.add_response(
        "update_continuous_backups",
        {"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED"}},
        {"TableName": TARGET, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
    )
    described(stub, "ACTIVE", name=SOURCE, DeletionProtectionEnabled=protected)
    if protected:
        stub.add_response("update_table", {}, {"TableName": TARGET, "DeletionProtectionEnabled": True})


@pytest.mark.parametrize(
    ("at", "point"),
    [
        ("", NOW),
        ("2026-11-26T07:00:00Z", AT),
        ("2026-11-26T07:00:00", AT),
        ("2026-11-26T08:00:00.7+01:00", AT),
    ],
    ids=["the latest", "in UTC", "without a zone", "in another zone, with a fraction"],
)
def test_a_time_is_read_in_whole_seconds_of_utc(account, table, at, point):
    with recorded(account) as stub:
        backed_up(stub)
        assert table.check_point(at) == point


@pytest.mark.parametrize(
    ("at", "said"), [("2026-11-26T00:59:59Z", "from 2026-11-26T01"), ("seven", "write the time like")]
)
def test_a_time_that_is_none_or_outside_the_window_is_refused(account, table, at, said):
    with recorded(account) as stub:
        backed_up(stub)
        error = refused(table.check_point, at)
    assert error.reason == "bad_choice"
    assert said in str(error)


def test_a_table_without_recovery_cannot_be_restored(account, table):
    with recorded(account) as stub:
        backed_up(stub, status="DISABLED")
        assert "no point-in-time recovery" in str(refused(table.check_point, ""))


def test_a_refusal_by_aws_names_the_permissions(account, table):
    with recorded(account) as stub:
        stub.add_client_error("describe_continuous_backups", "AccessDeniedException")
        assert "dynamodb:RestoreTableToPointInTime" in str(refused(table.check_point, ""))


def test_a_restore_asks_for_the_table_under_its_new_name_as_of_the_time(account, table):
    with recorded(account) as stub:
        asked_for(stub)
        table.begin(TARGET, AT)


def test_a_restore_that_was_begun_before_is_gone_on_with(account, table, prompts):
    with recorded(account) as stub:
        stub.add_client_error("restore_table_to_point_in_time", "TableAlreadyExistsException")
        table.begin(TARGET, AT)
    assert f"{TARGET} exists already: continuing" in prompts.lines


def test_the_table_is_waited_for_with_each_of_its_indexes(account, table, clock):
    with recorded(account) as stub:
        described(stub, "CREATING", index="CREATING")
        described(stub, "ACTIVE", index="CREATING")
        described(stub, "ACTIVE")
        table.wait(TARGET)
    assert clock.monotonic_s() == 2 * PAUSE_S


def test_settings_that_a_restore_drops_are_set_again_with_recovery(account, table):
    with recorded(account) as stub:
        settled(stub)
        table.settle(TARGET)


def test_existing_settings_are_kept_and_an_unprotected_table_stays_unprotected(account, table):
    with recorded(account) as stub:
        settled(stub, expiry="ENABLED", protected=False)
        table.settle(TARGET)


@pytest.fixture
def bucket(account, monkeypatch):
    """Return moto's bucket with versions, and a function that sets the time of its objects."""
    s3 = account.client("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})

    def at(minutes):
        monkeypatch.setattr("moto.s3.models.utcnow", lambda: later(minutes).replace(tzinfo=None))
        return s3

    return at


def texts(s3):
    found = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {one["Key"]: s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read().decode() for one in found}


def put(s3, **objects):
    for key, text in objects.items():
        s3.put_object(Bucket=BUCKET, Key=key.replace("_", "/"), Body=text.encode())


def test_the_bucket_is_restored_except_tombstones_and_later_objects(account, bucket):
    put(bucket(-60), out_kept="kept", out_gone="gone", store_value="old", mem_manifest="old")
    s3 = bucket(10)
    put(s3, store_value="new", mem_manifest="new", exec_call="lost", tomb_one="deleted")
    s3.delete_object(Bucket=BUCKET, Key="out/gone")
    put(bucket(90), out_next="next", store_other="other")
    counts = bring_back(account, BUCKET, at=AT, until=later(60))
    assert counts == {"undeleted": 1, "replaced": 2, "deleted": 1}
    assert texts(s3) == {
        "out/kept": "kept",
        "out/gone": "gone",
        "store/value": "old",
        "mem/manifest": "old",
        "tomb/one": "deleted",
        "out/next": "next",
        "store/other": "other",
    }


def test_an_unchanged_bucket_is_left_alone(account, bucket):
    put(bucket(-60), out_kept="kept")
    assert bring_back(account, BUCKET, at=AT, until=NOW) == {}


def test_an_object_that_the_eraser_took_with_all_versions_does_not_come_back(account, bucket):
    put(bucket(-60), out_secret="secret")
    s3 = bucket(10)
    (version,) = s3.list_object_versions(Bucket=BUCKET)["Versions"]
    s3.delete_object(Bucket=BUCKET, Key="out/secret", VersionId=version["VersionId"])
    assert bring_back(account, BUCKET, at=AT, until=NOW) == {}
    assert texts(s3) == {}


def seen(minutes, *, is_marker=False):
    return Seen(key="k", version=f"v{minutes}", at=later(minutes), is_marker=is_marker)


@pytest.mark.parametrize(
    ("versions", "change"),
    [
        ([seen(-5)], None),
        ([seen(0)], None),
        ([seen(5)], ObjectChange(key="k", deleted=("",))),
        ([seen(-5), seen(5)], ObjectChange(key="k", copied="v-5")),
        ([seen(-9), seen(-5), seen(5), seen(6)], ObjectChange(key="k", copied="v-5")),
        ([seen(-5), seen(5, is_marker=True)], ObjectChange(key="k", deleted=("v5",))),
        (
            [seen(-5), seen(5, is_marker=True), seen(6, is_marker=True)],
            ObjectChange(key="k", deleted=("v6", "v5")),
        ),
        ([seen(-5), seen(5), seen(6, is_marker=True)], ObjectChange(key="k", copied="v-5")),
        ([seen(-9), seen(-5, is_marker=True), seen(5)], ObjectChange(key="k", deleted=("",))),
        ([seen(5), seen(6, is_marker=True)], None),
        ([seen(-5), seen(5), seen(61)], None),
    ],
)
def test_an_object_gets_back_the_version_that_it_had_then(versions, change):
    assert plan_change(versions, at=AT, until=later(60)) == change


@pytest.fixture
def stage(context, account, bootstrapped, bucket, programs):
    """Return a desk with a deployed stage, whose clients are those of `account`."""
    programs.outputs["stepline-dev-state"] = {
        **OUTPUTS,
        "TableName": TARGET,
        "WebSocketUrl": "wss://far/live",
    }
    save_deployment(context.home, Deployment(stage="dev", account=ACCOUNT_ID, region=REGION, outputs=OUTPUTS))
    put(bucket(10), out_lost="lost")
    return replace(context, open_account=lambda _profile, _region: account)


def test_a_stage_is_restored_settled_cleaned_and_deployed_on_the_new_table(
    stage, account, programs, prompts, clock
):
    with recorded(account) as stub:
        backed_up(stub)
        asked_for(stub)
        described(stub, "ACTIVE")
        settled(stub)
        deployment, code = restore_deployment(order(smoke=False), "2026-11-26T07:00:00Z", "", stage, clock)
    assert code == 0
    assert f'table_name = "{TARGET}"' in choices_file(stage.project, "dev").read_text()
    assert load_deployment(stage.home, "dev") == deployment
    steps = [verb for verb in programs.verbs if verb in ("erasures", "synth", "deploy")]
    assert steps == ["erasures", "synth", "deploy", "erasures"]
    assert programs.said("erasures").endswith(f"erasures apply --table {TARGET} --bucket {BUCKET}")
    assert f"--context table_name={TARGET}" in programs.said("synth")
    assert texts(account.client("s3")) == {}
    assert (
        prompts.lines[-1]
        == f"the stage is restored to 2026-11-26T07:00:00Z; {SOURCE} is kept until you delete it"
    )


def test_a_stage_is_not_deployed_on_a_table_in_which_something_deleted_is_back(
    stage, account, programs, clock
):
    programs.failing.add("erasures")
    with recorded(account) as stub:
        backed_up(stub)
        asked_for(stub)
        described(stub, "ACTIVE")
        settled(stub)
        with pytest.raises(DependencyError, match="stepline erasures apply"):
            restore_deployment(order(smoke=False), "2026-11-26T07:00:00Z", "", stage, clock)
    assert "deploy" not in programs.verbs
    assert not choices_file(stage.project, "dev").exists()


def test_the_answer_no_restores_nothing(stage, account, programs, prompts, clock):
    prompts.answers = [False]
    with recorded(account) as stub:
        backed_up(stub)
        assert "nothing was restored" in str(refused(restore_deployment, order(), "", "", stage, clock))
    assert programs.verbs == []
    assert texts(account.client("s3")) == {"out/lost": "lost"}


def test_another_table_of_the_stage_can_be_the_source(stage, account, prompts, clock):
    prompts.answers = [False]
    with recorded(account) as stub:
        stub.add_client_error(
            "describe_continuous_backups", "TableNotFoundException", expected_params={"TableName": "own"}
        )
        assert "cannot be restored" in str(refused(restore_deployment, order(), "", "own", stage, clock))


def test_a_stage_never_deployed_from_here_cannot_be_restored(context, account, clock):
    here = replace(context, open_account=lambda _profile, _region: account)
    assert refused(restore_deployment, order(), "", "", here, clock).reason == "cloud_account"


def test_the_same_time_has_the_same_table():
    assert name_table("dev", AT) == TARGET
    assert len(name_table("a" * 16, AT)) < 255
