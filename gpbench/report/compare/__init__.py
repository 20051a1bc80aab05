"""Methods compared over the splits that they share."""
