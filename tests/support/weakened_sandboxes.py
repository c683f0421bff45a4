"""Sandboxes that are weakened on purpose: in them, a check of isolation must fail, or it checks nothing."""

from pathlib import Path

from simulation.replication.sandbox.bubblewrap import BubblewrapSandbox
from simulation.replication.sandbox.inputs import Ceiling


class WeakenedSandbox(BubblewrapSandbox):
    """A sandbox without some of bwrap's options (each with its values), with others, and with other limits."""

    def __init__(self, without=(), added=(), **limits):
        super().__init__(ceiling=Ceiling(resident_mib=10**6))
        self._without, self._added, self._limits = without, added, limits

    def run(self, command, files, read_only=None, limits=None, *arguments, **named):
        return super().run(command, files, read_only, limits._replace(**self._limits), *arguments, **named)

    def _build_arguments(self, *arguments):
        options, descriptors = super()._build_arguments(*arguments)
        for option in self._without:
            words = option.split()
            # "--seccomp *" is the option with any value.
            starts = [
                place
                for place in range(len(options))
                if all(word in ("*", there) for word, there in zip(words, options[place:], strict=False))
            ]
            assert starts, f"bwrap is not called with {option}"
            del options[starts[0] : starts[0] + len(words)]
        return [*options, *self._added], descriptors


def show_folder(folder: Path, mount: str) -> WeakenedSandbox:
    """Return a sandbox that shows a folder of the host."""
    parents = [
        option for parent in reversed(folder.parents[:-1]) for option in ("--perms", "0755", "--dir", str(parent))
    ]
    return WeakenedSandbox(["--symlink scratch /tmp", "--remount-ro /"], [*parents, mount, str(folder), str(folder)])


WITHOUT_FILTER = "--seccomp *"
MUCH = {"address_mib": 8192, "resident_mib": 8192, "work_mib": 256, "tmp_mib": 256, "file_mib": 256, "inodes": 10**6}


def weaken(number: int, folder: Path) -> WeakenedSandbox:
    """Return a sandbox in which escape `number` succeeds. `folder` holds the file of the bystander."""
    match number:
        case 1:
            return show_folder(folder, "--ro-bind")
        case 2:
            return show_folder(folder, "--bind")
        case 3:
            return WeakenedSandbox(["--unshare-net", WITHOUT_FILTER])
        case 4:
            return WeakenedSandbox(["--unshare-pid"], resident_mib=10**6, seconds=1.5)
        case 5:
            return WeakenedSandbox([WITHOUT_FILTER])
        case 6:
            return WeakenedSandbox(processes=2000, resident_mib=8192)
        case 7:
            return WeakenedSandbox([WITHOUT_FILTER], **MUCH)
        case 8:
            return WeakenedSandbox(**MUCH)
        case 9:
            return WeakenedSandbox(seconds=20, output_kib=64 * 1024)
        case _:
            return WeakenedSandbox()
