"""The programs that the commands run: the CDK and its app."""
