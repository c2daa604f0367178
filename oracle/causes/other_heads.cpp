#include "oracle/causes/other_heads.h"

#include <algorithm>

namespace tilescope {

std::vector<OtherHead> other_heads(const Evidence& evidence, Coordinate own, std::int64_t count) {
    constexpr std::int64_t most = 16;
    std::vector<OtherHead> others;
    if (count == 1) return others;
    if (own == Coordinate::head && evidence.problem().heads != evidence.problem().heads_kv)
        others.push_back({Coordinate::kv_head, 0});
    others.push_back({own + Expr(1)});
    others.push_back({own + Expr(-1)});
    for (std::int64_t head = 0; head < std::min(count, most); ++head) others.push_back({head});
    return others;
}

std::vector<OtherHead> other_heads(const Evidence& evidence) {
    return other_heads(evidence, Coordinate::head, evidence.problem().heads);
}

}  // namespace tilescope
