#include "oracle/causes/formulas.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <ranges>
#include <utility>

#include "oracle/causes/formula_change.h"
#include "oracle/causes/formula_names.h"
#include "oracle/program/build.h"
#include "oracle/program/carried.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/formula_changes.h"
#include "oracle/program/formula_parts.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// Elements of all stages: the program computes each of them.
constexpr std::int64_t most_elements = 1 << 22;
/// Elements that the search computes, in two to four seconds of one core.
constexpr std::int64_t most_searched = 310'000'000;
/// What a formula of so many bits is free to choose counts as one fitted parameter.
constexpr double bits_of_parameter = 12;

/// Of scores and probabilities, of the state after each KV tile, and of staged operands.
std::int64_t elements_of(const Problem& p) {
    const std::int64_t of_head = 4 * p.seqlen_q * p.seqlen_kv + p.seqlen_q * p.head_dim_v * p.kv_tiles() +
                                 p.q_blocks() * p.seqlen_kv * (p.head_dim + p.head_dim_v);
    return p.batch * p.heads * of_head;
}

/// Whether the formula of the stage is what the array holds, if rounded.
bool is_that_or_its_cast(const Program& program, Stage stage, int array) {
    const int number = program.array_named(stage_info(stage).name);
    if (number == array) return true;
    const ProgramNode* node = &program.node(program.array(number).value);
    while (node->op == ProgramOp::cast) node = &program.node(node->of[0]);
    return node->op == ProgramOp::read && node->what == array;
}

/// Stored to memory of all heads, and not to a tile of its own.
bool is_global(Stage stage) {
    return stage == Stage::o || stage == Stage::lse || stage == Stage::dq || stage == Stage::dk ||
           stage == Stage::dv;
}

Candidate candidate_of(const Evidence& evidence, const std::shared_ptr<const FormulaChange>& formula) {
    const Stage stage = evidence.observed;
    const Program* const found_in = formula->found_in.get();
    const ProgramMistake& mistake = formula->mistake;
    Candidate candidate;
    const ProgramArray& made_in = found_in->array(mistake.stage);
    const int declared = mistake.is_start ? made_in.start : made_in.value;
    candidate.name =
        name_of_formula(*found_in, evidence.problem(), evidence.units().p_scale,
                        {made_in.name, declared, mistake.value, mistake.condition, mistake.is_start});
    if (mistake.store)
        candidate.name = mistake.store->behind < 0 ? output_stored_elsewhere_name : rows_stored_past_end_name;
    candidate.parameters = {{made_in.name, mistake.becomes}};
    candidate.free_parameters = int(bits_to_choose(mistake) / bits_of_parameter);
    // What a state begins with is no number that another stage was recorded to have.
    candidate.is_made_before = !mistake.is_start && !is_that_or_its_cast(*found_in, stage, mistake.stage);
    candidate.explains_others = mistake.explains_others;
    candidate.where = mistake.where;
    candidate.bits = mistake.bits;
    candidate.slots = slots_of(*found_in, mistake);
    if (!mistake.is_start && !mistake.store) {
        candidate.parts = changed_parts(*found_in, made_in.value, mistake.value);
        candidate.lacks_guard = lacks_guard(*found_in, made_in.value, mistake.value);
        candidate.race_alike = takes_other_block(*found_in, made_in.value, mistake.value);
    }
    candidate.change = change_in(formula, stage);
    // Whatever is computed from that stage has it, if nobody recorded it.
    const std::optional<Stage> made = stage_from_name(made_in.name);
    const bool is_everywhere = mistake.condition < 0 && !mistake.is_start && !mistake.store;
    if (made && *made != stage && is_everywhere && !evidence.world->has(*made))
        candidate.made = std::pair(*made, change_in(formula, *made));
    return candidate;
}

/// The program of a kernel with what is known of it already; null: not all of that is a formula.
std::shared_ptr<const RecordedProgram> program_beside(const Evidence& evidence, MergedFrom merged_from,
                                                      std::shared_ptr<const FormulaChange>& beside) {
    const CauseSearch& world = *evidence.world;
    if (evidence.known.size() > 1) return nullptr;
    if (!evidence.known.empty() && !evidence.known.front().where) beside = evidence.known.front().formula;
    const std::shared_ptr<const MaybeProgram> known =
        program_of(world, beside ? beside->merged_from : merged_from);
    if (!*known) return nullptr;
    if (evidence.known.empty()) return {known, known->get()};
    std::optional<Program> with = beside ? program_with(*beside, (*known)->program) : std::nullopt;
    if (!with) return nullptr;
    return std::make_shared<const RecordedProgram>(world.recording(), *std::move(with), (*known)->given);
}

