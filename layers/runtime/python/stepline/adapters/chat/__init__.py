"""The chat completions protocol, which OpenAI and many servers of other models speak."""
