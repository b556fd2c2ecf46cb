"""Where agents' rows live: the protocol, the SQLite engine, and one agent's door to its rows."""
