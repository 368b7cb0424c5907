"""What a bench leaves behind outside its own folder, and how it goes."""

import os
import shutil
from pathlib import Path


def forget_cluster(home: Path) -> None:
    """Remove the embedded database's cluster, which lies outside the home when we are root."""
    home_id = home / "home_id"
    if os.geteuid() == 0 and home_id.is_file():
        cluster = Path("/var/lib/farhand") / home_id.read_text().strip()
        shutil.rmtree(cluster, ignore_errors=True)
