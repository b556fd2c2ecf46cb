"""Files and directories between this machine and a sandbox."""
