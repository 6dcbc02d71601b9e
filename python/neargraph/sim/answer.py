"""The comparison of this host with simulated devices, in numbers and in words.

What must not live here: the computation of these numbers (see `buying`).
"""

from dataclasses import asdict, dataclass
from typing import Any

from .chain import HERE, URING, Step, rank, where
from .glossary import constant_in_words, in_words
from .host import Host
from .room import Room
from .runs import Runs

# A simpler device with this share of the best rate is recommended.
NEARLY = 0.95
# Up to this factor between modelled and measured rate, there is no warning.
_ALIKE = 1.3
_INSIDE = {
    "cores of the SSD": "An SSD that samples in its controller cores",
    "dies of the SSD": "An SSD that samples in its flash dies",
}
_OUTSIDE = {
    "as it is": "This host's disk without a cache",
    "processor beside the SSD": "An SSD with a sampling processor beside it",
}


@dataclass
class Sensitivity:
    """The effect of one constant of a device on its gain over this host.

    Attributes:
        name: Name of the constant.
        value: Its value.
        with_half: The gain with half the value.
        with_double: The gain with double the value.
    """

    name: str
    value: float
    with_half: float
    with_double: float


@dataclass
class Answer:
    """The rates of this host and of other devices, and a recommendation.

    Attributes:
        host: The measured rates of the disk and the processor.
        room: The memory that the graph needs.
        reading: How this host's loader reads rows; see `Watched`. "modelled" if no loader ran.
        is_steady: Whether the loader's rate was steady while it was measured.
        modelled_targets_per_s: Targets/s of this host by the model, to compare with the measured
            rate in `steps`.
        steps: This host, the uncached reader, an ordinary SSD ("CC-uring": the loader's requests on
            the simulated flash), and every platform; the simplest first.
        over_cc: By platform, the ratio of its targets/s to those of the publication's baseline, CC.
        sensitive: The fastest platform, to which `sensitivities` belong.
        sensitivities: The constants with the largest effect on its gain, the largest first.
        sense_us: Microseconds in which the simulated flash senses a page, on average.
        seeds: Random seeds; `steps` has the medians, minima and maxima over them.
        runs: The run of each platform with the first seed.
    """

    host: Host
    room: Room
    reading: str
    is_steady: bool
    modelled_targets_per_s: float
    steps: list[Step]
    over_cc: dict[str, float]
    sensitive: str
    sensitivities: list[Sensitivity]
    sense_us: float
    seeds: list[int]
    runs: Runs

    def step(self, name: str) -> Step:
        """Returns the step with this name."""
        return next(step for step in self.steps if step.name == name)

    @property
    def here(self) -> Step:
        """This host."""
        return self.step(HERE)

    @property
    def speedups(self) -> dict[str, float]:
        """By step, the ratio of its targets/s to those of this host."""
        return {step.name: step.targets_per_s / self.here.targets_per_s for step in self.steps}

    @property
    def best(self) -> str:
        """The name of the fastest step that could be used, this host included."""
        return max(self._for_sale(), key=lambda step: step.targets_per_s).name

    @property
    def recommended(self) -> str:
        """The name of the simplest step with at least 95 % of the best step's rate.

        If the graph fits in this host's memory, that is this host.
        """
        return self._simplest({step.name: step.targets_per_s for step in self._for_sale()})

    @property
    def recommended_tlc(self) -> str:
        """Like `recommended`, if all simulated flash has three bits per cell."""
        return self._simplest({step.name: _with_tlc(step) for step in self._for_sale()})

    def _simplest(self, speeds: dict[str, float]) -> str:
        if self.room.fits:
            return HERE
        enough = NEARLY * max(speeds.values())
        found = [name for name, speed in speeds.items() if speed >= enough]
        return min(found, key=lambda name: rank(name) or 0)

    def stages(self) -> list[Step]:
        """This host, its loader with an ordinary SSD, and the fastest SSDs whose cores and whose
        dies sample. Stages that were not simulated are missing."""
        groups = [[s for s in self.steps if s.where == where] for where in _INSIDE]
        fastest = [max(group, key=lambda step: step.targets_per_s) for group in groups if group]
        return [self.here, self.step(URING), *fastest]

    def sentences(self) -> list[str]:
        """The sentences of `to_buy`, `gains` and `dependence`."""
        return [*self.to_buy(), *self.gains(), *self.dependence()]

    def words(self) -> str:
        """Returns the answer as a text."""
        return " ".join(self.sentences())

    def plain(self) -> dict[str, Any]:
        """Returns everything except the runs, for JSON."""
        own = {name: value for name, value in vars(self).items() if name != "runs"}
        room = {"needed_bytes": self.room.needed_bytes, "fits": self.room.fits}
        return own | {
            "steps": [asdict(step) for step in self.steps],
            "sensitivities": [asdict(one) for one in self.sensitivities],
            "room": {**asdict(self.room), **room, "fits_as": self.room.fits_as},
            "speedups": self.speedups,
            "best": self.best,
            "recommended": self.recommended,
            "recommended_tlc": self.recommended_tlc,
            "answer": self.sentences(),
        }

    def to_buy(self) -> list[str]:
        """Returns the recommendation, in sentences."""
        said = [self.room.words()]
        if self.room.fits:
            return [*said, "Buy nothing: the loader reads from memory, not from the disk."]
        return [*said, *self._choice()]

    def gains(self) -> list[str]:
        """Returns the rate of this host and the gain of each stage, in sentences."""
        said = [self._of_here()]
        before = self.here
        for step in self.stages()[1:]:
            text = f"{_in_words(step)}: {self._gain(step):.3g} times as fast as this host"
            if before is not self.here:
                ratio = step.targets_per_s / before.targets_per_s
                text += f" and {ratio:.3g} times as fast as {before.name}"
            said.append(f"{text}, bound by {in_words(step.bound_by)}.")
            before = step
        return said

    def dependence(self) -> list[str]:
        """Returns how the answer depends on the flash and on constants, in sentences."""
        said = []
        if not self.room.fits:
            fast, slow = self.step(self.best), self.step(self.recommended_tlc)
            gain = (
                f"With flash that senses a page in {self.sense_us:.3g} us, {fast.name} is "
                f"{self._gain(fast):.3g} times as fast as this host. With TLC flash, it is "
                f"{self._gain_tlc(fast):.3g} times as fast. "
            )
            said.append(f"{'' if fast.name == HERE else gain}{self._choice_tlc(slow)}")
        if self.sensitivities:
            one = self.sensitivities[0]
            said.append(
                f"The gain of {self.sensitive} is most sensitive to {constant_in_words(one.name)}. "
                f"With half the value, {self.sensitive} is {one.with_half:.3g} times as fast as "
                f"this host; with double the value, {one.with_double:.3g} times."
            )
        if self.reading == "modelled":
            said.append(
                "The rate of this host is modelled, not measured: no loader can run for this graph."
            )
        elif not self.is_steady:
            said.append(
                "The rate of this host was not steady while it was measured. Repeat the "
                "measurement for more seconds before you rely on this rate."
            )
        ratio = self.modelled_targets_per_s / self.here.targets_per_s
        if self.reading != "modelled" and not 1 / _ALIKE <= ratio <= _ALIKE:
            said.append(
                f"The model predicts {ratio:.2g} times the measured rate of this host. The gain of "
                "another SSD can be wrong by the same factor."
            )
        return said

    def _gain(self, step: Step) -> float:
        return step.targets_per_s / self.here.targets_per_s

    def _gain_tlc(self, step: Step) -> float:
        return _with_tlc(step) / self.here.targets_per_s

    def _for_sale(self) -> list[Step]:
        return [step for step in self.steps if rank(step.name) is not None]

    def _of_here(self) -> str:
        rate = f"This host: {self.here.targets_per_s:,.0f} targets/s"
        bound = f"bound by {in_words(self.here.bound_by)}"
        if self.reading == "modelled":
            return f"{rate} (modelled), {bound}."
        return f"{rate} (measured; the model predicts {self.modelled_targets_per_s:,.0f}), {bound}."

    def _choice(self) -> list[str]:
        chosen, best = self.step(self.recommended), self.step(self.best)
        if chosen.name == HERE:
            return ["Buy nothing: this host is within 5 % of the fastest simulated device."]
        text = f"Recommended: {_in_words(chosen, False)}."
        if chosen.where not in (where(HERE), where(URING)):
            text += " This is a published design, not a product."
        text += f" It is {self._gain(chosen):.3g} times as fast as this host"
        text += f", or {self._gain_tlc(chosen):.3g} times with TLC flash."
        if chosen.name != best.name:
            why = f"It is the simplest choice within 5 % of the fastest, {best.name}."
        else:
            simpler = [s for s in self._for_sale() if (rank(s.name) or 0) < (rank(best.name) or 0)]
            next_best = max(simpler, key=lambda step: step.targets_per_s)
            share = 100 * next_best.targets_per_s / best.targets_per_s
            why = (
                "It is the fastest choice. The fastest simpler choice, "
                f"{next_best.name}, reaches {share:.0f} % of its rate."
            )
        return [f"{text} {why}"]

    def _choice_tlc(self, slow: Step) -> str:
        if slow.name == self.recommended:
            return "The recommendation is the same for both kinds of flash."
        if slow.name == HERE:
            return "With TLC flash, buy nothing: this host is within 5 % of the fastest device."
        return (
            f"With TLC flash, the recommendation is {slow.name}, the simplest choice within 5 % of "
            f"the fastest device: {self._gain_tlc(slow):.3g} times as fast as this host."
        )


def _in_words(step: Step, is_first: bool = True) -> str:
    known = _INSIDE | _OUTSIDE
    what = known.get(step.where, f"An {step.where} with the simulated flash")
    return f"{what if is_first else what[0].lower() + what[1:]} ({step.name})"


def _with_tlc(step: Step) -> float:
    """Targets/s with flash of three bits per cell; the rate of this host does not change."""
    return step.targets_per_s if step.tlc_targets_per_s is None else step.tlc_targets_per_s
