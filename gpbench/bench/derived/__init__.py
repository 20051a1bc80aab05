"""What pictures need beyond cells: computed by steps of ``gpbench reproduce``, stored, and only read by reports."""
