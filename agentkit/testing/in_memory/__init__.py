"""The parts of ``InMemoryEngine``: a disk, a tiny shell, processes, ports, and the machine that has them."""
