from bills.split import shares


def test_shares_are_even():
    assert shares(900, 3) == [300, 300, 300]


def test_no_cent_is_lost():
    assert sum(shares(10_000, 3)) == 10_000
