"""`python -m omni_migrate`, for when the console script is not on PATH."""

from omni_migrate.cli import main

if __name__ == "__main__":
    main()
