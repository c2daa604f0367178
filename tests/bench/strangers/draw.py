"""Drawing recordings: candidates in batches of one compilation, of which those with an effect are kept."""

import collections
import dataclasses
import itertools

import numpy as np

from strangers import call, effect, grammar, problem, record, sites, text

BATCH = 24  # candidates of one compilation, at most
SHAPES = 8  # tries to find a second shape on which the mistake has an effect


@dataclasses.dataclass
class Candidate:
    """What was drawn, before anything ran."""

    number: int
    rng: np.random.Generator
    problem: problem.Problem
    mistakes: list
    recorded: list  # names of stages

    @property
    def changes(self):
        return {mistake.site.name: mistake.text for mistake in self.mistakes}


@dataclasses.dataclass
class Run:
    """One recording, and the effect of each mistake in it."""

    problem: problem.Problem
    inputs: dict
    stages: dict
    effects: list


def active_sites(p, direction):
    """The sites that a kernel reaches on this problem."""
    size, _ = call.sizes(p)
    names = size | {"CAP": p.cap, "STALE": p.stale}
    return [site for site in sites.TABLES[direction] if not site.needs or eval(site.needs, {}, names)]


def draw_candidate(options, number):
    rng = np.random.default_rng([options.seed, number])
    families = ["noise" if options.noise else problem.pick(rng, *grammar.FAMILIES) for _ in range(options.mistakes)]
    p = problem.draw(rng, options.direction == "backward")
    while not all(grammar.sites_of(family, active_sites(p, options.direction)) for family in families):
        p = problem.draw(rng, options.direction == "backward")
    mistakes, healthy = [], text.expressions(options.direction)
    while len(mistakes) < options.mistakes:
        drawn = grammar.draw_mistake(rng, families[len(mistakes)], active_sites(p, options.direction), healthy)
        if drawn and drawn.site.name not in [other.site.name for other in mistakes]:
            mistakes.append(drawn)
    return Candidate(number, rng, p, mistakes, record.choose_stages(rng, p, options.recorded, options.direction))


def kernels_of(candidate):
    """The changes of each kernel that a candidate needs: its own, and of a pair each mistake alone."""
    alone = [{mistake.site.name: mistake.text} for mistake in candidate.mistakes] if len(candidate.mistakes) > 1 else []
    return [candidate.changes, *alone]


def run_candidate(candidate, p, healthy, functions, direction):
    """A Run, or the reason why the candidate has no effect. What a mistake of a pair does shows beside the other alone."""
    inputs = problem.draw_inputs(p, direction == "backward")
    stages = call.run(functions[0], p, inputs, direction)
    references = functions[:0:-1] or [healthy]
    everything = set(candidate.recorded) >= set(call.TILES[direction])
    effects = []
    for reference in references:
        right = call.run(reference, p, inputs, direction)
        bounds = effect.bounds(reference, p, inputs, right, everything, direction)
        found = effect.first_effect(p, stages, right, bounds, candidate.recorded)
        if isinstance(found, str):
            return found
        effects.append(found)
    return Run(p, inputs, stages, effects)


def run_on_another_shape(candidate, first, healthy, functions, direction):
    """The same kernel on other sizes, where its mistakes show in the same stages."""
    for _ in range(SHAPES):
        p = problem.on_another_shape(first.problem, candidate.rng)
        second = run_candidate(candidate, p, healthy, functions, direction)
        if not isinstance(second, str) and [e.stage for e in second.effects] == [e.stage for e in first.effects]:
            return second
    return "no second shape"


def draw_runs(options, dropped):
    """Yields candidates and their runs, two with options.second; counts in dropped why others were not kept. Each family
    has its share of the count."""
    healthy = text.compile_kernels(options.direction, [{}])[0]
    kept = collections.Counter()
    share = -(-options.count // len(grammar.FAMILIES)) if options.mistakes == 1 and not options.noise else options.count
    batch = min(BATCH, 2 * options.count)

    def wanted(candidate):
        return kept[candidate.mistakes[0].family] < share

    for begin in itertools.count(0, batch):
        candidates = [draw_candidate(options, number) for number in range(begin, begin + batch)]
        candidates = [candidate for candidate in candidates if wanted(candidate)]
        kernels = [kernels_of(candidate) for candidate in candidates]
        functions = iter(text.compile_kernels(options.direction, [changes for each in kernels for changes in each]))
        for candidate, changes in zip(candidates, kernels):
            own = list(itertools.islice(functions, len(changes)))
            runs = [run_candidate(candidate, candidate.problem, healthy, own, options.direction)]
            if options.second and not isinstance(runs[0], str):
                runs.append(run_on_another_shape(candidate, runs[0], healthy, own, options.direction))
            reasons = [run for run in runs if isinstance(run, str)]
            dropped.update(reasons)
            if not reasons and wanted(candidate):
                kept[candidate.mistakes[0].family] += 1
                yield candidate, runs


def draw_healthy(options, dropped):
    """Yields kernels without a mistake."""
    healthy = text.compile_kernels(options.direction, [{}])[0]
    for number in itertools.count():
        rng = np.random.default_rng([options.seed, number])
        p = problem.draw(rng, options.direction == "backward")
        candidate = Candidate(number, rng, p, [], record.choose_stages(rng, p, options.recorded, options.direction))
        inputs = problem.draw_inputs(p, options.direction == "backward")
        yield candidate, [Run(p, inputs, call.run(healthy, p, inputs, options.direction), [])]
