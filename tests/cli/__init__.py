"""The command line, in this process and in real ones."""
