"""`python -m trilemma`."""

from trilemma.cli import main

if __name__ == "__main__":
    main()
