"""Stages in a real AWS account: deploy, look after, destroy. The local stage has no part in it."""
