"""Steps of `mkdocs build` that Markdown alone cannot do; mkdocs.yml names this file.

The pages are written so that they also read well in the repository: they link to the committed
results under `experiments/results/`, and the notebooks are notebooks. Here those files and the
changelog become part of the site, the README its home page, and the docstrings of each package a
page.
"""

import importlib
import inspect
import json
import pathlib
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("jaxgames", "solvers", "nets", "train")


def on_files(files, config):
    """Adds the committed figures and results, a page per notebook, the home page, the changelog and
    the pages of the API."""
    for path in sorted((ROOT / "experiments" / "results").rglob("*")):
        if path.suffix in {".png", ".json"}:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        page = notebook_page(notebook)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    for name, page in (("README.md", "index.md"), ("CHANGELOG.md", "changelog.md")):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        text = text.replace("](CHANGELOG.md)", "](changelog.md)")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "CITATION.cff", abs_src_path=str(ROOT / "CITATION.cff")))
    files.append(File.generated(config, "api/index.md", content=front_door_page()))
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("__init__.py")):
            room = ".".join(path.parent.relative_to(ROOT).parts)
            page = room_page(room, path.parent)
            files.append(File.generated(config, f"api/{room}.md", content=page))
    return files


def on_page_markdown(markdown, **_):
    """Turns links out of `docs/` and to notebooks into links to the pages that `on_files` added."""
    markdown = re.sub(r"(\]\(notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)
    return re.sub(r"\]\(\.\./((?:\.\./)*experiments/results/)", r"](\1", markdown)


def on_post_page(output, page, **_):
    """Refuses a page that would load anything from another server.

    Raises:
      PluginError: a script, style sheet, font or image has an address on the web.
    """
    address = r"""(?:src|href)=["']?(?:https?:)?//"""
    loaded = re.search(rf"<(?:script|img|link)\b[^>]*{address}[^>]*>", output)
    if loaded:
        raise PluginError(f"{page.file.src_uri} loads from another server: {loaded.group(0)}")


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
    lines = ["# Front door", "", "The names that each package exports, and what each is."]
    for package in PACKAGES:
        module = importlib.import_module(package)
        lines += ["", f"## {package}", "", first_sentence(module), ""]
        lines += ["| name | what it is |", "|---|---|"]
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isclass(member) or callable(member):
                link = f"[`{name}`][{member.__module__}.{member.__qualname__}]"
                lines.append(f"| {link} | {first_sentence(member)} |")
            else:
                lines.append(f"| `{name}` | {member!r} |")
    return "\n".join(lines) + "\n"


def first_sentence(documented):
    """The first paragraph of a docstring, on one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def room_page(room, folder):
    """A page with the docstrings of a package and of its modules."""
    modules = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    parts = [f"# {room}", f"::: {room}\n    options:\n      members: false\n      heading_level: 2"]
    parts += [f"::: {room}.{module}\n    options:\n      heading_level: 2" for module in modules]
    return "\n\n".join(parts) + "\n"
