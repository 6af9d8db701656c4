"""What a serving process asks of its runtime: a collector that leaves messages alone, an allocator
that gives memory back."""

import ctypes
import gc
import sys

# mallopt's parameters (glibc, malloc.h) and what we set: one arena for all threads, and large
# blocks returned at once.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 1024 * 1024


def settle_down() -> None:
    """To be called once, when everything is loaded.

    Messages hold no cycles, so the collector finds nothing in a batch, and costs a tenth of it at
    its defaults. glibc's
    arenas, one a thread, keep what a batch took: some 8 MB more on mixed work. A block that is
    returned costs its pages anew
    when it is taken again, so "large" is what a batch takes once, and not what each MULTI takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # not in musl
        for parameter, value in (
            (M_ARENA_MAX, 1),
            (M_TRIM_THRESHOLD, LARGE_BYTES),
            (M_MMAP_THRESHOLD, LARGE_BYTES),
        ):
            libc.mallopt(parameter, value)
        libc.malloc_trim(0)  # the holes that loading left: 1.6 MB
