"""Uploads: quarantine, verdicts and scanners."""
