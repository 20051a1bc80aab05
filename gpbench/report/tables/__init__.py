"""Tables of stored cells in every format."""
