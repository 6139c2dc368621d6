"""Agents as bundles: instructions, tools and what a deployment may choose about them."""
