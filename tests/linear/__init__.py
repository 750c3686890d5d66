"""Whether what many processes are told at once could have been told by one record at a time."""
