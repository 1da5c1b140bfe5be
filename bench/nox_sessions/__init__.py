"""What noxfile.py rests on: which stacks there are, what its sessions are asked for, in which versions a night is installed.

Imported where nox runs and Wingspan is not installed, and on Windows, to say that it is not for Windows: so nothing in here needs
more than the standard library and `packaging`, which nox brings along.
"""
