"""Bedrock's Converse, one protocol for the models of all its makers."""
