"""Optimisers that the schemes share."""
