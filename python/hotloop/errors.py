"""Exceptions that users of the package may want to catch. Modules import them from here."""


class ConfigError(ValueError):
    """A config that cannot be used; the message names the key and suggests a fix."""
