#!/usr/bin/env bash
# The unit tests on every supported Python that is there, then with the oldest supported versions of everything.
#
# Each gets an environment of its own (several gigabytes with torch's own wheels), which is removed after its run.
#   PYTHONS      versions to run, "3.10 3.11 3.12 3.13 oldest" by default; "oldest" is Python 3.10 with constraints/oldest.txt
#   ENVS         where the environments go, .venv/all by default
#   PYTEST_ARGS  more for pytest, such as "-n 4"
set -uo pipefail
cd "$(dirname "$0")/.."
ENVS="${ENVS:-.venv/all}"
unset PYTHONPATH
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

interpreter() { # VERSION: the path of that Python, or nothing
  local found
  for found in "$(command -v "python$1")" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    if [ -x "$found" ] && "$found" -c 'import venv' 2>/dev/null; then echo "$found"; return; fi
  done
}

install() { # PYTHON ENVIRONMENT ARGUMENTS...: with uv where it is there, which is quicker
  local python="$1" env="$2"
  shift 2
  rm -rf "$env"
  if command -v uv >/dev/null; then
    uv venv --quiet --python "$python" "$env" && uv pip install --quiet --python "$env/bin/python" "$@"
  else
    "$python" -m venv "$env" && "$env/bin/python" -m pip install --quiet "$@"
  fi
}

failed=0
results=()
for name in ${PYTHONS:-3.10 3.11 3.12 3.13 oldest}; do
  version="$name"
  constraints=()
  if [ "$name" = oldest ]; then
    version=3.10
    constraints=(--constraint constraints/oldest.txt)
  fi
  python="$(interpreter "$version")"
  if [ -z "$python" ]; then
    results+=("$name: Python $version is not on this machine")
    continue
  fi
  env="$ENVS/$name"
  if install "$python" "$env" "${constraints[@]}" ".[test]"; then
    versions="$("$env/bin/python" -c 'import platform, torch; print("Python", platform.python_version(), "torch", torch.__version__)')"
    echo "== $name: $versions"
    "$env/bin/python" -m pytest tests -q -p no:cacheprovider -m "not slow and not data and not browser and not dist" \
      ${PYTEST_ARGS:-} 2>&1 | tee "$ENVS/$name.log"
    [ "${PIPESTATUS[0]}" = 0 ] || failed=1
    results+=("$name: $versions: $(tail -n 1 "$ENVS/$name.log")")
  else
    failed=1
    results+=("$name: cannot be installed")
  fi
  rm -rf "$env"
done
printf '%s\n' "${results[@]}"
exit "$failed"
