"""Scripts that a rival's own interpreter runs: they import nothing of gpbench but one another, as files of a folder."""
