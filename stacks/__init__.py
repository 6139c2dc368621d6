"""The CDK app: one module per stack or construct."""
