"""Agents as bundles: instructions, tools, and the settings a deployment may override."""
