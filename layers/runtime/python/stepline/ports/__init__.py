"""The loop's interfaces to external systems: Protocols only.

Every adapter of one port passes one contract suite.
"""
