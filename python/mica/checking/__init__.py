"""The stance "check": eager beside each hit, compared."""
