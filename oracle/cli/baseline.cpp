#include "oracle/cli/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "dump/file/saved_name.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// What a section says, a line each.
struct BaselineKey {
    std::string_view name;
    std::string KnownDivergence::*value;
};
constexpr std::array baseline_keys = {
    BaselineKey{"stage", &KnownDivergence::stage},   BaselineKey{"place", &KnownDivergence::place},
    BaselineKey{"cause", &KnownDivergence::cause},   BaselineKey{"wrong_too", &KnownDivergence::wrong_too},
    BaselineKey{"reason", &KnownDivergence::reason},
};

std::string trimmed(std::string_view text) {
    constexpr std::string_view blank = " \t\r";
    const std::size_t begin = text.find_first_not_of(blank);
    if (begin == std::string_view::npos) return "";
    return std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

[[noreturn]] void fail_at(const std::string& path, std::size_t line, const std::string& what,
                          const std::string& what_to_do) {
    throw Error(what, fmt::format("{}:{}", path, line), what_to_do);
}

void require_whole(const std::string& path, const KnownDivergence& known) {
    if (known.stage.empty())
        fail_at(path, known.first_line, known.recording + " has no stage",
                "write stage = and the first wrong one");
    if (known.reason.empty())
        fail_at(path, known.first_line, known.recording + " has no reason",
                "write reason = and why this divergence is accepted");
}

void read_assignment(const std::string& path, std::size_t line, const std::string& text,
                     KnownDivergence& known) {
    const std::size_t equals = text.find('=');
    const std::string name = trimmed(std::string_view(text).substr(0, equals));
    const auto key = std::ranges::find(baseline_keys, name, &BaselineKey::name);
    if (equals == std::string::npos || key == baseline_keys.end())
        fail_at(path, line, text + " is no line of a baseline",
                "write [recording], or one of stage, place, cause, wrong_too and reason, = and what it is");
    known.*(key->value) = trimmed(std::string_view(text).substr(equals + 1));
}

/// Whether the path ends with the name, whole folders and file, whichever process saved it.
bool is_of(const KnownDivergence& known, const std::string& recording) {
    const std::string name = path_in_every_run(known.recording);
    const std::string path = path_in_every_run(recording);
    if (!path.ends_with(name)) return false;
    const std::size_t before = path.size() - name.size();
    return before == 0 || path[before - 1] == '/' || name.starts_with('/');
}

bool is_the_same(const KnownDivergence& known, const JudgedRecording& judged) {
    return is_of(known, judged.recording) && known.stage == judged.stage &&
           (known.place.empty() || known.place == judged.place) &&
           (known.cause.empty() || known.cause == judged.cause) && known.wrong_too == judged.wrong_too;
}

bool diverges(const JudgedRecording& judged) {
    return judged.came == Came::diverged || judged.came == Came::known;
}

std::string lines_of(const KnownDivergence& known) {
    if (known.first_line == known.last_line) return fmt::format("line {}", known.first_line);
    return fmt::format("lines {} to {}", known.first_line, known.last_line);
}

std::string spot_of(std::string_view stage, std::string_view place, std::string_view cause) {
    std::string text(stage);
    if (!place.empty()) text += fmt::format(" at {}", place);
    if (!cause.empty()) text += fmt::format(" ({})", cause);
    return text;
}

/// Of the recordings that the section is of, the one that came out worst; null where there is none.
const JudgedRecording* worst_in(const KnownDivergence& known, std::span<const JudgedRecording> all) {
    const JudgedRecording* worst = nullptr;
    for (const JudgedRecording& one : all)
        if (is_of(known, one.recording) && (worst == nullptr || one.came > worst->came)) worst = &one;
    return worst;
}

std::string path_end(const std::string& recording, std::size_t names) {
    const std::filesystem::path path(recording);
    std::filesystem::path end;
    std::size_t left = std::size_t(std::distance(path.begin(), path.end()));
    for (const std::filesystem::path& name : path)
        if (left-- <= names) end /= name;
    return end.string();
}

/// The least of its path that no other ends with.
std::string shortest_name(const JudgedRecording& judged, std::span<const JudgedRecording> all) {
    const std::string whole = path_in_every_run(judged.recording);
    for (std::size_t names = 1;; ++names) {
        const std::string end = path_end(whole, names);
        if (end == whole) return end;
        const KnownDivergence one{end, "", "", "", "", "", 0, 0};
        if (std::ranges::count_if(
                all, [&](const JudgedRecording& other) { return is_of(one, other.recording); }) == 1)
            return end;
    }
}

}  // namespace

