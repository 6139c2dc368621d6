"""Deploy, check and destroy stages in an AWS account. The local stage is separate."""
