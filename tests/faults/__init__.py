"""Real processes on a real file, killed, stopped and told to end; then store and handlers' log are held side by side."""
