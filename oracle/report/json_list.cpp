#include "oracle/report/json_list.h"

#include <nlohmann/json.hpp>

#include "oracle/report/text.h"

namespace tilescope {

namespace {

using ListJson = nlohmann::ordered_json;

std::string as_list_json(const ListJson& json) {
    return json.dump(2, ' ', true, ListJson::error_handler_t::replace);
}

}  // namespace

std::string known_json(const std::string& report, const std::string& known) {
    ListJson json = ListJson::parse(report);
    json["known"] = known;
    return as_list_json(json) + "\n";
}

std::string json_head(std::span<const JudgedRecording> all) {
    const JudgedCounts counts = count_judged(all);
    constexpr std::string_view verdicts[] = {"match", "diverged", "unjudged"};
    const ListJson head = {{"report_version", report_version},
                           {"verdict", verdicts[std::size_t(exit_code_of(all))]},
                           {"counts",
                            {{"match", counts.match},
                             {"known", counts.known},
                             {"diverged", counts.diverged},
                             {"unjudged", counts.unjudged}}}};
    std::string text = as_list_json(head);
    text.resize(text.rfind('\n'));
    return text + ",\n  \"recordings\": [\n";
}

std::string json_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits) {
    ListJson json = ListJson::parse(report_format("json")->alone(outcome, exhibits));
    json["seconds"] = judged.seconds;
    if (exhibits.known.empty()) json["known"] = nullptr;
    return as_list_json(json);
}

std::string json_tail(std::span<const JudgedRecording>) {
    return "\n  ]\n}\n";
}

}  // namespace tilescope
