#include "oracle/report/markup.h"

#include "dump/schema/text.h"

namespace tilescope {

std::string markup_escaped(std::string_view text) {
    std::string result;
    std::string shown = readable(text);
    // XML has no U+FFFE and U+FFFF.
    for (const std::string_view absent : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
        for (std::size_t at = shown.find(absent); at != std::string::npos; at = shown.find(absent, at))
            shown.replace(at, absent.size(), "?");
    }
    for (const char c : shown) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                result += c;
        }
    }
    return result;
}

}  // namespace tilescope
