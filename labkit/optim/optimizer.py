"""What all optimizers share: groups of parameters, their state, and their gradients set aside.

Source   torch/optim/optimizer.py  Optimizer
Differs  no closures, no hooks; an option a group does not know is refused
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from labkit._tensor import Tensor
from labkit.autograd import no_grad

Group = dict[str, Any]


class Optimizer:
    """Groups of parameters, each with options of its own, and what is remembered between steps.

    params     tensors, or dicts with "params" and the options of that group
    defaults   the options of a group that does not say

    param_groups   one dict per group: "params" and every option; schedulers change them
    state          parameter -> what its steps remember

    Raises   ValueError   no parameters, or one that was computed and keeps no gradient, or one that
                          is in two groups
             TypeError    something that is not a tensor
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.defaults = dict(defaults)
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        given = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: Group) -> None:
        """These parameters take steps, too.

        Raises   as the class
        """
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(each) for other in self.param_groups for each in other["params"]}
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(parameter).__name__}"
                )
            if not (parameter.is_leaf or parameter.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(parameter) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append({**self.defaults, **group, "params": params})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """No parameter has a gradient; or, where it has one, zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.detach_().zero_()

    def step(self) -> None:
        """Every parameter that has a gradient moves once."""
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, parameter.grad, self.state[parameter], group)

    def _update(self, parameter: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def state_dict(self) -> dict[str, Any]:
        """The options, and what is remembered, with numbers in the place of the parameters."""
        numbers = self._numbers()
        groups = [
            {**group, "params": [numbers[id(each)] for each in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(parameter)]: dict(kept) for parameter, kept in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """The options and the memory are those of another optimizer of the same shape.

        Raises   ValueError   other groups, or other counts of parameters
        """
        groups = state_dict["param_groups"]
        ours = [len(group["params"]) for group in self.param_groups]
        if [len(group["params"]) for group in groups] != ours:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        for group, loaded in zip(self.param_groups, groups, strict=True):
            group.update({**loaded, "params": group["params"]})
        self.state.clear()
        for group in self.param_groups:
            for parameter in group["params"]:
                kept = state_dict["state"].get(self._numbers()[id(parameter)])
                if kept is not None:
                    self.state[parameter] = {name: _copied(each) for name, each in kept.items()}

    def _numbers(self) -> dict[int, int]:
        every = [each for group in self.param_groups for each in group["params"]]
        return {id(parameter): number for number, parameter in enumerate(every)}

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def check_at_least(name: str, value: float, least: float = 0.0) -> None:
    """Pass when the option is not below its least value.

    Raises   ValueError   it is
    """
    if not value >= least:
        raise ValueError(f"Invalid {name}: {value}, must be at least {least}")
