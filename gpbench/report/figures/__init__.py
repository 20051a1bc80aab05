"""Pictures of stored cells."""
