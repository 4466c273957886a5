"""What holds for all tests."""

import signal

# A shell that starts the tests in the background has them ignore interrupts, and what they start
# would inherit that. Some of it is interrupted to see what it does.
signal.signal(signal.SIGINT, signal.default_int_handler)
