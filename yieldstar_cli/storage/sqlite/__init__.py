"""The storage contract on one SQLite file: the only room that knows apsw."""
