"""A model server for a machine without a model: speaks the Anthropic Messages API, is no AI, and says so.

`scenarios` is the table of what can be asked of it, `policy` decides what comes next, `reading` is all it knows about
rendered timelines, `cache` accounts for tokens by the provider's published rules, `fault` misbehaves on request, `server`
joins them. See docs/reference/scripted-model.md.
"""
