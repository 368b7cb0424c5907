"""Print the OpenAPI document of the API, or write the copy from which the page's client is made.

    python scripts/openapi.py            print it
    python scripts/openapi.py --write    write control_plane/dashboard/openapi.json

Needs an environment with the project installed, and no database: the routes alone are looked at.
The same sources give the same bytes; tests/packaging fails while the committed copy is another.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import cast

from farhand_control_plane.api.document import document
from farhand_control_plane.api.services import Services
from farhand_control_plane.app import create_api

COPY = Path(__file__).resolve().parent.parent / "control_plane" / "dashboard" / "openapi.json"


def text() -> str:
    """Return the document as the committed copy holds it."""
    # Services are what a request is answered with; describing the routes touches none of them.
    api = create_api(cast(Services, None))
    return json.dumps(document(api), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Print or write the OpenAPI document.")
    parser.add_argument("--write", action="store_true", help=f"write {COPY.name}, if it differs")
    if not parser.parse_args().write:
        sys.stdout.write(text())
        return
    wanted = text()
    if not COPY.exists() or COPY.read_text(encoding="utf-8") != wanted:
        COPY.parent.mkdir(parents=True, exist_ok=True)
        COPY.write_text(wanted, encoding="utf-8")
        print(f"{COPY} is new", file=sys.stderr)


if __name__ == "__main__":
    main()
