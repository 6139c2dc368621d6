"""The CDK app: one module a stack or construct."""
