"""The tree of errors in the docstring of gpbench.errors is the one that the classes make."""

import pkgutil
import re
from importlib import import_module

import gpbench
from gpbench import errors
from gpbench.errors import GpbenchError

_LINE = re.compile(r"    (?P<indent>[| ]*)(?:\|--|`--) (?P<name>\w+) +(?P<code>\d)   (?:(?P<module>[a-z_.]+): )?\S")


def _drawn():
    """name -> (parent, exit code, module), as the docstring draws it."""
    above, found = ["GpbenchError"], {}
    for line in errors.__doc__.splitlines():
        if (said := _LINE.match(line)) is not None:
            depth = len(said["indent"]) // 4
            del above[depth + 1 :]
            found[said["name"]] = (above[depth], int(said["code"]), f"gpbench.{said['module'] or 'errors'}")
            above.append(said["name"])
    return found


def _classes(kind):
    """Each class below one, with the same."""
    for each in kind.__subclasses__():
        if each.__module__.split(".")[0] == "gpbench":  # tests and plug-ins have errors of their own
            yield each.__name__, (kind.__name__, each.exit_code, each.__module__)
            yield from _classes(each)


def test_every_error_is_drawn_where_it_stands():
    for module in pkgutil.walk_packages(gpbench.__path__, "gpbench."):
        if not module.name.startswith("gpbench.peers.children."):  # they need the rivals' libraries
            import_module(module.name)
    assert _drawn() == dict(_classes(GpbenchError))
