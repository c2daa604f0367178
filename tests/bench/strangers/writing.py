"""Writing what was drawn: the recordings and the truth beside them."""

import dataclasses
import itertools
import json

from strangers import call, draw, grammar, problem, record, text


def add_kinds(parser):
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--healthy", action="store_true", help="no mistake: legal variations, declared")
    kinds.add_argument("--misdeclared", action="store_true", help="no mistake, but one declaration is not true")
    kinds.add_argument("--pairs", action="store_true", help="two mistakes, each with an effect beside the other")
    kinds.add_argument("--noise", action="store_true", help="noise in one place, of which no description is short")


def kind_of(options):
    return next((kind for kind in ("healthy", "misdeclared", "pairs", "noise") if getattr(options, kind)), "mistake")


def truth_of_mistake(direction, mistake, effect, size):
    return dict(family=mistake.family, place=mistake.site.place, site=mistake.site.name, production=mistake.production,
                scope=mistake.scope, guard=mistake.guard, holds=grammar.holds(mistake.guard, size), stage=effect.stage,
                elements=effect.elements, compared=effect.compared,
                diff=text.changed_lines(direction, {mistake.site.name: mistake.text}))


def truth_of(options, candidate, run, declared):
    order = call.TILES[options.direction] + list(call.OUTPUTS[options.direction])
    stages = [effect.stage for effect in run.effects]
    true, said = dataclasses.asdict(run.problem), dataclasses.asdict(declared)
    size = call.sizes(run.problem)[0]
    mistakes = [truth_of_mistake(options.direction, *pair, size) for pair in zip(candidate.mistakes, run.effects)]
    return dict(kind=kind_of(options), number=candidate.number, direction=options.direction, problem=true,
                recorded=candidate.recorded, stage=min(stages, key=order.index) if stages else None,
                misdeclared={name: [true[name], said[name]] for name in true if true[name] != said[name]},
                mistakes=mistakes)


def write_run(options, name, candidate, run, declared):
    record.write(options.out / name, declared, run.inputs, run.stages, candidate.recorded, options.direction)


def write_strangers(options, dropped):
    """Writes options.count of them and yields the truth of each."""
    options.direction = "backward" if options.backward else "forward"
    options.mistakes = 2 if options.pairs else 1
    draws = draw.draw_healthy if options.healthy or options.misdeclared else draw.draw_runs
    for index, (candidate, runs) in enumerate(itertools.islice(draws(options, dropped), options.count)):
        name = f"{index:05}"
        first = runs[0]
        declared = first.problem
        if options.misdeclared:
            declared = problem.misdeclare(first.problem, candidate.rng, options.backward)
        truth = truth_of(options, candidate, first, declared) | dict(recording=name + ".h5", second=None)
        write_run(options, truth["recording"], candidate, first, declared)
        for second in runs[1:]:
            truth["second"] = name + "_second.h5"
            truth["second_problem"] = dataclasses.asdict(second.problem)
            size = call.sizes(second.problem)[0]
            truth["second_holds"] = [grammar.holds(mistake.guard, size) for mistake in candidate.mistakes]
            write_run(options, truth["second"], candidate, second, second.problem)
        (options.out / (name + ".json")).write_text(json.dumps(truth, indent=1) + "\n")
        yield truth
