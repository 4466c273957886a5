"""Clients of key-value servers."""
