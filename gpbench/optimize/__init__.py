"""Optimisers and step sizes; they know vectors and nothing of models."""