std::vector<Candidate> searched_formulas(const Evidence& evidence, MergedFrom merged_from) {
    const CauseSearch& world = *evidence.world;
    const bool is_bounded = world.attempts().left() < Effort::unbounded / 2;
    std::shared_ptr<const FormulaChange> beside;
    const std::shared_ptr<const RecordedProgram> own = program_beside(evidence, merged_from, beside);
    if (!own) return {};
    const bool is_whole = evidence.known.empty();
    if (is_bounded && elements_of(world.recording().problem()) > most_elements) {
        if (is_whole) world.leave_formulas_open();
        return {};
    }
    const int observed = own->program.array_named(stage_info(evidence.observed).name);
    ProgramOptions options;
    const auto judged = [&] { return judge_program(own->call, own->stored, options); };
    const char* const once =
        merged_from == MergedFrom::outputs ? "judged program" : "judged program of states";
    ProgramReport report = is_whole ? *world.once<ProgramReport>(once, judged) : judged();
    report.first_wrong = observed;
    const bool is_wrong = std::ranges::any_of(report.stages, [&](const StageVerdict& verdict) {
        return verdict.stage == report.first_wrong && verdict.outside > 0;
    });
    if (!is_wrong) return {};
    options.searched_elements = is_bounded ? most_searched : std::numeric_limits<std::int64_t>::max();
    options.tells_parts = true;
    options.searches_stores = is_global(evidence.observed);
    options.is_known_mistake = [&](const Program& program, int stage, int value, bool is_start) {
        const ProgramArray& array = program.array(stage);
        return is_known_formula(program, evidence.problem(), evidence.units().p_scale,
                                {array.name, is_start ? array.start : array.value, value, -1, is_start});
    };
    const FoundMistakes found = find_mistakes(own->call, own->stored, report, options);
    std::vector<Candidate> candidates;
    for (const ProgramMistake& mistake : found.mistakes) {
        // Many mistakes leave no number: of those that leave none anywhere it tells nothing.
        if (mistake.is_none) continue;
        // Anything may stand where nothing is stored: other causes say more.
        if (mistake.store && is_mostly_open(mistake)) continue;
        const auto formula = std::make_shared<const FormulaChange>(
            FormulaChange{found.program, mistake, beside, beside ? beside->merged_from : merged_from});
        candidates.push_back(candidate_of(evidence, formula));
    }
    if (candidates.empty() && found.is_cut_off && is_whole) world.leave_formulas_open();
    return candidates;
}

bool explains_all(const Candidate& candidate) {
    return !candidate.change.formula->mistake.is_part;
}

/// Where splits that are merged from their outputs do not explain all, they may be merged from their states.
std::vector<Candidate> searched_formulas(const Evidence& evidence) {
    std::vector<Candidate> found = searched_formulas(evidence, MergedFrom::outputs);
    const bool is_merged = evidence.observed == Stage::o || evidence.observed == Stage::lse;
    if (!is_merged || !evidence.known.empty() || std::ranges::any_of(found, explains_all)) return found;
    std::vector<Candidate> of_states = searched_formulas(evidence, MergedFrom::states);
    return found.empty() || std::ranges::any_of(of_states, explains_all) ? of_states : found;
}

/// Those of a stage without another mistake in it, which are the same for each part of the evidence: searched for once.
struct KnownFormulas {
    std::mutex searching;
    bool has_begun = false;
    std::vector<Candidate> all;
};

std::vector<Candidate> formulas_of(const Evidence& evidence) {
    const CauseSearch& world = *evidence.world;
    if (!evidence.direct() || !evidence.beneath.empty() || world.leaves_out(formula_name)) return {};
    if (!evidence.known.empty()) return searched_formulas(evidence);
    const auto known = *world.once<std::shared_ptr<KnownFormulas>>(
        "formulas of " + std::string(stage_info(evidence.observed).name),
        [] { return std::make_shared<KnownFormulas>(); });
    const std::scoped_lock lock(known->searching);
    // What does not come to its end is not begun again.
    if (!std::exchange(known->has_begun, true)) known->all = searched_formulas(evidence);
    return known->all;
}

}  // namespace

