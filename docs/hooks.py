"""Steps of `mkdocs build` that Markdown alone cannot do; mkdocs.yml names this file.

The pages are written so that they also read well in the repository: they link to the committed
results under `experiments/results/`, and the notebooks are notebooks. Here those files become part
of the site, and the docstrings of each package become a page.
"""

import json
import pathlib
import re

import griffe
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("jaxgames", "solvers", "nets", "train")


def on_files(files, config):
    """Adds the committed figures and results, a page per notebook and the pages of the API."""
    for path in sorted((ROOT / "experiments" / "results").rglob("*")):
        if path.suffix in {".png", ".json"}:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        page = notebook_page(notebook)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    files.append(File.generated(config, "api/index.md", content=front_door_page()))
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("__init__.py")):
            room = ".".join(path.parent.relative_to(ROOT).parts)
            page = room_page(room, path.parent)
            files.append(File.generated(config, f"api/{room}.md", content=page))
    return files


def on_page_markdown(markdown, **_):
    """Turns links out of `docs/` into links to the copies that `on_files` added."""
    return re.sub(r"\]\(\.\./((?:\.\./)*experiments/results/)", r"](\1", markdown)


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
                parts.append(f"![figure](data:image/png;base64,{image})")
            elif printed:
                parts.append(f"```text\n{''.join(printed).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def front_door_page():
    """A table per package of the names that it exports, each with its first sentence."""
    lines = ["# Front door", "", "The names that each package exports, and what each is.", ""]
    for package in PACKAGES:
        module = griffe.load(package, search_paths=[ROOT])
        lines += [f"## {package}", "", summary(module), "", "| name | what it is |", "|---|---|"]
        for name in module.exports or ():
            member = module[str(name)]
            target = member.final_target if member.is_alias else member
            is_described = target.is_class or target.is_function
            shown = f"[`{name}`][{target.path}]" if is_described else f"`{target.path}`"
            lines.append(f"| {shown} | {summary(target)} |")
        lines.append("")
    return "\n".join(lines)


def summary(documented):
    """The first sentence of a docstring, on one line."""
    text = documented.docstring.value if documented.docstring else ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def room_page(room, folder):
    """A page with the docstrings of a package and of its modules."""
    modules = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    parts = [f"# {room}", f"::: {room}\n    options:\n      members: false\n      heading_level: 2"]
    parts += [f"::: {room}.{module}\n    options:\n      heading_level: 2" for module in modules]
    return "\n\n".join(parts) + "\n"
