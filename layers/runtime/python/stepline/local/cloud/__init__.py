"""Deploy, check and destroy stages in an AWS account. The local stage is not part of it."""
