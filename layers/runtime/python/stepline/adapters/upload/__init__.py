"""What judges uploads: a process for parsers, and scanners for malware."""
