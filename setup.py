"""Packaging of tfx-wgan: three import packages, one command."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

#: What the code imports itself, with the bounds it was written against. TFX pins its own family
#: (tensorflow-transform, -data-validation, -model-analysis, ml-metadata, tfx-bsl) and is left to.
#: Exact versions are in locks/, and `make lock` makes them from here.
INSTALL_REQUIRES = [
    "tfx>=1.16,<1.17",
    "tensorflow>=2.16.2,<2.17",
    "tf-keras>=2.16,<2.17",
    "apache-beam>=2.50,<3",
    "kfp>=2.5,<2.6",
    "click>=8.1,<9",
    "dill>=0.3.7",  # tfx-bsl imports it, Beam no longer brings it
    "filelock>=3.12,<5",
    "jinja2>=3.1,<4",
    "keras-tuner>=1.4,<2",
    "matplotlib>=3.7,<4",
    "numpy>=1.24,<2",
    "packaging>=22",
    "pillow>=10",
    "pydantic>=2.5,<3",
    "pyyaml>=6,<7",
    "scikit-learn>=1.3,<2",
    "scipy>=1.10,<2",
    "setuptools>=64,<81",  # tensorflow-hub imports pkg_resources, gone from newer ones
    "tenacity>=8.2,<10",
    "tqdm>=4.64,<5",
]

EXTRAS = {
    "test": ["prdc>=0.2", "pytest>=8", "pytest-xdist>=3.5"],
    "dev": [
        "mypy>=1.11",
        "pip>=24",  # installs the environment, and TFX's module_file calls it
        "pre-commit>=3.5",
        "ruff>=0.9",
        "types-PyYAML",
        "types-tqdm",
        "uv>=0.4",  # resolves the lock; nothing is installed with it
        "wheel>=0.40",
    ],
}

setup(
    name="tfx-wgan",
    version="0.1.0",
    description="A TFX pipeline that turns a folder of images into a served image generator",
    python_requires=">=3.10,<3.11",
    packages=find_packages(
        include=[
            f"{name}{rest}" for name in ("pipeline", "components", "trainer") for rest in ("", ".*")
        ]
    ),
    package_data={
        "pipeline": ["presets/*.yaml"],
        "components.run_report": ["*.html"],
    },
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["tfx-wgan = pipeline.cli:main"]},
    classifiers=[
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
    ],
)
