"""How amounts are written."""


def euros(cents: int) -> str:
    """Return an amount as people write it, such as ``12.05 €``."""
    return f"{cents // 100}.{cents % 100:02d} €"
