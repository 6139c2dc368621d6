"""The ports on AWS: DynamoDB, S3, Step Functions and API Gateway. Foreign errors end in `error.py`."""
