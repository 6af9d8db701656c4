#!/bin/sh
# Run the container's entry point as in its container: user 10001, a read-only root file system, and
# a volume (a file system in memory) at $DATA. Run it with `unshare --mount --propagation private`.
#
#   container.sh DATA SIZE ENTRYPOINT COMMAND...
set -eu
data=$1 size=$2
shift 2
mount -t tmpfs -o "size=$size,mode=700,uid=10001,gid=10001" tmpfs "$data"
awk '{print $5}' /proc/self/mountinfo | while read -r point; do
    case $point in
    "$data" | /proc* | /dev* | /sys*) ;;
    *) mount -o remount,bind,ro "$point" ;;
    esac
done
cd "$data"
# The checkout of a test may lie in a private folder, so the user may read and search any folder.
may='-all,+dac_read_search'
exec setpriv --reuid 10001 --regid 10001 --clear-groups \
    --inh-caps=$may --ambient-caps=$may --bounding-set=$may "$@"