Baseline parse_baseline(const std::string& path, std::string_view text) {
    Baseline baseline{path, {}};
    std::istringstream lines{std::string(text)};
    std::string whole;
    for (std::size_t line = 1; std::getline(lines, whole); ++line) {
        const std::string said = trimmed(whole);
        if (said.empty() || said.starts_with('#')) continue;
        if (said.starts_with('[')) {
            if (!baseline.known.empty()) require_whole(path, baseline.known.back());
            const std::string name = said.ends_with(']') ? trimmed(said.substr(1, said.size() - 2)) : "";
            if (name.empty()) fail_at(path, line, said + " names no recording", "write [recording.h5]");
            baseline.known.push_back({name, "", "", "", "", "", line, line});
        } else if (baseline.known.empty()) {
            fail_at(path, line, "no [recording] stands above " + said, "write which one it is about");
        } else {
            read_assignment(path, line, said, baseline.known.back());
            baseline.known.back().last_line = line;
        }
    }
    if (!baseline.known.empty()) require_whole(path, baseline.known.back());
    return baseline;
}

Baseline read_baseline(const std::string& path) {
    if (path.empty()) return {};
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file)
        throw Error(std::string("cannot be read: ") + std::strerror(errno), path,
                    "start a baseline with --write-baseline");
    return parse_baseline(path, text);
}

const KnownDivergence* find_known(const Baseline& baseline, const JudgedRecording& judged) {
    if (!diverges(judged)) return nullptr;
    const auto found = std::ranges::find_if(
        baseline.known, [&](const KnownDivergence& known) { return is_the_same(known, judged); });
    return found == baseline.known.end() ? nullptr : &*found;
}

std::vector<std::string> outdated_lines(const Baseline& baseline, std::span<const JudgedRecording> all) {
    std::vector<std::string> lines;
    std::size_t others = 0;
    for (const KnownDivergence& known : baseline.known) {
        const JudgedRecording* const judged = worst_in(known, all);
        const std::string where = fmt::format("{}:{}", baseline.path, known.first_line);
        if (judged == nullptr) {
            ++others;
        } else if (judged->came == Came::match) {
            lines.push_back(fmt::format("{}: {} no longer diverges in {}; delete {}", where, known.recording,
                                        known.stage, lines_of(known)));
        } else if (judged->came == Came::diverged) {
            lines.push_back(
                fmt::format("{}: {} is known to diverge in {}, and does in {}; mend it, or change {}", where,
                            known.recording, spot_of(known.stage, known.place, known.cause),
                            spot_of(judged->stage, judged->place, judged->cause), lines_of(known)));
        }
    }
    if (others > 0 && all.size() > 1)
        lines.push_back(
            fmt::format("{}: {} of its sections {} of recordings that were not judged; judge those as "
                        "well, or delete the sections",
                        baseline.path, others, others == 1 ? "is" : "are"));
    return lines;
}

std::string baseline_text(std::span<const JudgedRecording> all, const Baseline& before) {
    std::string text =
        "# Known divergences, for tile-diff --baseline. Each needs a reason. Without a place or a cause any "
        "is\n"
        "# accepted; a further stage that is wrong by itself stands in wrong_too.\n";
    for (const JudgedRecording& judged : all) {
        if (!diverges(judged)) continue;
        if (judged.recording.find('\n') != std::string::npos)
            throw Error("has a line end in its name, which a baseline cannot hold", judged.recording,
                        "rename it");
        const KnownDivergence* const known = find_known(before, judged);
        text += fmt::format("\n# {}\n[{}]\nstage = {}\n", one_line(judged.headline),
                            shortest_name(judged, all), judged.stage);
        if (!judged.place.empty()) text += fmt::format("place = {}\n", judged.place);
        if (!judged.cause.empty()) text += fmt::format("cause = {}\n", judged.cause);
        if (!judged.wrong_too.empty()) text += fmt::format("wrong_too = {}\n", judged.wrong_too);
        text +=
            fmt::format("reason ={}{}\n", known == nullptr ? "" : " ", known == nullptr ? "" : known->reason);
    }
    return text;
}

}  // namespace tilescope
