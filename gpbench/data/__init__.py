"""Data sets: catalogue, sources, formats, preparation, splits."""
