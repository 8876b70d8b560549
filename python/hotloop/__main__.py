"""`python -m hotloop` is the command `hotloop`."""

from hotloop.cli import main

# Worker processes import this module again.
if __name__ == "__main__":
    main()
