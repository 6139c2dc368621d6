from aws_cdk.assertions import Match


def test_the_table_has_the_keys_and_indexes_of_the_log(prod):
    prod.templates["state"].has_resource_properties(
        "AWS::DynamoDB::GlobalTable",
        {
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
            "GlobalSecondaryIndexes": [
                Match.object_like({"IndexName": name}) for name in ("GSI1", "GSI2", "GSI3")
            ],
            "Replicas": [
                Match.object_like({"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}})
            ],
        },
    )


def test_open_lanes_are_found_by_shard_and_age(prod):
    (table,) = prod.resources("AWS::DynamoDB::GlobalTable").values()
    (lanes,) = [index for index in table["GlobalSecondaryIndexes"] if index["IndexName"] == "GSI3"]
    assert [key["AttributeName"] for key in lanes["KeySchema"]] == ["lane_shard", "lane_since"]
    assert {"AttributeName": "lane_since", "AttributeType": "S"} in table["AttributeDefinitions"]
    assert lanes["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["lane_open"]}


def test_the_bucket_is_private_and_speaks_tls(prod):
    (bucket,) = prod.resources("AWS::S3::Bucket").values()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (policy,) = prod.resources("AWS::S3::BucketPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Condition"]) == (
        "Deny",
        {"Bool": {"aws:SecureTransport": "false"}},
    )


def test_browsers_of_allowed_sites_post_files_and_get_them_and_no_others_do(prod):
    (bucket,) = prod.resources("AWS::S3::Bucket").values()
    (rule,) = bucket["CorsConfiguration"]["CorsRules"]
    assert sorted(rule["AllowedMethods"]) == ["GET", "POST"]
    assert [prod.roles.text("state", origin) for origin in rule["AllowedOrigins"]] == [
        "https://<Distribution.DomainName>",
        "https://chat.example",
    ]


def test_prod_keeps_its_data_and_local_does_not(prod, local):
    for kind in ("AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"):
        prod.templates["state"].has_resource(kind, {"DeletionPolicy": "Retain"})
        local.templates["state"].has_resource(kind, {"DeletionPolicy": "Delete"})


def test_the_local_stage_omits_features_missing_from_the_emulator(local):
    assert not local.resources("AWS::S3::BucketPolicy")
    assert not local.resources("Custom::S3AutoDeleteObjects")


def test_runs_and_segments_are_kept_for_a_month_memory_for_a_year_and_uploads_for_a_day(prod):
    (bucket,) = prod.resources("AWS::S3::Bucket").values()
    kept = {
        rule["Prefix"]: rule["ExpirationInDays"]
        for rule in bucket["LifecycleConfiguration"]["Rules"]
        if "Prefix" in rule
    }
    assert kept == {"quarantine/": 1, "exec/": 30, "seg/": 30, "mem/": 365}


def test_delete_markers_go_with_the_last_version_of_their_object(prod):
    (bucket,) = prod.resources("AWS::S3::Bucket").values()
    rules = bucket["LifecycleConfiguration"]["Rules"]
    (markers,) = [rule for rule in rules if rule.get("ExpiredObjectDeleteMarker")]
    assert "Prefix" not in markers
