"""`farhand`, and `python -m farhand_control_plane`."""

import sys

from farhand_control_plane.cli.main import main as _main


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(_main())


if __name__ == "__main__":
    main()
