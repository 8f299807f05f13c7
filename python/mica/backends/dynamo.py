"""The backend of `torch.compile(model, backend="mica")`.

Dynamo sees the user's Python and guards it; AOTAutograd makes of each of its
graphs one without autograd, for inference, or a forward and a backward one.
Each of those is a program for `mica.compile`: recorded at its first run, run
natively afterwards. A shape that Dynamo lets pass as a variable makes a
further record.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule

from mica.compile import compile as _compile
from mica.explain import explain

if TYPE_CHECKING:
    from mica.explain import Explanation

_Graph = Callable[..., Any]

# Those that still exist, in the order in which they were made.
_compiled: list[weakref.ref[_Compiled]] = []


class _Compiled:
    """One graph without autograd; called with its inputs, one by one."""

    def __init__(self, graph: _Graph, frozen: bool, fullgraph: bool) -> None:
        self._graph = _without_autograd(graph)
        self._frozen = frozen
        self._fullgraph = fullgraph
        self._weights: dict[int, torch.Tensor] = {}
        self._others: list[int] = []
        self._with_weights: _Graph | None = None
        self._any_weights: _Graph | None = None
        _compiled[:] = [ref for ref in _compiled if ref() is not None]
        _compiled.append(weakref.ref(self))

    def __call__(self, *inputs: Any) -> Any:
        # Whoever set a mode wants to see each operator, as AOTAutograd does at
        # a graph's first run.
        if torch._C._len_torch_dispatch_stack() > 0:
            return self._graph(*inputs)
        if self._with_weights is None:
            self._take_weights(inputs)
        weights = self._weights
        for index in weights:
            if inputs[index] is not weights[index]:
                return self._call_another_model(inputs)
        assert self._with_weights is not None
        return self._with_weights(*[inputs[index] for index in self._others])

    def explanations(self) -> list[Explanation]:
        """What capture made of it."""
        parts = (self._with_weights, self._any_weights)
        return [explain(part) for part in parts if part is not None]

    def _take_weights(self, inputs: Sequence[Any]) -> None:
        """Makes the inputs that Dynamo knows for a model's state its own."""
        self._weights = {
            index: x for index, x in enumerate(inputs) if _is_weight(x)
        }
        self._others = [
            index for index in range(len(inputs)) if index not in self._weights
        ]
        graph, weights, count = self._graph, self._weights, len(inputs)

        def with_weights(*others: Any) -> Any:
            rest = list(others)
            inputs = [
                weights[i] if i in weights else rest.pop(0)
                for i in range(count)
            ]
            return graph(*inputs)

        self._with_weights = _compile(
            with_weights, frozen=self._frozen, fullgraph=self._fullgraph
        )

    def _call_another_model(self, inputs: Sequence[Any]) -> Any:
        """Runs the graph for a model of the same code with other weights."""
        if self._any_weights is None:
            self._any_weights = _compile(self._graph, fullgraph=self._fullgraph)
        # Attributes that a library set on weights are none of the graph's.
        return self._any_weights(
            *[x.detach() if _is_weight(x) else x for x in inputs]
        )


def _is_weight(x: Any) -> bool:
    return isinstance(x, torch.nn.Parameter) or hasattr(
        x, "_dynamo_static_input_type"
    )


def _code(graph: _Graph) -> _Graph:
    """The code of a graph's module: it has no hooks that would be left out.

    It would be made at the module's first run otherwise, which is watched.
    """
    if not isinstance(graph, torch.fx.GraphModule):
        return graph
    if isinstance(graph, _LazyGraphModule):
        _LazyGraphModule.force_recompile(graph)
    code: _Graph = graph.forward
    return code


def _without_autograd(graph: _Graph) -> _Graph:
    """The graph over inputs that autograd doesn't know.

    A view of a parameter counts as one that autograd follows, in no_grad mode
    too. The graph's own forward and backward are AOTAutograd's to join.
    """

    def run(*inputs: Any) -> Any:
        return graph(
            *[
                x.detach()
                if isinstance(x, torch.Tensor) and x.requires_grad
                else x
                for x in inputs
            ]
        )

    run.__qualname__ = run.__name__ = "graph"
    return run


def explanations() -> list[Explanation]:
    """Tells what became of Dynamo's graphs that this backend was given.

    Returns:
      One Explanation for each graph that still exists and has run, the oldest
      first; in training a forward and a backward one for each.
    """
    alive = [ref() for ref in list(_compiled)]
    return [
        found
        for part in alive
        if part is not None
        for found in part.explanations()
    ]


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
) -> _Graph:
    """Compiles a graph of Dynamo's, for inference or for training.

    Args:
      graph: What Dynamo captured.
      example_inputs: Its inputs at this call.
      options: Of torch.compile. `frozen`: parameters and buffers keep their
        values in inference, as for `mica.compile`; training ignores it.
        `fullgraph`: raise CaptureError where a graph of Dynamo's can't be
        captured, instead of running it eagerly.
    Returns:
      A callable with the graph's inputs and results.
    Raises:
      TypeError: An option's value is not a bool.
      ValueError: An option that there is not.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.utils import make_boxed_func

    _keep_out_of_graphs()
    chosen = {"frozen": False, "fullgraph": False}
    for name, value in (options or {}).items():
        if name not in chosen:
            raise ValueError(
                f'backend "mica": no option {name!r}, there are '
                f"{', '.join(chosen)}"
            )
        if not isinstance(value, bool):
            raise TypeError(
                f'backend "mica": {name} is True or False, got {value!r}'
            )
        chosen[name] = value

    def make(frozen: bool) -> Callable[[_Graph, Sequence[Any]], _Graph]:
        def compile_graph(part: _Graph, inputs: Sequence[Any]) -> _Graph:
            del inputs
            boxed: _Graph = make_boxed_func(
                _Compiled(_code(part), frozen, chosen["fullgraph"])
            )
            return boxed

        return compile_graph

    compiled: _Graph = aot_autograd(
        fw_compiler=make(False),
        bw_compiler=make(False),
        inference_compiler=make(chosen["frozen"]),
    )(graph, example_inputs)
    return compiled


@functools.cache
def _keep_out_of_graphs() -> None:
    """Has Dynamo pass over this package's own Python code."""
    from torch._dynamo import trace_rules

    trace_rules.add("mica")


def register() -> None:
    """Names the backend where torch won't look for it any more.

    Dynamo finds it by the package's entry point when it first looks for
    backends; if it has looked already, it has to be told.
    """
    if "torch._dynamo" in sys.modules:
        from torch._dynamo.backends import registry

        if "mica" not in registry.list_backends(exclude_tags=()):
            registry.register_backend(compiler_fn=backend, name="mica")
