"""The web: search engines by their APIs, and pages fetched through an address guard."""
