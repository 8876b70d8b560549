"""The command `hotloop`, also as `python -m hotloop`."""

import signal
import sys


def main() -> None:
    """Import and run the command line; Ctrl-C during the imports ends the process without a traceback."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hotloop.cli import main as run

    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    sys.exit(run())


# Worker processes import this module again.
if __name__ == "__main__":
    main()
