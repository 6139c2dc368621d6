"""The subjects: an adapter each, from the protocol to the documented ways of a runtime."""
