"""Who pays how much."""


def shares(cents: int, people: int) -> list[int]:
    """Return what each of so many people pays; together it is exactly the bill."""
    base, rest = divmod(cents, people)
    return [base + 1] * rest + [base] * (people - rest)
