"""A model server for a machine without a model: speaks the Anthropic Messages API, is no AI, and says so.

`scenarios` is the table of supported requests, `policy` chooses the next round, `reading` parses rendered timelines,
`cache` accounts for tokens by the provider's published rules, `fault` misbehaves on request, `server` combines them.
See docs/reference/scripted-model.md.
"""
