# Every target installs what it needs into .venv first; nothing but Python and make is assumed.
# ARGS is passed on:   make demo ARGS="--set training.steps=200"
# PYTHON names the interpreter to make .venv with:   make venv PYTHON=/opt/python3.10/bin/python
.DEFAULT_GOAL := help
.PHONY: help venv demo test lint format smoke bench lock clean scaling invariance crashes responses

BIN := .venv/bin

help: ## Show this help
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

venv: ## Make or update .venv from the committed lock
	@PYTHON="$(PYTHON)" tools/bootstrap.sh

demo: venv ## Run the whole pipeline on scikit-learn's handwritten digits
	@$(BIN)/tfx-wgan run digits $(ARGS)

test: venv ## Run the tests, two files at a time
	@$(BIN)/pytest --numprocesses 2 --dist loadfile $(ARGS)

lint: venv ## Check style, formatting and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: venv ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

smoke: venv ## Run the pipeline end to end in a few training steps, in a temporary folder
	@root=$$(mktemp -d) && trap 'rm -rf "$$root"' EXIT && \
	$(BIN)/tfx-wgan run digits --root "$$root" --json --set training.steps=20 \
	    --set evaluation.gate.relative_frechet_distance.bound=1e9 \
	    --set evaluation.gate.coverage.bound=null --set evaluation.gate.diversity.bound=null $(ARGS)

bench: venv ## Run the benchmarks
	@$(BIN)/python benchmarks/run.py $(ARGS)

scaling: venv ## Show on two replicas what each way of scaling the loss gives (docs/replicas.md)
	@$(BIN)/python -m tools.scaling_example 2>/dev/null

invariance: venv ## Show that training is the same on any number of replicas and workers
	@$(BIN)/python tools/invariance.py $(ARGS)

crashes: venv ## Show that training ends the same after any number of kills
	@$(BIN)/python tools/crashes.py $(ARGS)

lock: venv ## Resolve locks/ anew from setup.py, keeping pins that still fit (ARGS=--upgrade: the latest)
	@$(BIN)/uv pip compile --quiet --python-version 3.10 \
	    --python-platform x86_64-manylinux_2_28 --extra test --extra dev --no-emit-index-url \
	    --custom-compile-command "make lock" --output-file locks/tfx-1.16-py310.txt setup.py $(ARGS)

responses: venv ## Show how every metric answers to images made worse on purpose (docs/metrics.md)
	@$(BIN)/python -m tools.metric_responses $(ARGS)

clean: ## Remove .venv, caches and build folders (not runs/)
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
