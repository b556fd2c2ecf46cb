"""A named Linux environment for code nobody trusts yet: started, used, left alone, found again (SPEC 12)."""
