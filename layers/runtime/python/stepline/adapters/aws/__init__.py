"""The ports on AWS: DynamoDB, S3, Step Functions and API Gateway. `error.py` maps AWS's errors."""
