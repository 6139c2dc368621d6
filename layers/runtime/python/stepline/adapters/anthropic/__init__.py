"""The model port over the `anthropic` SDK, for the Anthropic API and Bedrock."""
