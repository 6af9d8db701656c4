"""`memrelay doctor` warns of file systems whose locks break SQLite. No mount is needed."""

from pathlib import Path

import pytest

from memrelay.cli.doctor.file_systems import (
    describe,
    find_type,
    parse_mount_command,
    parse_mountinfo,
    read_mounts,
)
from tests.support.program import Program

MOUNTINFO = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv/team\040data rw - nfs4 nas:/data rw
31 22 0:41 / /mnt/c rw,noatime - 9p C:\134 rw
32 22 0:42 / /data rw - fuse.grpcfuse grpcfuse rw
33 22 0:43 / /share rw - cifs //nas/share rw
34 22 0:44 / /data/volume rw - ext4 /dev/sdb1 rw
35 22 0:45 / /host rw - virtiofs host rw
36 22 0:46 / /cloud rw - fuse.rclone remote rw
37 22 8:17 / /usb rw - fuseblk /dev/sdc1 rw
"""
MAC_MOUNTS = """/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
//me@nas/share on /Volumes/My (share) (smbfs, nodev, nosuid, mounted by me)
"""


@pytest.mark.parametrize(
    ("folder", "kind", "level", "remedy"),
    [
        ("/srv/team data/memory", "nfs4", "warning", "storage.url"),
        ("/mnt/c/Users/me/memory", "9p", "warning", "folder of Linux"),
        ("/data/memory", "fuse.grpcfuse", "warning", "named volume"),
        ("/host/memory", "virtiofs", "warning", "named volume"),
        ("/share/memory", "cifs", "warning", "local disk"),
        ("/cloud/memory", "fuse.rclone", "warning", "local disk"),
        ("/data/volume/memory", "ext4", "ok", ""),
        ("/usb/memory", "fuseblk", "ok", ""),
        ("/database", "ext4", "ok", ""),
    ],
)
def test_the_type_of_the_innermost_mount_counts(
    folder: str, kind: str, level: str, remedy: str
) -> None:
    found = find_type(Path(folder), parse_mountinfo(MOUNTINFO))
    finding = describe(Path(folder), found)

    assert (found, finding.level) == (kind, level)
    assert remedy in finding.remedy


def test_mounts_of_a_mac_are_read() -> None:
    mounts = parse_mount_command(MAC_MOUNTS)

    assert find_type(Path("/Volumes/My (share)/memory"), mounts) == "smbfs"
    assert find_type(Path("/Users/me"), mounts) == "apfs"
    assert describe(Path("/Volumes/My (share)/memory"), "smbfs").level == "warning"


def test_a_synchronized_folder_is_reported() -> None:
    folder = Path("/Users/me/Library/Mobile Documents/com~apple~CloudDocs/memory")

    assert "synchronizes" in describe(folder, "apfs").remedy
    assert describe(Path("/home/me/Dropboxes/memory"), "ext4").level == "ok"


def test_doctor_names_the_file_system_of_this_machine() -> None:
    with Program() as program:
        lines = program.run("doctor", "--json").lines
    (finding,) = [line for line in lines if line["check"] == "file system"]

    assert read_mounts()
    assert "unknown" not in finding["text"]
