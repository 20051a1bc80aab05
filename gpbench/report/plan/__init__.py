"""A plan's stored cells beside what the paper prints and claims."""
