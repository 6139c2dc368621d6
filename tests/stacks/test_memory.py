"""Memory in S3 Vectors: the bucket, who may do what with it, and which functions hear of it."""

import pytest

from stepline.settings import EMBEDDING_MODEL
from tests.stacks.conftest import synthesise

VARIABLE = "STEPLINE_MEMORY_BUCKET_ARN"
INDEXES = "<Memory.VectorBucketArn>/index/*"
MODEL = f"bedrock:foundation-model/{EMBEDDING_MODEL}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return synthesise(tmp_path_factory, name="prod", memory="s3_vectors")


def of_memory(synthesis):
    """The lines of every role that are about memory."""
    return {
        role: found
        for role in synthesis.roles.trusts
        if (found := [line for line in synthesis.roles.lines(role) if "s3vectors:" in line or MODEL in line])
    }


def test_the_bucket_is_encrypted_and_deleted_with_its_stage_but_kept_in_prod(bedrock, kept):
    for stage, policy in ((bedrock, "Delete"), (kept, "Retain")):
        (bucket,) = stage.entries("AWS::S3Vectors::VectorBucket").values()
        assert bucket["Properties"] == {"EncryptionConfiguration": {"SseType": "AES256"}}
        assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == (policy, policy)


def test_only_ends_and_imports_put_vectors_searches_query_the_eraser_deletes(bedrock):
    puts = [f"bedrock:InvokeModel → {MODEL}", f"s3vectors:CreateIndex s3vectors:PutVectors → {INDEXES}"]
    queries = [f"bedrock:InvokeModel → {MODEL}", f"s3vectors:GetVectors s3vectors:QueryVectors → {INDEXES}"]
    forgets = [f"s3vectors:DeleteVectors s3vectors:GetVectors s3vectors:ListVectors → {INDEXES}"]
    assert of_memory(bedrock) == {
        "EraserRole": forgets,
        **dict.fromkeys(("ApiRole", "CloseRole", "SweeperRole"), puts),
        **dict.fromkeys(("ActRole", "SearchRole"), queries),
    }


def test_the_loop_and_the_ingress_hear_of_the_bucket(bedrock):
    configured = {
        properties["Handler"].split(".")[1]
        for properties in bedrock.resources("AWS::Lambda::Function").values()
        if properties.get("Environment", {}).get("Variables", {}).get(VARIABLE)
    }
    assert configured == {*bedrock.functions} - {"authorizer"}


def test_without_the_choice_there_is_no_bucket_no_right_and_no_name_of_one(prod):
    assert not prod.resources("AWS::S3Vectors::VectorBucket")
    assert not of_memory(prod)
    assert not any(
        properties.get("Environment", {}).get("Variables", {}).get(VARIABLE)
        for properties in prod.resources("AWS::Lambda::Function").values()
    )
