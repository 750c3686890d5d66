"""The `ys` command: one file for each verb, and what the verbs share."""
