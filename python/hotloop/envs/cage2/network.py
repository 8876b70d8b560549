"""Names and sizes of the challenge's scenario."""

from typing import Final

HOSTS: Final = (
    "Defender",
    "Enterprise0",
    "Enterprise1",
    "Enterprise2",
    "Op_Host0",
    "Op_Host1",
    "Op_Host2",
    "Op_Server0",
    "User0",
    "User1",
    "User2",
    "User3",
    "User4",
)
RED_AGENTS: Final = ("b-line", "meander", "sleep")
RED_ACTIONS: Final = ("Sleep", "Sweep", "Scan", "Exploit", "Escalate", "Impact")
SUBNETS: Final = ("User", "Enterprise", "Operational")
DECOYS: Final = ("Apache", "Femitter", "HarakaSMPT", "Smss", "SSHD", "Svchost", "Tomcat", "Vsftpd")

BITS: Final = 52
FULL_ACTIONS: Final = 145
COMPACT_ACTIONS: Final = 53


def blue_action_name(action: int, space: str = "full") -> str:
    """Return the name of an action of the full or compact space.

    >>> blue_action_name(139)
    'Restore Op_Server0'
    >>> blue_action_name(40, "compact")
    'Decoy Defender'
    """
    idle: tuple[str, ...] = ("Sleep", "Monitor")
    kinds: tuple[str, ...] = ("Analyse", "Remove", *(f"Decoy{decoy}" for decoy in DECOYS), "Restore")
    if space == "compact":
        idle, kinds = ("Sleep",), ("Analyse", "Remove", "Restore", "Decoy")
    if action < len(idle):
        return idle[action]
    kind, host = divmod(action - len(idle), len(HOSTS))
    return f"{kinds[kind]} {HOSTS[host]}"


def red_agent_name(red: object) -> str:
    """Return the env's name of a red agent, given that name, or the simulator's class or its name.

    >>> red_agent_name("B_lineAgent")
    'b-line'
    """
    name = red if isinstance(red, str) else getattr(red, "__name__", None)
    classes = dict(zip(("B_lineAgent", "RedMeanderAgent", "SleepAgent"), RED_AGENTS, strict=True))
    if name in RED_AGENTS:
        return str(name)
    if name not in classes:
        known = ", ".join([*RED_AGENTS, *classes])
        raise ValueError(f"there is no red agent {red!r}: expected one of {known}")
    return classes[str(name)]
