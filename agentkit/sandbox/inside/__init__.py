"""What runs inside a sandbox, as its user: the runner's modules (standard library, Python 3.8) and the watchdog."""
