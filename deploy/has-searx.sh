#!/usr/bin/env bash
# Whether the system's Python has searx, which its test starts.
exec /usr/bin/python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("searx") is None)' 2>/dev/null
