"""Start the executor by its path: `python -I -B …/executor/__main__.py`, the payload on standard input."""

import os
import sys

if __name__ == "__main__":
    # Isolated mode puts none of our folders on the path, and the program's own imports must not find one there.
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib costs 4 ms
    sys.path.insert(0, home)
    from executor.main import main  # type: ignore[import-not-found] # found by the path set above

    sys.path.remove(home)
    main()
