"""The answer for somebody who might buy a device, in numbers and in words.

What must not live here: how anything of it is found (see `buying`).
"""

from dataclasses import asdict, dataclass
from typing import Any

from .chain import HERE, URING, Step, rank
from .glossary import constant_in_words, in_words
from .host import Host
from .room import Room
from .runs import Runs

# Less than that, and the simpler device is the one to have.
NEARLY = 0.95
# Where a modelled rate is within this factor of the measured one, nothing is said of it.
_ALIKE = 1.3
_INSIDE = {
    "cores of the SSD": "An SSD whose controller cores sample",
    "dies of the SSD": "An SSD whose flash dies sample",
}


@dataclass
class Sensitivity:
    """What a gain over this host becomes with another value of one constant.

    Attributes:
        name: Of the constant.
        value: That it has.
        with_half: Times this host with half of the value.
        with_double: Times this host with double of it.
    """

    name: str
    value: float
    with_half: float
    with_double: float


@dataclass
class Answer:
    """What one has, and what one could have.

    Attributes:
        host: What was measured of the disk and the processor.
        room: What the graph takes of memory.
        reading: How this host's loader reads: see `Watched`; "modelled" where none could be run.
        is_steady: Whether the loader's rate was steady when it was watched.
        modelled_targets_per_s: Of this host by the model, beside what `steps` says of it.
        steps: This host, the uncached reader, an ordinary SSD ("CC-uring": the loader's requests on
            the simulated flash), and every platform; the simplest first.
        over_cc: Targets a second of each platform over those of the publication's baseline, CC.
        sensitive: The platform that `sensitivities` is about: the fastest.
        sensitivities: The constants that move its gain most; it is most sensitive to the first.
        sense_us: Microseconds in which the simulated flash senses a page, on average.
        seeds: Of the draws; `steps` has their medians, least and most.
        runs: Every platform's run with the first seed.
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
        """The step of this name."""
        return next(step for step in self.steps if step.name == name)

    @property
    def here(self) -> Step:
        """This host."""
        return self.step(HERE)

    @property
    def speedups(self) -> dict[str, float]:
        """By step, targets a second over those of this host."""
        return {step.name: step.targets_per_s / self.here.targets_per_s for step in self.steps}

    @property
    def best(self) -> str:
        """The fastest of all that one could have, this host included."""
        return max(self._for_sale(), key=lambda step: step.targets_per_s).name

    @property
    def recommended(self) -> str:
        """The simplest step that does 95 % of what the best does; this host if the graph fits in
        its memory."""
        return self._simplest({step.name: step.targets_per_s for step in self._for_sale()})

    @property
    def recommended_tlc(self) -> str:
        """The same where all simulated flash has three bits a cell."""
        return self._simplest({step.name: _with_tlc(step) for step in self._for_sale()})

    def _simplest(self, speeds: dict[str, float]) -> str:
        if self.room.fits:
            return HERE
        enough = NEARLY * max(speeds.values())
        found = [name for name, speed in speeds.items() if speed >= enough]
        return min(found, key=lambda name: rank(name) or 0)

    def stages(self) -> list[Step]:
        """The chain: this host, its loader with an ordinary SSD, then the fastest with one whose
        cores sample, and with one whose dies do; stages that were not simulated are left out."""
        groups = [[s for s in self.steps if s.where == where] for where in _INSIDE]
        fastest = [max(group, key=lambda step: step.targets_per_s) for group in groups if group]
        return [self.here, self.step(URING), *fastest]

    def sentences(self) -> list[str]:
        """What to buy, what it gains, what it depends on."""
        return [*self.to_buy(), *self.gains(), *self.dependence()]

    def words(self) -> str:
        """The answer in some sentences."""
        return " ".join(self.sentences())

    def plain(self) -> dict[str, Any]:
        """All but the runs, for JSON."""
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
        """What follows for a buyer."""
        said = [self.room.words()]
        if self.room.fits:
            return [*said, "Buy nothing: no device reads what is in memory anyway."]
        return [*said, *self._choice()]

    def gains(self) -> list[str]:
        """This host, and how many times as many targets a second each stage makes."""
        said = [self._of_here()]
        before = self.here
        for step in self.stages()[1:]:
            text = f"{_in_words(step)}: {self._gain(step):.3g} times this host"
            if before is not self.here:
                text += f", {step.targets_per_s / before.targets_per_s:.3g} times {before.name}"
            said.append(f"{text}; bound by {in_words(step.bound_by)}.")
            before = step
        return said

    def dependence(self) -> list[str]:
        """Flash and constants that the answer depends on."""
        said = []
        if not self.room.fits:
            fast, slow = self.step(self.best), self.step(self.recommended_tlc)
            said.append(
                f"The flash: {fast.name} is {self._gain(fast):.3g} times as fast as this host with "
                f"senses of {self.sense_us:.3g} us, and {self._gain_tlc(fast):.3g} times with TLC "
                f"flash. {self._choice_tlc(slow)}"
            )
        if self.sensitivities:
            one = self.sensitivities[0]
            said.append(
                f"The gain of {self.sensitive} is most sensitive to {constant_in_words(one.name)}: "
                f"with half of it {one.with_half:.3g} times this host, with double "
                f"{one.with_double:.3g}."
            )
        if self.reading == "modelled":
            said.append(
                "This host is modelled, not measured: no loader could be run for this graph."
            )
        elif not self.is_steady:
            said.append(
                "This host's rate was still changing when it was measured; give it longer to "
                "warm up before you rely on it."
            )
        ratio = self.modelled_targets_per_s / self.here.targets_per_s
        if self.reading != "modelled" and not 1 / _ALIKE <= ratio <= _ALIKE:
            said.append(
                f"The model makes this host {ratio:.2g} times as fast as it was measured, so what "
                "another SSD would gain is uncertain by as much."
            )
        return said

    def _gain(self, step: Step) -> float:
        return step.targets_per_s / self.here.targets_per_s

    def _gain_tlc(self, step: Step) -> float:
        return _with_tlc(step) / self.here.targets_per_s

    def _for_sale(self) -> list[Step]:
        return [step for step in self.steps if rank(step.name) is not None]

    def _of_here(self) -> str:
        rate = f"Compared with this host: {self.here.targets_per_s:,.0f} targets/s"
        bound = f"bound by {in_words(self.here.bound_by)}"
        if self.reading == "modelled":
            return f"{rate} (modelled), {bound}."
        return f"{rate} (measured; the model says {self.modelled_targets_per_s:,.0f}), {bound}."

    def _choice(self) -> list[str]:
        chosen, best = self.step(self.recommended), self.step(self.best)
        if chosen.name == HERE:
            return ["Buy nothing: this host makes 95 % of what the best of these devices would."]
        text = f"Of the simulated designs, which are no products yet: {_in_words(chosen, False)}"
        gains = f"{self._gain(chosen):.3g} times as fast as this host"
        text += f", {gains}, or {self._gain_tlc(chosen):.3g} times with TLC flash."
        if chosen.name != best.name:
            return [
                f"{text} It is the simplest that makes 95 % of what the best, {best.name}, does."
            ]
        simpler = [s for s in self._for_sale() if (rank(s.name) or 0) < (rank(best.name) or 0)]
        next_best = max(simpler, key=lambda step: step.targets_per_s)
        share = 100 * next_best.targets_per_s / best.targets_per_s
        return [f"{text} The fastest simpler one, {next_best.name}, reaches {share:.0f} % of that."]

    def _choice_tlc(self, slow: Step) -> str:
        if slow.name == self.recommended:
            return "The choice stays the same."
        gain = self._gain_tlc(slow)
        return f"Then {slow.name} is the simplest that makes 95 % of the best: {gain:.3g} times."


def _in_words(step: Step, is_first: bool = True) -> str:
    what = _INSIDE.get(step.where, f"An {step.where} of the simulated flash")
    return f"{what if is_first else what[0].lower() + what[1:]} ({step.name})"


def _with_tlc(step: Step) -> float:
    """Targets a second with flash of three bits a cell; of this host as it is."""
    return step.targets_per_s if step.tlc_targets_per_s is None else step.tlc_targets_per_s
