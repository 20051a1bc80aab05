"""Tables, curves and pictures made from stored cells; nothing here runs a scheme."""
