"""Traces over OpenTelemetry, whose packages are loaded with the first span."""
