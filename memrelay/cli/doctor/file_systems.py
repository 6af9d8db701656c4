"""The check of the file system of the memory root.

SQLite needs locks and shared memory that all processes see. File systems of other hosts, of other
kernels and of synchronized folders may lack them.
"""

import re
import subprocess
import sys
from pathlib import Path

from memrelay.cli.doctor import Finding, ok, warning
from memrelay.cli.settings import Settings

# Spaces and the like in /proc/self/mountinfo.
OCTAL = re.compile(r"\\([0-7]{3})")
MOUNTS = Path("/proc/self/mountinfo")
WITH_POSTGRES = "or use storage.url, so that PostgreSQL holds what several hosts share"
LOCAL_DISK = "set memory.root to a folder on a local disk"
NAMED_VOLUME = "use a named volume of Docker in place of the folder of the host"
REMEDIES = {
    "nfs": f"{LOCAL_DISK}, {WITH_POSTGRES}",
    "cifs": f"{LOCAL_DISK}, {WITH_POSTGRES}",
    "virtiofs": NAMED_VOLUME,
    "grpcfuse": NAMED_VOLUME,
    "osxfs": NAMED_VOLUME,
    "9p": "set memory.root to a folder of Linux, such as ~/memrelay, not one below /mnt/c",
    "fuse": LOCAL_DISK,
}
# Other names of the same file systems.
ALIASES = {
    "nfs4": "nfs",
    "smb3": "cifs",
    "smbfs": "cifs",
    "drvfs": "9p",
    "fakeowner": "virtiofs",
    "fuse.grpcfuse": "grpcfuse",
    "fuse.osxfs": "osxfs",
    "macfuse": "fuse",
}
# Block devices below FUSE behave as local disks.
LOCAL_FUSE = ("fuseblk",)
SYNCHRONIZED = ("Library/Mobile Documents", "Library/CloudStorage", "Dropbox", "OneDrive")


async def check_file_system(settings: Settings) -> list[Finding]:
    """Warn if the file system of the memory root may break the locks of SQLite."""
    folder = settings.memory.root.resolve()
    return [describe(folder, find_type(folder, read_mounts()))]


def describe(folder: Path, kind: str) -> Finding:
    """Return the finding for a folder on a file system of this type, "" if it is unknown."""
    place = next((one for one in SYNCHRONIZED if f"/{one}/" in f"{folder}/"), "")
    if place:
        return warning(
            "file system",
            f"{folder} lies in {place}, which copies files while they change",
            f"{LOCAL_DISK} that no program synchronizes",
        )
    base = ALIASES.get(kind, kind)
    if base.startswith("fuse") and base not in LOCAL_FUSE:
        base = "fuse"
    remedy = REMEDIES.get(base)
    if remedy is None:
        return ok("file system", f"{folder} is on {kind or 'a file system of unknown type'}")
    return warning(
        "file system",
        f'{folder} is on {kind}, whose locks may fail ("database is locked", damaged stores)',
        remedy,
    )


def read_mounts() -> list[tuple[Path, str]]:
    """Return the mount points of this machine with their types, or [] if they are unknown."""
    try:
        if sys.platform == "darwin":
            return parse_mount_command(subprocess.check_output(["/sbin/mount"], text=True))
        return parse_mountinfo(MOUNTS.read_text(errors="surrogateescape"))
    except (OSError, subprocess.SubprocessError):
        return []


def parse_mountinfo(text: str) -> list[tuple[Path, str]]:
    """Return the mount points with their types, from the text of /proc/self/mountinfo."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) >= 5 and kinds[0]:
            point = OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[4])
            mounts.append((Path(point), kinds[0]))
    return mounts


def parse_mount_command(text: str) -> list[tuple[Path, str]]:
    """Return the mount points with their types, from `DEVICE on POINT (TYPE, OPTIONS)` lines."""
    mounts = []
    for line in text.splitlines():
        point, _, options = line.partition(" on ")[2].rpartition(" (")
        if point:
            mounts.append((Path(point), options.rstrip(")").partition(",")[0]))
    return mounts


def find_type(folder: Path, mounts: list[tuple[Path, str]]) -> str:
    """Return the type of the innermost mount that contains the folder, or ""."""
    containing = [
        (len(point.parts), number, kind)
        for number, (point, kind) in enumerate(mounts)
        if folder.is_relative_to(point)
    ]
    return max(containing)[2] if containing else ""
