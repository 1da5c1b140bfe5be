"""`python -m bench` is the console script `wingspan`."""

from bench.cli import main

if __name__ == "__main__":
    main()
