"""What this machine and this installation can do, and what is missing for each target.

Asks package metadata and the file system, and imports nothing heavy: it has to answer at once,
and also where TensorFlow or TFX is broken or absent.
"""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

DISTRIBUTION = "tfx-wgan"
PACKAGES = ("tfx", "tensorflow", "tf-keras", "apache-beam", "kfp")

#: Places of libtpu on a TPU VM whose image brings TensorFlow, besides the Python package.
LIBTPU_FILES = ("/lib/libtpu.so", "/usr/lib/libtpu.so", "/usr/local/lib/libtpu.so")


def report(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Everything doctor knows, as plain data for JSON.

    Args:
      environ: environment variables; those of this process when not given.

    Returns:
      `machine` and `versions`: what there is, by name; `missing`: for each of the targets local,
      gpu (where there is one), kubeflow, vertex and tpu, a list of lines "what -> what to do",
      empty when the target is ready.
    """
    environ = os.environ if environ is None else environ
    gpus, tpus = _gpus(), _tpus(environ)
    missing = {"local": list(_missing_for_local())}
    if gpus:
        missing["gpu"] = list(_missing_for_gpu())
    missing["kubeflow"] = list(_missing_for_kubeflow())
    missing["vertex"] = list(_missing_for_vertex(environ))
    missing["tpu"] = list(_missing_for_tpu(tpus, environ))
    tfx = _version("tfx")
    return {
        "machine": {
            "python": f"{platform.python_version()} ({sys.executable})",
            "platform": f"{platform.system()} {platform.machine()}",
            "glibc": _glibc() or "none",
            "cpus": len(os.sched_getaffinity(0)),
            "memory_gib": round(_memory_bytes() / 2**30, 1),
            "free_disk_gib": round(shutil.disk_usage(Path.cwd()).free / 2**30, 1),
            "gpus": gpus,
            "tpus": tpus,
        },
        "line": ".".join(tfx.split(".")[:2]) if tfx else None,
        "versions": {name: _version(name) for name in PACKAGES},
        "missing": missing,
    }


def problems(found: Mapping[str, Any] | None = None) -> list[str]:
    """What keeps the pipeline from running on this machine; empty when nothing does.

    Args:
      found: a `report()`; a new one when not given.
    """
    return list((found or report())["missing"]["local"])


def lines(found: Mapping[str, Any] | None = None) -> list[str]:
    """A report as a table for people, line by line.

    Args:
      found: a `report()`; a new one when not given.
    """
    found = found or report()
    rows = [(name.replace("_gib", " (GiB)"), value) for name, value in found["machine"].items()]
    rows.append(("TFX line", found["line"]))
    rows += found["versions"].items()
    table = [f"{name.replace('_', ' '):<18}{_words(value)}" for name, value in rows]
    for target, missing in found["missing"].items():
        table.append(f"{target:<18}{'missing:' if missing else 'ready'}")
        table += [f"  {line}" for line in missing]
    return table


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not installed" if value is None else str(value)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is not there
        return False


def _glibc() -> str:
    library, version = platform.libc_ver()
    return version if library == "glibc" else ""


def _memory_bytes() -> int:
    """Memory this process may use: the machine's, or its control group's when that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi"):
        try:
            said = subprocess.run(
                ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10, check=True
            )
            return [line.split(" (UUID")[0] for line in said.stdout.splitlines()]
        except (OSError, subprocess.SubprocessError):
            pass  # a driver that does not answer: the device files still tell
    return sorted(glob.glob("/dev/nvidia[0-9]*"))


def _tpus(environ: Mapping[str, str]) -> list[str]:
    devices = sorted(glob.glob("/dev/accel*"))
    if "TPU_ACCELERATOR_TYPE" in environ:  # newer TPUs are plain /dev/vfio devices
        devices += sorted(glob.glob("/dev/vfio/[0-9]*"))
    return devices + [environ[name] for name in ("TPU_NAME",) if environ.get(name)]


def _missing_for_local() -> Iterator[str]:
    """Requirements of this distribution that are not installed, or in another version."""
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield f"{DISTRIBUTION} is not installed -> make venv"
        return
    for text in requirements:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        version = _version(wanted.name)
        if version is None:
            yield f"{wanted.name} is not installed -> make venv"
        elif not wanted.specifier.contains(version, prereleases=True):
            yield f"{wanted.name} is {version}, but {wanted.specifier} is needed -> make venv"


def _missing_for_gpu() -> Iterator[str]:
    if not _version("nvidia-cudnn-cu12"):
        tensorflow = _version("tensorflow") or ""
        yield f'CUDA libraries -> pip install "tensorflow[and-cuda]=={tensorflow}"'


def _missing_for_kubeflow() -> Iterator[str]:
    if not _importable("kfp"):
        yield "the kfp package -> make venv"


def _missing_for_vertex(environ: Mapping[str, str]) -> Iterator[str]:
    yield from _missing_for_kubeflow()
    if not _importable("google.cloud.aiplatform"):
        yield "the google-cloud-aiplatform package -> make venv"
    key = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if key:
        if not Path(key).is_file():
            yield f"GOOGLE_APPLICATION_CREDENTIALS names no file: {key} -> correct or unset it"
        return
    home = environ.get("CLOUDSDK_CONFIG") or Path(environ.get("HOME", "~"), ".config/gcloud")
    if not Path(home, "application_default_credentials.json").is_file() and not _on_google_cloud():
        yield "Google Cloud credentials -> gcloud auth application-default login"


def _on_google_cloud() -> bool:
    """Whether this is a Google Cloud machine: its credentials come from the metadata server."""
    try:
        return "Google" in Path("/sys/class/dmi/id/product_name").read_text()
    except OSError:
        return False


def _missing_for_tpu(tpus: list[str], environ: Mapping[str, str]) -> Iterator[str]:
    if not tpus:
        yield "a TPU -> run on a TPU VM, or set TPU_NAME to one that is reachable"
    files = (environ.get("TPU_LIBRARY_PATH", ""), *LIBTPU_FILES)
    if not _importable("libtpu") and not any(map(os.path.isfile, files)):
        release = ".".join((_version("tensorflow") or "").split(".")[:2])
        yield (
            f"libtpu -> choose the TPU VM image with TensorFlow {release}, "
            "or set TPU_LIBRARY_PATH to its libtpu.so"
        )
