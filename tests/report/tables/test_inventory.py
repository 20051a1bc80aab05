"""Plans as they are listed; tests/cli/test_list.py has the rest."""

from importlib import import_module

from gpbench.bench.plan.read import PAPERS
from gpbench.report.tables.inventory import plan_facts, plan_table


def test_a_plan_that_needs_an_extra_is_listed_and_says_so(monkeypatch):
    def without_polyagamma(name):
        if name == "gpbench.schemes.gibbs":
            raise ModuleNotFoundError("No module named 'polyagamma'", name="polyagamma")
        return import_module(name)

    monkeypatch.setattr("gpbench.bench.method.import_module", without_polyagamma)
    facts, problems = plan_facts(PAPERS)
    found = {each["id"]: each for each in facts}
    assert found["wenzel2019/fig1"]["needs"] == "gibbs"
    assert "gibbs" in found["wenzel2019/fig1"]["methods"]
    assert not any("wenzel2019/fig1:" in problem for problem in problems)
    (line,) = [line for line in plan_table([found["wenzel2019/fig1"]]) if "fig1" in line]
    assert line.endswith('(pip install "gpbench[gibbs]" first)')
    assert line.split()[3:5] == ["?", "?"]
