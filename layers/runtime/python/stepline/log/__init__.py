"""The log of a conversation: commits, fencing, state transitions, and the timelines cached from it."""
