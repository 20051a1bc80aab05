"""Rivals from other libraries, each in an environment and a process of its own, under gpbench's clock and splits."""
