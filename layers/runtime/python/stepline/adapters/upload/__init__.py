"""Uploads: quarantine and its rows, a process for parsers, and scanners for malware."""
