"""Stepline: a serverless runtime for one timeline-first ReAct agent."""