namespace {

bool contains(const Program& program, int formula, int part) {
    if (formula < 0 || are_alike(program, formula, part)) return formula >= 0;
    return std::ranges::any_of(program.node(formula).of,
                               [&](int operand) { return contains(program, operand, part); });
}

bool leaves_out_terms(const Program& program, const FormulaPart& part) {
    if (!part.is_in_sum || part.condition < 0 || part.is.size() != 1 || part.is[0].node < 0) return false;
    return is_number(program, part.is[0].node, 0);
}

/// Whether the second change is made in what the first one put there, beside that, or in the place of one of both; what the first one
/// left as it was in the middle of that is not its own.
bool are_of_one_place(const Program& program, const FormulaPart& first, const FormulaPart& second) {
    const auto is_around = [&](const FormulaPiece& piece) {
        return std::ranges::any_of(second.around,
                                   [&](int number) { return are_alike(program, number, piece.node); });
    };
    const auto is_in = [&](const FormulaPiece& piece) {
        return is_around(piece) || std::ranges::any_of(second.was, [&](const FormulaPiece& was) {
                   return contains(program, was.node, piece.node);
               });
    };
    const auto is_replaced = [&](const FormulaPiece& piece) {
        return std::ranges::any_of(second.was, [&](const FormulaPiece& was) {
            return was.node >= 0 && are_alike(program, was.node, piece.node);
        });
    };
    const auto is_known = [](const FormulaPiece& piece) { return piece.node >= 0; };
    // Which terms are left out is not what they are.
    if (leaves_out_terms(program, second)) return false;
    auto was = first.was | std::views::filter(is_known);
    if (std::ranges::any_of(was, is_replaced)) return true;
    return std::ranges::any_of(first.is | std::views::filter(is_known), is_in) &&
           std::ranges::none_of(was, is_around);
}

}  // namespace

std::optional<std::string_view> name_of_both(const FormulaChange& change, const Evidence& evidence) {
    const std::shared_ptr<const MaybeProgram> known = program_of(*evidence.world, change.merged_from);
    if (!*known || !change.beside || change.mistake.is_start) return std::nullopt;
    const Program& declared = (*known)->program;
    const std::optional<Program> first = program_with(*change.beside, declared);
    const std::optional<CarriedMistake> both =
        first ? carried(*change.found_in, change.mistake, *first) : std::nullopt;
    if (!both) return std::nullopt;
    const Program& program = both->program;
    const std::string& made_in = change.found_in->array(change.mistake.stage).name;
    const int stage = program.array_named(made_in);
    const int was = declared.array(stage).value;
    const int beside = first->array(stage).value;
    const int becomes = program.array(stage).value;
    const std::vector<FormulaPart> one = changed_parts_of(program, was, beside);
    const std::vector<FormulaPart> other = changed_parts_of(program, beside, becomes);
    const bool are_one = !other.empty() && std::ranges::all_of(other, [&](const FormulaPart& second) {
        return std::ranges::any_of(
            one, [&](const FormulaPart& part) { return are_of_one_place(program, part, second); });
    });
    if (!are_one) return std::nullopt;
    const std::string_view name = name_of_formula(program, evidence.problem(), evidence.units().p_scale,
                                                  {made_in, was, becomes, both->condition, false});
    return name.empty() ? formula_name : name;
}

bool hides_otherwise(const FormulaChange& change) {
    const Program& program = *change.found_in;
    const ProgramNode& declared = program.node(program.array(change.mistake.stage).value);
    const ProgramNode& becomes = program.node(change.mistake.value);
    return declared.op == ProgramOp::chosen && !change.mistake.is_start &&
           (becomes.op != ProgramOp::chosen || !are_alike(program, declared.of[1], becomes.of[1]) ||
            !are_alike(program, declared.of[2], becomes.of[2]));
}

bool is_made_beside(const FormulaChange& change) {
    return !stage_from_name(change.found_in->array(change.mistake.stage).name);
}

bool has_condition(const FormulaChange& change) {
    return change.mistake.condition >= 0;
}

bool explains_other_stages(const FormulaChange& change) {
    return change.mistake.explains_others;
}

std::vector<Stage> loads_in(const FormulaChange& change) {
    constexpr std::array<std::pair<std::string_view, Stage>, 4> inputs = {
        {{"Q", Stage::q}, {"K", Stage::k}, {"V", Stage::v}, {"dO", Stage::dout}}};
    const Program& program = *change.found_in;
    const ProgramArray& made_in = program.array(change.mistake.stage);
    std::vector<Stage> loads;
    for (const auto& [name, stage] : inputs) {
        const int input = program.array_named(name);
        const auto takes_it = [&](const FormulaPart& part) {
            return std::ranges::any_of(part.was, [&](const FormulaPiece& piece) {
                return piece.node >= 0 && reads(program, piece.node, input);
            });
        };
        if (change.mistake.is_start || input < 0) continue;
        if (std::ranges::any_of(changed_parts_of(program, made_in.value, change.mistake.value), takes_it))
            loads.push_back(stage);
    }
    return loads;
}

std::vector<Cause> formula_causes() {
    return {{formula_name,
             "formula",
             {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o,
              Stage::lse, Stage::dout, Stage::delta, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv},
             "the stage is computed by another formula than declared",
             "what stands in the kernel where the two formulas differ",
             formulas_of}};
}

}  // namespace tilescope
