#include "oracle/program/attention_state.h"

#include "dump/schema/semantics.h"
#include "dump/schema/text.h"

namespace tilescope {

StateText::StateText(const AttentionText& of)
    : p_(of.p), backwards_(of.u.kv_order == KvOrder::reverse), has_seen_(hides_with_number(of)) {}

std::string StateText::carried_in_split(const std::string& state, const std::string& start) const {
    if (!p_.is_split()) return state;
    return fmt::format("({} where {} else {})", state, goes_on_in_split(), start);
}

std::string StateText::carried(const std::string& state, const std::string& start) const {
    std::vector<std::string> parts;
    if (p_.is_split()) parts.push_back(goes_on_in_split());
    if (has_seen_) parts.emplace_back("(seen.before > 0.0 or seen == 0.0)");
    if (parts.empty()) return state;
    return fmt::format("({} where {} else {})", state, joined(parts, " and "), start);
}

StateText::Start StateText::start(const std::string& with_sink, const std::string& without) const {
    if (p_.sink != AttentionSink::first) return {without, without};
    if (!p_.is_split()) return {with_sink, with_sink};
    const bool begins_with_first = !backwards_ || p_.splits() == 1;
    const std::int64_t next = p_.kv_tiles_per_split > 0 ? p_.kv_tiles_per_split : p_.split_starts.front();
    return {begins_with_first ? with_sink : without,
            fmt::format("({} where j < {} * block_n else {})", with_sink, next, without)};
}

std::string StateText::ended() const {
    if (!p_.is_split()) return "";
    return fmt::format(".after({})", backwards_ ? first_key() : next_key() + " - 1");
}

std::string StateText::at_end(const std::string& state, const std::string& start) const {
    if (!has_seen_) return state + ended();
    return fmt::format("({}{} where seen{} > 0.0 else {})", state, ended(), ended(), start);
}

/// Whether the block is of the split of the one taken before: backwards a block begins one where the next is of another.
std::string StateText::goes_on_in_split() const {
    const std::string edge = backwards_ ? "j + block_n" : "j";
    if (p_.kv_tiles_per_split > 0)
        return fmt::format("{} % ({} * block_n) > 0", backwards_ ? "(j + block_n)" : "j",
                           p_.kv_tiles_per_split);
    std::vector<std::string> parts;
    for (const std::int64_t start : p_.split_starts)
        parts.push_back(fmt::format("{} != {} * block_n", edge, start));
    return joined(parts, " and ");
}

/// Of split z.
std::string StateText::first_key() const {
    if (p_.kv_tiles_per_split > 0) return fmt::format("z * {} * block_n", p_.kv_tiles_per_split);
    std::string text = "0";
    for (std::size_t i = 0; i < p_.split_starts.size(); ++i)
        text = fmt::format("({} * block_n where z > {} else {})", p_.split_starts[i], i, text);
    return text;
}

/// Behind split z.
std::string StateText::next_key() const {
    if (p_.kv_tiles_per_split > 0)
        return fmt::format("min((z + 1) * {} * block_n, seqlen_kv)", p_.kv_tiles_per_split);
    std::string text = "seqlen_kv";
    for (std::size_t i = p_.split_starts.size(); i > 0; --i)
        text = fmt::format("({} * block_n where z < {} else {})", p_.split_starts[i - 1], i, text);
    return text;
}

}  // namespace tilescope
