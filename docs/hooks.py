"""Steps of `mkdocs build` that Markdown alone cannot do; mkdocs.yml names this file.

The pages are written so that they read well in the repository too: they link to the committed results
under `experiments/results/`, and the notebooks are notebooks. Here those files become part of the site.
"""

import json
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results"


def on_files(files, config):
    """Adds the figures and results to the site, and a page for each notebook."""
    for path in sorted(RESULTS.rglob("*")):
        if path.suffix in {".png", ".json"}:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=notebook_page(notebook)))
    return files


def on_page_markdown(markdown, **_):
    """Turns links out of `docs/` into links to the copies that `on_files` made."""
    return re.sub(r"\]\(\.\./(experiments/results/)", r"](\1", markdown)


def notebook_page(notebook):
    """The Markdown of a notebook: its text, its programs, and what they printed and drew."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            printed = output.get("text", data.get("text/plain", []))
            if "image/png" in data:
                image = "".join(data["image/png"]).replace("\n", "")
                parts.append(f"![](data:image/png;base64,{image})")
            elif printed:
                parts.append(f"```text\n{''.join(printed).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
