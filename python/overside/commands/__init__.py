"""The verbs that are written in Python, one module each."""
