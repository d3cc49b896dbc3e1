"""What a deployment tells of itself: metrics, traces, log lines, word to the service manager, and dead jobs to Sentry.

Nothing here is needed to run jobs. `families`, `exposition` and `measures` are metrics; `tracing` and `sentry` need their
extras and are imported by whoever asks for them."""
