"""How fast and how lean lucid_mini is, beside plain NumPy and beside other frameworks.

    python -m benchmarks                                  everything; writes benchmarks/results.json
    python -m benchmarks chain own_function --reps 15     some of it; writes only where --out says
    python -m benchmarks --page docs/benchmarks.md        the page of results.json; measures nothing
    python -m benchmarks.facts                            what is a matter of yes or no

Every figure is a ratio within one run: absolute times differ from machine to machine. The floor is
the same arithmetic in plain NumPy with a backward written by hand. Frameworks take turns, with one
BLAS thread, in processor time; what is printed is the median with the quartiles. Before anything is
timed, every framework has to give the floor's gradients.

- `frameworks/`: one small adapter a framework. What is not installed is named and left out.
- `workloads/`: one module a workload.
- `measure.py`, `goals.py`: turns and quartiles; what lucid_mini has to reach.
- `facts.py`: how the frameworks behave.
- `report.py`, `page.py`, `command.py`: the tables, the page, the command line.

`results.json` is one object:

- `machine`: `cpu`, `cores`, `os`, `blas`, `blas_threads`.
- `versions`: of `python`, `numpy`, and of every framework that took part.
- `missing`: framework -> why it was left out.
- `reps`: how often each step was measured. `tiny`: whether the sizes were those of the tests.
- `facts`: fact -> framework -> what came of it; empty unless all workloads ran.
- `workloads`: name -> `title`, and `rows`, each with `case`, `framework`, `unit`, `median`,
  `lower`, `upper` (the quartiles), `ratio`, `ratio_lower`, `ratio_upper` (to the floor, or null),
  and `note`, which says what came instead where there is no figure.
"""
