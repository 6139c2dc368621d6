"""The model port for the Anthropic API, over HTTP, and for Bedrock, over the provider's SDK."""
