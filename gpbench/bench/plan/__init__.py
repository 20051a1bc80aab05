"""Plans: TOML files that name data sets, methods, a split protocol and a rendering."""
