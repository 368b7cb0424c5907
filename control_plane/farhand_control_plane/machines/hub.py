"""The links that this replica holds, by machine."""

from farhand_shared.ids import MachineId


class Hub:
    """Which machines are reachable from here, in memory; the database says who holds the others."""

    def held(self) -> tuple[MachineId, ...]:
        """Return the machines whose link is here."""
        raise NotImplementedError
