"""The harness: clock, trace, cells, store, execution, provenance."""
