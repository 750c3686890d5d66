"""What hostile data, files and surroundings may not do."""
