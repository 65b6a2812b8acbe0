# What a reader types. Each line calls one program; what these programs do stands in tools/.

PYTHON := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python
PORT := 8000

.PHONY: help book install test test-weekly lab serve refresh lock clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

book: ## build the HTML from the stored outputs, into _build/html (needs Python alone; no PyTorch)
	@sh tools/venv.sh
	@$(PYTHON) tools/install.py site
	@$(PYTHON) tools/gate.py book

install: ## install the package, PyTorch, JupyterLab and the test tools into .venv
	@sh tools/venv.sh
	@$(PYTHON) tools/install.py all

test: install ## run everything that CI runs
	@$(PYTHON) tools/gate.py

test-weekly: install ## run what takes too long for every commit: slow tests, and the pages under another hash seed
	@$(PYTHON) tools/gate.py weekly

lab: install ## open the pages in JupyterLab
	@$(PYTHON) -m jupyterlab book

serve: ## serve the built book on this machine alone
	@$(PYTHON) -u -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

refresh: install ## run all pages again and store their outputs
	@$(PYTHON) tools/notebooks.py run

# One version of every package for every system and Python, with the PyTorch whose numbers the stored outputs show.
# Without the CUDA packages: they follow from PyTorch's own version, and its CPU build has none of them.
lock: install ## resolve pyproject.toml anew and write requirements.lock
	@$(PYTHON) -m pip install --quiet uv
	@echo torch==2.13.0 | $(PYTHON) -m uv pip compile --quiet --constraint - pyproject.toml --all-extras --universal \
		--python-version 3.11 --no-emit-package annotated-attention --no-annotate --custom-compile-command "make lock" | \
		grep -Ev '^(cuda|nvidia|triton)' > .venv/requirements.lock
	@mv .venv/requirements.lock requirements.lock

clean: ## remove what builds and tests leave behind; .venv stays
	@rm -rf _build build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
