# What a reader types. Each line calls one program; what these programs do stands in tools/.

PYTHON := .venv/bin/python
PORT := 8000

.PHONY: help book install test lab serve refresh lock clean

help:
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile

book: ## build the HTML from the stored outputs, into _build/html (needs Python alone; no PyTorch)
	@sh tools/venv.sh
	@$(PYTHON) tools/install.py site
	@$(PYTHON) tools/gate.py book

install: ## install the package, PyTorch, JupyterLab and the test tools into .venv
	@sh tools/venv.sh
	@$(PYTHON) tools/install.py all

test: install ## run everything that CI runs
	@$(PYTHON) tools/gate.py

lab: install ## open the pages in JupyterLab
	@$(PYTHON) -m jupyterlab book

serve: ## serve the built book on this machine alone
	@$(PYTHON) -u -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

refresh: install ## run all pages again and store their outputs
	@$(PYTHON) tools/notebooks.py run

lock: install ## resolve pyproject.toml anew and write requirements.lock
	@$(PYTHON) -m pip install --quiet uv
	@$(PYTHON) tools/lock.py

clean: ## remove what builds and tests leave behind; .venv stays
	@rm -rf _build build dist .pytest_cache .ruff_cache .hypothesis src/*.egg-info
