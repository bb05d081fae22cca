"""`python -m trilemma`."""

from trilemma.cli.main import main

if __name__ == "__main__":
    main()
