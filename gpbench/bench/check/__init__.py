"""What every scheme must hold, tried on generated data: ``gpbench check METHOD``."""
