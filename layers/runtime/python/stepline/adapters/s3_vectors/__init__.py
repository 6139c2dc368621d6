"""The memory index over Amazon S3 Vectors, with embeddings of Amazon Bedrock."""
