"""The web: search engines by their APIs, and pages behind a guard of addresses."""
