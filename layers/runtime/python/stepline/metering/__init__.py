"""The cost and the trace of model calls: the ledger of an invocation, metered models, spans and their attributes."""
