from bills.money import euros


def test_whole_euros():
    assert euros(500) == "5.00 €"


def test_few_cents():
    assert euros(1205) == "12.05 €"
