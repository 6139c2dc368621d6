"""The interfaces of the loop to the outside: Protocols only.

Every adapter of one port passes one contract suite.
"""
