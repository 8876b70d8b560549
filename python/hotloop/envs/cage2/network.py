"""Names and numbers of the scenario, as the challenge has them."""

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
