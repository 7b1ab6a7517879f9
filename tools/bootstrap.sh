#!/bin/sh
# Runs bootstrap.py with any Python that starts at all; bootstrap.py then finds the one that fits.
# A name on PATH proves nothing: pyenv's shims exist for versions that the folder does not select.
here=$(dirname "$0")
for python in "${PYTHON:-python3.10}" python3 python3.13 python3.12 python3.11 python3.10 python \
    /usr/local/bin/python3 /usr/bin/python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 \
    "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-3.*/bin/python3; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1; then
        exec "$python" "$here/bootstrap.py" "$@"
    fi
done
echo "tfx-wgan: found no Python that starts; install Python 3.10 and run this again" >&2
exit 1
